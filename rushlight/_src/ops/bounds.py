"""Elements limited to bounds."""
from __future__ import annotations

from ..core.kinds import P, sum_to
from ..core.op import op, rule, sample
from ..core.tensor import Tensor
from .promotion import as_dtype, check_number, result_dtype


@op(samples=(sample((3, 4), -0.5, 0.5),), inplace_too=True)
def clamp(input, min=None, max=None):
    """Each element limited to [min, max]; either may be None, a number or a tensor.

    >>> torch.tensor([-2., 0.5, 2.]).clamp(-1, 1)
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    dtype = result_dtype(*[v for v in (input, min, max) if v is not None])
    if dtype.is_complex:
        raise NotImplementedError("clamp is not implemented for complex numbers, which have no order")
    x = as_dtype(input, dtype)
    check_number(min, dtype)
    check_number(max, dtype)
    if min is not None:
        x = limited(P.lt, x, as_dtype(min, dtype))
    return x if max is None else limited(P.gt, x, as_dtype(max, dtype))


def limited(beyond, x, bound):
    """Return the bound where x exceeds it, or where the bound is NaN."""
    if isinstance(bound, Tensor):
        found = P.where(beyond(x, bound), bound, x)
        return found if not x.dtype.is_floating_point else P.where(P.ne(bound, bound), bound, found)
    if bound != bound:
        return P.full(shape=tuple(x.shape), value=bound, dtype=x.dtype)
    return P.where(beyond(x, bound), bound, x)


@rule(clamp)
def vjp(g, y, input, min=None, max=None):
    """Gradient to the element if it is within the bounds, ends included, to a bound if the element exceeds it; to
    neither if one is NaN."""
    x, low, high = (v if v is None else as_dtype(v, y.dtype) for v in (input, min, max))
    within = [compare(x, bound) for compare, bound in ((P.ge, low), (P.le, high)) if bound is not None]
    where = {"input": within[0] if len(within) == 1 else P.logical_and(*within)}
    if isinstance(min, Tensor):
        where["min"] = P.lt(x, low) if max is None else P.logical_and(P.lt(x, low), P.lt(low, high))
    if isinstance(max, Tensor):
        where["max"] = P.gt(x, high) if min is None else P.logical_or(P.gt(x, high), P.gt(low, high))
    return [given_back(P.where(where[name], g, 0), v) for name, v in (("input", input), ("min", min), ("max", max))
            if name in where]


def given_back(g, x):
    """Reduce a gradient to the shape and dtype of its operand."""
    return as_dtype(sum_to(g, x.shape), x.dtype) if x.dtype.is_inexact else None


@op(inplace_too=True)
def clamp_min(input, min):
    """Each element at least ``min``."""
    return clamp(input, min)


@op(inplace_too=True)
def clamp_max(input, max):
    """Each element at most ``max``."""
    return clamp(input, None, max)
