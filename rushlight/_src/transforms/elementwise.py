"""Decide, by tracing an operator's body, if it computes each element of its result from the elements at the same
index."""
from __future__ import annotations

from ..core.meta import Meta
from ..core.native import Op, Tensor
from .trace import Trace, ValueNeeded

LENGTH = 2  # size of each dimension of the placeholder tensors
known: dict = {}


def is_elementwise(operator: Op, args, kwargs, opened=False) -> bool:
    """True if a call with such arguments is elementwise in all tensors among them.  ``opened``: also inspect the bodies
    of composites."""
    if operator.traits.get("composite") and (not opened or operator.traits.get("fresh")) or operator.traits.get(
            "view") and not operator.traits.get("turns"):
        return False
    key = operator, tuple(map(kind_of, args)), tuple((name, kind_of(value)) for name, value in kwargs.items())
    if key not in known:
        known[key] = seen(operator, args, kwargs)
    return known[key]


def kind_of(value):
    if type(value) in (tuple, list):
        return tuple(map(kind_of, value))
    return (value.dtype,
            value.dim()) if isinstance(value, Tensor) else value if isinstance(value, (bool, str)) else type(value)


def standing(value, enter):
    """Return an argument with ``enter(tensor)`` in place of its tensors."""
    if type(value) in (tuple, list):
        return type(value)(standing(v, enter) for v in value)
    return enter(value) if isinstance(value, Tensor) else value


def seen(operator: Op, args, kwargs) -> bool:
    trace, ranks = Trace(), []

    def enter(tensor):
        ranks.append(tensor.dim())
        return trace.input(Meta.of((LENGTH,) * tensor.dim(), tensor.dtype, tensor.device))

    args, kwargs = standing(tuple(args), enter), {name: standing(v, enter) for name, v in kwargs.items()}
    try:
        with trace:
            result = operator.body(*args, **kwargs) if operator.kind is None else trace.call(operator, args, kwargs)
    except (ValueNeeded, NotImplementedError):
        if not operator.traits.get("composite"):
            raise
        return False
    return isinstance(result, Tensor) and tuple(result.shape) == (LENGTH,) * max(ranks, default=-1) and all_elementwise(
        trace.nodes)


def all_elementwise(nodes) -> bool:
    return all_of(nodes, ("elementwise", "create", "recast"))


def all_of(nodes, kinds) -> bool:
    """True if all primitives of a program are of these kinds."""
    return all(all_of(n.inside.nodes, kinds) if n.inside is not None else n.op.kind.name in kinds for n in nodes)


def consists_of(function, args, kwargs, kinds) -> bool:
    """True if a call with exactly these arguments consists of primitives of these kinds."""
    trace = Trace()

    def enter(tensor):
        return trace.input(tensor._rush_meta)

    try:
        with trace:
            function(*standing(tuple(args), enter), **{name: standing(value, enter) for name, value in kwargs.items()})
    except (ValueNeeded, NotImplementedError):  # depends on values, or cannot be traced
        return False
    return all_of(trace.nodes, kinds)
