"""A loop with a data-dependent number of iterations."""
from __future__ import annotations

from .._src.core.native import Tensor
from .._src.core.pytree import tree_flatten, tree_leaves
from .cond import beneath, recording, unshared

__all__ = ["while_loop"]


def while_loop(cond_fn, body_fn, carried_inputs, additional_inputs=()):
    """Applies ``body_fn`` to ``carried_inputs``, a tuple of tensors, while ``cond_fn`` of them holds; both get
    ``additional_inputs`` as well.

    In compiled code both functions become programs: no break, and no new capture for another number of rounds.  They
    have no effects; ``body_fn`` gives as many tensors of the same shapes and dtypes.  Gradients flow through all
    rounds.  RuntimeError for other arguments.

    >>> import rushlight as torch
    >>> f = torch.compile(lambda n, x: torch.while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, x * 2), (n, x)), fullgraph=True)
    >>> f(torch.tensor(3), torch.ones(2))
    (tensor(0), tensor([8., 8.]))
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)) or not all(isinstance(leaf, (Tensor, int, float))
                                                                for leaf in tree_leaves(carried_inputs)):
        raise RuntimeError(
            "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only consists of tensor or "
            f"int leaves, but got {carried_inputs}.")
    recorder, level = recording()
    if level is not None:
        count = len(carried_inputs)
        return beneath(level, lambda *values, functions: while_loop(*functions, values[:count], values[count:]),
                       (cond_fn, body_fn), (*carried_inputs, *additional_inputs), test=cond_fn)
    if recorder is not None:
        return recorder.repeat(lambda: while_loop(cond_fn, body_fn, carried_inputs, additional_inputs),
                               (cond_fn, body_fn), carried_inputs, additional_inputs)
    carried = carried_inputs
    spec = tree_flatten(tuple(carried))[1]
    while holds(cond_fn(*carried, *additional_inputs)):
        result = body_fn(*carried, *additional_inputs)
        if not isinstance(result, (tuple, list)) or tree_flatten(tuple(result))[1] != spec:
            raise RuntimeError(
                f"body_fn should return a tuple nested as carried_inputs are ({spec}), but got {result}.")
        carried = result
    return unshared(tuple(carried), (tuple(carried_inputs), tuple(additional_inputs)))


def holds(condition) -> bool:
    """Return the bool of a loop's condition."""
    if not isinstance(condition, bool) and not (isinstance(condition, Tensor) and condition.numel() == 1):
        raise RuntimeError(f"cond_fn must return a boolean scalar tensor or a bool, but got {condition}.")
    return bool(condition)
