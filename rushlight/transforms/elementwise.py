"""Whether an operator computes each element of its result from the elements at the same place, seen by writing its body down."""
from __future__ import annotations

from ..core.meta import Meta
from ..core.native import Op, Tensor
from .trace import Trace

LENGTH = 2  # of the vectors that stand for tensors
known: dict = {}


def is_elementwise(operator: Op, args, kwargs) -> bool:
    """Whether a call with such arguments is elementwise in all tensors among them."""
    if operator.facts.get("composite") or operator.facts.get("view"):
        return False
    key = operator, tuple(map(kind_of, args)), tuple((name, kind_of(value)) for name, value in kwargs.items())
    if key not in known:
        known[key] = seen(operator, args, kwargs)
    return known[key]


def kind_of(value):
    return value.dtype if isinstance(value, Tensor) else value if isinstance(value, (bool, str)) else type(value)


def seen(operator: Op, args, kwargs) -> bool:
    trace = Trace()

    def standing(value):
        return trace.input(Meta.of((LENGTH,), value.dtype)) if isinstance(value, Tensor) else value

    args, kwargs = [standing(v) for v in args], {name: standing(v) for name, v in kwargs.items()}
    with trace:
        result = operator.body(*args, **kwargs) if operator.kind is None else trace.call(operator, tuple(args), kwargs)
    return isinstance(result, Tensor) and tuple(result.shape) == (LENGTH,) and all_elementwise(trace.nodes)


def all_elementwise(nodes) -> bool:
    return all(all_elementwise(n.inside.nodes) if n.inside is not None else n.op.kind.name in ("elementwise", "create") for n in nodes)
