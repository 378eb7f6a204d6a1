"""The graph of backward steps, and what it keeps: hooks on saved tensors, on nodes, on several gradients at once."""
from __future__ import annotations

import contextlib
import functools
import weakref

from .._src.core.native import Tensor, history, mine, sharing
from .._src.autograd import saved
from .._src.autograd.node import GradientEdge, Node, node_of

__all__ = ["GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks",
           "get_gradient_edge", "increment_version", "register_multi_grad_hook",
           "save_on_cpu", "saved_tensors_hooks"]


class saved_tensors_hooks(saved.hooked):
    """A block in which ``pack_hook(tensor)`` decides what a backward step keeps of a tensor, and ``unpack_hook`` gives
    it back.

    TypeError in the backward pass where ``unpack_hook`` does not return a tensor.

    >>> import rushlight as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.item(), lambda number: torch.tensor(number)):
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    tensor(6.)
    """

    def __init__(self, pack_hook, unpack_hook):
        super().__init__((pack_hook, unpack_hook))

    pack_hook, unpack_hook = property(lambda self: self.pair[0]), property(lambda self: self.pair[1])


class save_on_cpu(saved_tensors_hooks):
    """A block whose saved tensors are kept in the CPU's memory, as copies."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        super().__init__(lambda tensor: tensor.detach().clone(), lambda kept: kept)


class disable_saved_tensors_hooks(saved.hooked, contextlib.ContextDecorator):
    """A block (or decorated function) in which hooks on saved tensors raise RuntimeError with this message, as does the
    block itself where there are some already."""

    def __init__(self, error_message):
        super().__init__(str(error_message))

    def __enter__(self):
        if mine.hooks and not isinstance(mine.hooks[-1], str):
            raise RuntimeError(self.pair)
        return super().__enter__()


class allow_mutation_on_saved_tensors(saved.hooked):
    """A block in which tensors may be changed in place although the backward pass needs them: it keeps copies, until
    the block ends.

    RuntimeError within another such block; AssertionError for a backward pass after the block.
    """

    active = None

    def __init__(self):
        super().__init__((self.kept, self.given))

    def kept(self, tensor):
        """The copy of a tensor that is saved."""
        return self, tensor.detach().clone()

    @staticmethod
    def given(kept):
        """The copy, in the block that made it."""
        block, copy = kept
        assert allow_mutation_on_saved_tensors.active is block, (
            "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
            "originally recorded.")
        return copy

    def __enter__(self):
        if allow_mutation_on_saved_tensors.active is not None:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        super().__enter__()
        allow_mutation_on_saved_tensors.active = self
        return self

    def __exit__(self, *exception):
        allow_mutation_on_saved_tensors.active = None
        return super().__exit__(*exception)

    def clear(self):
        """Nothing: copies belong to the steps that need them."""


def get_gradient_edge(tensor) -> GradientEdge:
    """The edge of the graph that a tensor's gradient flows to.  RuntimeError for a tensor that wants none."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(node_of(history.edge(tensor)), tensor._output)


def increment_version(tensors):
    """Counts the version of tensors up, as if they had been changed in place."""
    for tensor in [tensors] if isinstance(tensors, Tensor) else tensors:
        sharing.count_write(tensor)


class register_multi_grad_hook:
    """Calls ``fn`` with the gradients of several tensors once all have arrived (mode "all": a list, None for those
    without), or with the first (mode "any").

    ``remove()``, or leaving a ``with`` block, takes the hook away.  ValueError for another mode.
    """

    def __init__(self, tensors, fn, *, mode="all"):
        if mode not in ("all", "any"):
            raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
        tensors = tuple(tensors)
        self.fn, self.mode, self.tensors = fn, mode, [weakref.ref(t) for t in tensors]
        self.received, self.run = {}, None
        self.handles = [t.register_hook(functools.partial(self.arrived, k)) for k, t in enumerate(tensors)]

    def run_of(self, k):
        """The number of the backward pass that reached tensor k last."""
        tensor = self.tensors[k]()
        return history.edge(tensor).epoch if tensor is not None else None

    def arrived(self, k, gradient):
        run = self.run_of(k)
        if self.run != run:
            self.run, self.received = run, {}
        if self.mode == "any":
            if not self.received:
                self.received[k] = gradient
                self.fn(gradient)
            return
        self.received[k] = gradient
        if len(self.received) == sum(self.run_of(j) == run for j in range(len(self.tensors))):
            self.fn([self.received.get(j) for j in range(len(self.tensors))])

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()
