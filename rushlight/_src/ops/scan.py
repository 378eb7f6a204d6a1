"""Cumulative sums, products and extremes along a dimension."""
from __future__ import annotations

import itertools

import numpy as np

from ..core.dtypes import bool_, int64
from ..core.kinds import Foreign, P, Scan
from ..core.op import OPS, op, sample
from ..core.tensor import wrapped
from .prims.contractions import adjoint
from .prims.primitive import primitive
from .promotion import upcast


def same_meta(x, dim):
    return x.like(tuple(x.shape))


def cumsum_gradient(g, y, x, dim):
    return [P.flip(P.cumsum(P.flip(g, dims=(dim,)), dim=dim), dims=(dim,))]


def along(x, dim: int, first: int, count: int):
    """Slice of ``count`` elements of x along a dimension, from ``first`` on."""
    starts = tuple(first if d == dim else 0 for d in range(len(x.shape)))
    shape = tuple(count if d == dim else s for d, s in enumerate(x.shape))
    return P.slice(x, starts=starts, steps=(1,) * len(x.shape), shape=shape)


def cumprod_gradient(g, y, x, dim):
    """Gradient of element k: the product of those before it, times S[k] = g[k] + x[k + 1] S[k + 1].  The recurrence is
    solved in steps of 1, 2, 4 and so on, without division, so that zeros of x need no special case."""
    size = x.shape[dim]
    factors = P.conj(x) if x.dtype.is_complex else x

    def filled(count, value):
        shape = tuple(count if d == dim else s for d, s in enumerate(x.shape))
        return P.full(shape=shape, value=value, dtype=x.dtype)

    if size < 2:
        return [g]
    before = P.cat((filled(1, 1), along(P.cumprod(factors, dim=dim), dim, 0, size - 1)), dim=dim)
    total, product, step = g, P.cat((along(factors, dim, 1, size - 1), filled(1, 0)), dim=dim), 1
    while step < size:
        later = P.cat((along(total, dim, step, size - step), filled(step, 0)), dim=dim)
        total = P.add(total, P.mul(product, later))
        if 2 * step < size:
            product = P.mul(product, P.cat((along(product, dim, step, size - step), filled(step, 0)), dim=dim))
        step *= 2
    return [P.mul(before, total)]


P_cumsum = primitive("cumsum", Scan(lambda x, dim: np.cumsum(x, dim, dtype=x.dtype), "add", same_meta, cumsum_gradient),
                     lambda x, dim: 0, arity=1)
P_cumprod = primitive("cumprod", Scan(lambda x, dim: np.cumprod(x, dim, dtype=x.dtype), "mul", same_meta,
                                      cumprod_gradient), lambda x, dim: 0, arity=1)


def running_places(x, y, dim):
    """Index of the last occurrence of a cumulative extreme y of x: the last of equal elements, and the last NaN."""
    shape = tuple(n if k == dim else 1 for k, n in enumerate(x.shape))
    at = P.reshape(P.iota(size=x.shape[dim], dtype=int64), shape=shape)
    met = P.eq(x, y)
    if x.dtype.is_floating_point:
        met = P.logical_or(met, P.ne(x, x))
    return P.cummax(P.where(met, at, 0), dim=dim)


def extreme_gradient(g, y, x, dim):
    zeros = P.full(shape=tuple(x.shape), value=0, dtype=x.dtype)
    return [P.scatter(zeros, running_places(x, y, dim), g, dim=dim, combine="add")]


P_cummax = primitive("cummax", Scan(lambda x, dim: np.maximum.accumulate(x, dim), "max", same_meta, extreme_gradient),
                     lambda x, dim: 0, arity=1)
P_cummin = primitive("cummin", Scan(lambda x, dim: np.minimum.accumulate(x, dim), "min", same_meta, extreme_gradient),
                     lambda x, dim: 0, arity=1)


def running(name, primitive_, *samples):
    def body(input, dim, *, dtype=None):
        dtype = dtype or (int64 if not input.dtype.is_inexact else input.dtype)
        x = P.convert(input, dtype=dtype) if input.dtype is not dtype else input
        at = wrapped(dim, len(input.shape))
        if not input.shape:
            return P.mul(x, 1)
        out = primitive_(upcast(x), dim=at)
        return out if out.dtype is dtype else P.convert(out, dtype=dtype)
    body.__name__, body.__doc__ = name, f"The running {'sum' if name == 'cumsum' else 'product'} along a dimension."
    return op(body, samples=(sample((3, 4), 1), *samples), inplace_too=True)


cumsum = running("cumsum", P_cumsum, sample((2, 300), 1))  # kernels of GPUs have long rows by blocks
cumprod = running("cumprod", P_cumprod)


def logcumsumexp_gradient(g, y, x, dim):
    return [adjoint(P.weighed_sum(adjoint(g), x, y, dim=dim, later=True))]


def sum_of_logs(total, x):
    """log(exp(total) + exp(x)) of complex numbers; its angle continues that of the larger one."""
    larger = total.real > x.real
    high, low = np.where(larger, total, x), np.where(larger, x, total)
    finite = np.isfinite(high.real)
    return np.where(finite, high + np.log1p(np.exp(np.where(finite, low - high, 0))), high)


