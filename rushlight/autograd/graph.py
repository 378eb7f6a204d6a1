"""The graph of backward steps, and what it keeps: hooks on saved tensors, on nodes, on several gradients at once."""
from __future__ import annotations

import contextlib
import functools
import weakref

from .._src.core.convert import strided
from .._src.core.devices import Registry
from .._src.core.interpret import recording
from .._src.core.native import Tensor, history, sharing
from .._src.core.op import bind
from .._src.autograd import saved
from .._src.autograd.node import GradientEdge, Node, node_of  # noqa: F401
from ..utils._python_dispatch import TorchDispatchMode


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
    """A block whose saved tensors are kept in the CPU's memory, as copies.

    Args:
        pin_memory: keep them where a device of ``device_type`` copies from without waiting, if there is one.
    """

    def __init__(self, pin_memory=False, device_type="cuda"):
        def pack(tensor):
            kept = tensor.detach().to("cpu", copy=True)
            is_pinnable = pin_memory and tensor.layout is strided and Registry.of(device_type) is not None
            return tensor.device, kept.pin_memory(device_type) if is_pinnable else kept

        def unpack(packed):
            place, kept = packed
            return kept.to(place, non_blocking=pin_memory)

        super().__init__(pack, unpack)


class disable_saved_tensors_hooks(saved.hooked, contextlib.ContextDecorator):
    """A block (or decorated function) in which hooks on saved tensors raise RuntimeError with this message, as does the
    block itself where there are some already."""

    def __init__(self, error_message):
        super().__init__(str(error_message))


class Handle:
    """Handle of a saved tensor in an autograd node."""

    __slots__ = ("__weakref__",)


class Preserving(TorchDispatchMode):
    """A block that copies what backward steps need before an operator writes into it."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for written in written_by(func, args, kwargs):
            for tensor in written if isinstance(written, (list, tuple)) else (written,):
                if isinstance(tensor, Tensor):
                    self.block.preserve(tensor)
        return func(*args, **kwargs)


def written_by(func, args, kwargs) -> list:
    """The arguments of a call that an overload writes into."""
    schema, out = func.schema, [kwargs["out"]] if "out" in kwargs else []
    if schema is None:
        op = func.op
        if op is not None and op.traits.get("writes"):
            given = bind(op, args, kwargs)
            return [given[name] for name in op.traits["writes"]]
        into = None if op is None else op.traits.get("into")
        if into is not None:
            return list(args[into:into + 1])
        return out or list(args[:1] if func._opname.endswith("_") or func._schema.is_mutable else ())
    given = schema.bind(args, kwargs) or {}
    return [given.get(a.name) for a in schema.arguments if a.is_write] or out


def memory_of(tensor) -> int:
    """Return an object that identifies the memory of a tensor while the tensor lives; the tensor itself if it has
    none."""
    return id(tensor if tensor._rush_storage is None else tensor._rush_storage)


class allow_mutation_on_saved_tensors(saved.hooked):
    """A block in which tensors may be changed in place although the backward pass needs them: what is changed while a
    step needs it is copied before.

    Entered, it gives itself: ``cloned`` are the copies by what stands for them, as long as steps need them.
    RuntimeError within another such block; AssertionError for a backward pass after the block.
    """

    active = None

    def __init__(self):
        super().__init__((self.kept, self.given))
        self.clear()
        self.writes = Preserving(self)

    def kept(self, tensor):
        """Return the handle of a saved tensor, the same one until the tensor is mutated."""
        found = memory_of(tensor), tensor._rush_offset, tensor._rush_meta, tensor._version
        handle = self.tid_to_weakhandle.get(found)
        if handle is None:
            handle = self.tid_to_weakhandle[found] = Handle()
            self.original[handle] = tensor
        return self, handle

    def preserve(self, written):
        """Copies all that is kept of the memory of a tensor about to be written."""
        memory = memory_of(written)
        with saved.quiet(), recording(False):
            for found, handle in list(self.tid_to_weakhandle.items()):
                if found[0] == memory:
                    self.cloned[handle] = self.original.pop(handle).detach().clone()
                    del self.tid_to_weakhandle[found]

    @staticmethod
    def given(kept):
        """The tensor as it was, in the block that kept it."""
        block, handle = kept
        assert allow_mutation_on_saved_tensors.active is block, (
            "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
            "originally recorded.")
        return block.cloned[handle] if handle in block.cloned else block.original[handle]

    def __enter__(self):
        if allow_mutation_on_saved_tensors.active is not None:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        super().__enter__()
        self.writes.__enter__()
        allow_mutation_on_saved_tensors.active = self
        return self

    def __exit__(self, *exception):
        allow_mutation_on_saved_tensors.active = None
        self.writes.__exit__(*exception)
        self.clear()
        return super().__exit__(*exception)

    def clear(self):
        """Forgets what was kept."""
        self.tid_to_weakhandle = weakref.WeakValueDictionary()
        self.original, self.cloned = weakref.WeakKeyDictionary(), weakref.WeakKeyDictionary()


def get_gradient_edge(tensor) -> GradientEdge:
    """The edge of the graph that a tensor's gradient flows to.  RuntimeError for a tensor that wants none."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(node_of(history.edge(tensor)), tensor._rush_output)


def increment_version(tensor):
    """Counts the version of a tensor, or of several, up, as if they had been changed in place."""
    for one in [tensor] if isinstance(tensor, Tensor) else tensor:
        sharing.count_write(one)


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