def running_log_sum(x, dim):
    """log of the cumulative sum of exp(x), accumulated in float64, so that a long sum loses nothing."""
    if x.dtype.kind == "c":
        rows = np.moveaxis(x, dim, 0).astype(np.complex128)
        return np.moveaxis(np.stack(list(itertools.accumulate(rows, sum_of_logs))), 0,
                           dim).astype(x.dtype) if len(rows) else x
    return np.logaddexp.accumulate(x, dim, dtype=np.float64).astype(x.dtype)


def weighed_sum_numpy(v, x, y, dim, later):
    """Compute in logarithms, with positive and negative real v separately, so that nothing overflows where x is far
    from y."""
    def along(part):
        with np.errstate(divide="ignore"):
            logs = np.log(part)
        if not later:
            return np.exp(running_log_sum(logs + x, dim) - y)
        return np.exp(np.flip(running_log_sum(np.flip(logs - y, dim), dim), dim) + x)

    return along(v) if v.dtype.kind == "c" else along(np.maximum(v, 0)) - along(np.maximum(-v, 0))


def weighed_sum_gradient(g, out, v, x, y, dim, later):
    """The sum over later positions is the transpose of that over earlier ones."""
    back = adjoint(P.weighed_sum(adjoint(g), x, y, dim=dim, later=not later))
    own, other = P.mul(g, adjoint(out)), P.mul(adjoint(v), back)
    return [back, own, P.neg(other)] if later else [back, other, P.neg(own)]


P_weighed_sum = primitive("weighed_sum", Foreign(weighed_sum_numpy, lambda v, x, y, dim, later: v.like(tuple(v.shape)),
                                                 weighed_sum_gradient),
                          lambda v, x, y, dim, later: 0, arity=3,
                          doc="out[i] = sum of v[j] exp(x[i] - y[j]) over j >= i (later), or of v[j] exp(x[j] - y[i]) "
                              "over j <= i.")


P_logcumsumexp = primitive("logcumsumexp", Foreign(running_log_sum, same_meta, logcumsumexp_gradient), lambda x, dim: 0,
                           arity=1)


@op(samples=(sample((3, 4), 1), sample((3,), 0)))
def logcumsumexp(input, dim):
    """log of the cumulative sum of exp(x) along a dimension, without overflow."""
    if not input.dtype.is_inexact:
        raise RuntimeError(f"logcumsumexp expects a floating or complex input, got {input.dtype}")
    at = wrapped(dim, len(input.shape))
    if not input.shape:
        return P.copy(input)
    x = upcast(input)
    return P.convert(P.logcumsumexp(x, dim=at), dtype=input.dtype) if input.dtype.is_half else P.logcumsumexp(x, dim=at)


@op(name="_running_extreme", method=False)
def running_extreme_(input, dim, largest):
    """Return the cumulative maximum (minimum) and the index of its last occurrence."""
    at = wrapped(dim, len(input.shape))
    x = input if input.shape else P.reshape(input, shape=(1,))
    if x.dtype.is_complex:
        raise NotImplementedError(
            f"cummax/cummin: expected a real dtype, got {x.dtype}; use .abs() or .real first")
    values = (P.cummax if largest else P.cummin)(x, dim=at)
    indices = running_places(x, values, at)
    if input.shape:
        return values, indices
    return P.reshape(values, shape=()), P.reshape(indices, shape=())


@op(composite=True, out_exact=True)
def cummax(input, dim):
    """Return the cumulative maximum along a dimension, and the index of its last occurrence."""
    from ..core.results import named
    values, indices = running_extreme_(input, dim, True)
    return named("cummax", values=values, indices=indices)


@op(composite=True, out_exact=True)
def cummin(input, dim):
    """Return the cumulative minimum along a dimension, and the index of its last occurrence."""
    from ..core.results import named
    values, indices = running_extreme_(input, dim, False)
    return named("cummin", values=values, indices=indices)


@op(composite=True)
def diff(input, n=1, dim=-1, prepend=None, append=None):
    """Differences of adjacent elements along a dimension, n times; each is rounded to the dtype."""
    at = wrapped(dim, len(input.shape))
    if not input.shape:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    for part in (prepend, append):
        if part is not None and len(part.shape) != len(input.shape):
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
        for d in range(len(input.shape)) if part is not None else ():
            if d != at and part.shape[d] != input.shape[d]:
                raise RuntimeError(
                    "diff expects the shape of tensor to prepend or append to match that of input except along the "
                    "differencing dimension; "
                    f"input.size({d}) = {input.shape[d]}, but got tensor.size({d}) = {part.shape[d]}")
    parts = [p for p in (prepend, input, append) if p is not None]
    x = OPS["cat"](parts, at) if len(parts) > 1 and n else input
    for _ in range(min(n, x.shape[at])):
        x = step_along(x, at)
    return x if x is not input else x.clone()


@op(method=False, name="_step_along")
def step_along(input, dim):
    """Each element less the one before along a dimension; for bools, True if they differ."""
    rank = len(input.shape)
    shape = tuple(s - 1 if d == dim else s for d, s in enumerate(input.shape))
    ahead = P.slice(input, starts=tuple(int(d == dim) for d in range(rank)), steps=(1,) * rank, shape=shape)
    behind = P.slice(input, starts=(0,) * rank, steps=(1,) * rank, shape=shape)
    return P.logical_xor(ahead, behind) if input.dtype is bool_ else P.sub(ahead, behind)
