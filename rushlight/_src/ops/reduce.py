"""Reductions over dimensions, and statistics based on them."""
from __future__ import annotations

import inspect
import math

import numpy as np

from ..core.advice import warn
from ..core.dtypes import BOOL, FLOATING, bool_, complex128, float64, int64, type_name, uint8, uint64
from ..core.kinds import Foreign, P
from ..core.meta import product
from ..core.op import OPS, op, rule, sample
from ..core.results import named
from ..core.tensor import Tensor, wrapped
from .prims.contractions import adjoint
from .prims.primitive import primitive
from .promotion import as_dtype, floating, needs, real, upcast

SAMPLES = (sample((3, 4)), sample((3, 4), 0), sample((2, 3, 4), (0, 2), keepdim=True), sample(()))


def dims_of(input, dim) -> tuple:
    """Dimensions to reduce, ascending; None and () mean all."""
    rank = len(input.shape)
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(rank))
    dims = [wrapped(d, rank) for d in ((dim,) if not isinstance(dim, (tuple, list)) else dim)]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"dim {dims[0]} appears multiple times in the list of dims")
    return tuple(sorted(dims)) if rank else ()


def drop(x, dims, keepdim):
    """Remove reduced dimensions unless ``keepdim``."""
    if keepdim or not dims:
        return x
    return P.reshape(x, shape=tuple(s for k, s in enumerate(x.shape) if k not in dims))


def reduced(primitive, x, dims, keepdim):
    return drop(primitive(x, dims), dims,
                keepdim) if dims else P.mul(x, 1) if x.dtype is not bool_ else P.logical_and(x, True)


def count_of(input, dims):
    return product(input.shape[d] for d in dims)


@op(samples=SAMPLES)
def sum(input, dim=None, keepdim=False, *, dtype=None):
    """The sum over dimensions; integers add up as int64."""
    dtype = dtype or (int64 if not input.dtype.is_inexact else input.dtype)
    x = input if input.dtype is dtype else P.convert(input, dtype=dtype)
    return reduced(P.sum, x, dims_of(input, dim), keepdim)


@op(samples=SAMPLES)
def nansum(input, dim=None, keepdim=False, *, dtype=None):
    """The sum with NaN counted as 0."""
    if input.dtype.is_complex:
        raise RuntimeError(f"nansum does not support complex inputs, but got {input.dtype}")
    if input.dtype.is_floating_point:
        input = P.where(P.ne(input, input), 0.0, input)
    return sum.body(input, dim, keepdim, dtype=dtype)


@op(samples=SAMPLES)
def mean(input, dim=None, keepdim=False, *, dtype=None):
    """The arithmetic mean over dimensions."""
    dtype = dtype or input.dtype
    if not dtype.is_inexact:
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {dtype}")
    x = upcast(input if input.dtype is dtype else P.convert(input, dtype=dtype))
    dims = dims_of(input, dim)
    out = P.div(reduced(P.sum, x, dims, keepdim), count_of(input, dims))
    return P.convert(out, dtype=dtype) if dtype.is_half else out


@op(composite=True)
def nanmean(input, dim=None, keepdim=False, *, dtype=None):
    """The mean of elements that are not NaN."""
    from .logic import isnan, logical_not
    if not input.dtype.is_inexact:
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {type_name(input.dtype)}")
    present = logical_not(isnan(input))
    return nansum(input, dim, keepdim, dtype=dtype) / present.sum(dim, keepdim)


@op(samples=SAMPLES[:2], autocast="float32")
def prod(input, dim=None, keepdim=False, *, dtype=None):
    """The product over a dimension (default: all)."""
    dtype = dtype or (int64 if not input.dtype.is_inexact else input.dtype)
    x = input if input.dtype is dtype else P.convert(input, dtype=dtype)
    return reduced(P.prod, x, dims_of(input, dim), keepdim)


@rule(P.prod)
def vjp(g, y, x, dims):
    """Division if no element is zero; else the product of the others, from cumulative products on either side."""
    moved, back, shape = flatten_dims(x, dims)
    last = len(moved.shape) - 1
    left = products_before(moved)
    right = P.flip(products_before(P.flip(moved, dims=(last,))), dims=(last,))
    others = P.mul(left, right)
    if others.dtype.is_complex:
        others = P.conj(others)
    return [P.mul(g, back(others))]


def products_before(x):
    """For each element, the product of those before it in the last dimension."""
    rank = len(x.shape)
    ones = P.full(shape=(*x.shape[:-1], 1), value=1, dtype=x.dtype)
    return P.slice(P.cumprod(P.cat((ones, x), dim=rank - 1), dim=rank - 1), starts=(0,) * rank, steps=(1,) * rank,
                   shape=tuple(x.shape))


def flatten_dims(x, dims):
    """x with ``dims`` joined as the last dimension, and the way back."""
    rank = len(x.shape)
    rest = [k for k in range(rank) if k not in dims]
    order = (*rest, *dims)
    moved = P.permute(x, dims=order)
    inner = tuple(moved.shape)
    joined = P.reshape(moved, shape=(*inner[:len(rest)], product(inner[len(rest):])))
    inverse = tuple(order.index(k) for k in range(rank))
    return joined, lambda y: P.permute(P.reshape(y, shape=inner), dims=inverse), inner


def nonempty(name, input, dims, dim=None):
    """IndexError if one of the dimensions has no elements; RuntimeError if none was given."""
    for d in dims:
        if type(input.shape[d]) is int and input.shape[d] == 0:
            if dim == ():
                raise RuntimeError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify "
                                   "the reduction dim with the 'dim' argument.")
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


@op(samples=SAMPLES, out_exact=True)
def amax(input, dim=(), keepdim=False):
    """The largest element over dimensions; ties share the gradient."""
    dims = dims_of(input, dim)
    needs(BOOL, "amax", input, FLOATING)
    nonempty("amax", input, dims, dim)
    return reduced(P.amax, input, dims, keepdim)


@op(samples=SAMPLES, out_exact=True)
def amin(input, dim=(), keepdim=False):
    """The smallest element over dimensions; ties share the gradient."""
    dims = dims_of(input, dim)
    needs(BOOL, "amin", input, FLOATING)
    nonempty("amin", input, dims, dim)
    return reduced(P.amin, input, dims, keepdim)


def xor_numpy(x, dims):
    return np.asarray(np.bitwise_xor.reduce(x.view(np.uint64), axis=dims, keepdims=True))


primitive("xor", Foreign(xor_numpy, lambda x, dims: x.like(tuple(1 if d in dims else s for d, s in enumerate(x.shape)),
                                                           None, uint64)), lambda x, dims: 0, arity=1)


@op
def hash_tensor(input, dim=(), *, keepdim=False, mode=0):
    """Bits of the elements, as float64 or 64-bit integers, combined by exclusive or over dimensions: uint64.

    >>> import rushlight as rl
    >>> rl.hash_tensor(rl.tensor([[1, 2], [4, 5]]), 1).tolist()
    [3, 1]
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if input.dtype.is_complex:
        raise NotImplementedError(f"hash_tensor() is not implemented for {input.dtype}")
    dims = dims_of(input, dim)
    nonempty("hash_tensor", input, dims)
    bits = input if input.dtype is uint64 else P.convert(input, dtype=float64 if input.dtype.is_floating_point
                                                         else int64)
    return drop(P.xor(bits, dims), dims, keepdim)


@op(composite=True, out_exact=True)
def aminmax(input, *, dim=None, keepdim=False):
    """The smallest and the largest element."""
    return named("aminmax", min=amin(input, () if dim is None else dim, keepdim),
                 max=amax(input, () if dim is None else dim, keepdim))


def position(name, primitive):
    def body(input, dim=None, keepdim=False):
        if input.dtype.is_complex or input.dtype is bool_:
            raise RuntimeError(f'"{name}_cpu" not implemented for {input.dtype}')
        rank = len(input.shape)
        if dim is None:
            if type(input.numel()) is int and input.numel() == 0:
                raise IndexError(
                    f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
                    "dim with the 'dim' argument.")
            out = primitive(P.reshape(input, shape=(input.numel(),)), (0,))
            return P.reshape(out, shape=(1,) * rank if keepdim else ())
        at = wrapped(dim, rank)
        if not rank:
            return P.reshape(primitive(P.reshape(input, shape=(1,)), (0,)), shape=())
        nonempty(name, input, (at,))
        return drop(primitive(input, (at,)), (at,), keepdim)
    body.__name__, body.__doc__ = (
        name, f"The index of the first {name[3:]}imum, as int64 (over all elements without ``dim``).")
    return op(body, samples=SAMPLES[:2])


argmax, argmin = position("argmax", P.argmax), position("argmin", P.argmin)


@op(method=False, overwritable=("input",))
def extreme_along(input, dim, keepdim, largest):
    """The largest (smallest) element along a dimension, and its index: the gradient goes to that element alone."""
    rank = len(input.shape)
    x = input if rank else P.reshape(input, shape=(1,))
    at = wrapped(dim, rank)
    nonempty("max" if largest else "min", x, (at,))
    plain = P.convert(x, dtype=uint8) if x.dtype is bool_ else x
    index = (P.argmax if largest else P.argmin)(plain, (at,))
    value = P.gather(x, index, dim=at)
    if not rank:
        return P.reshape(value, shape=()), P.reshape(index, shape=())
    return drop(value, (at,), keepdim), drop(index, (at,), keepdim)


@op(method=False, name="_extreme_of_all")
def extreme_of_all(input, largest):
    """The largest (smallest) element of all."""
    return (amax if largest else amin)(input)


@rule(extreme_of_all)
def vjp(g, y, input, largest):  # noqa: F811
    """Equal elements share the gradient; if the result is NaN, so do the elements that are (those of amax get NaN)."""
    hit = P.where(P.eq(y, y), P.eq(input, y), P.ne(input, input))
    share = P.convert(hit, dtype=g.dtype)
    return [P.mul(P.div(g, P.sum(share, tuple(range(len(input.shape))))), share)]


def overloaded_form(input, dim: object = None, keepdim=False, *, other=None):
    """Parameters of ``max`` and ``min``; their bodies distinguish ``dim`` by position from ``dim`` by name."""


def overloaded(name, largest):
    def body(input, *second, dim=None, keepdim=None, other=None):
        twice = len(second) > 1 and keepdim is not None or bool(second) + (dim is not None) + (other is not None) > 1
        if len(second) == 1 and keepdim is None and isinstance(second[0], Tensor):
            other = second[0]  # a tensor next to ``keepdim``, or by the keyword ``dim``, is an index
        elif second:
            dim, keepdim = second[0], second[1] if len(second) > 1 else keepdim
        if twice or len(second) > 2 or keepdim is not None and dim is None:
            raise TypeError(f"{name}() takes a tensor alone, with another tensor, or with dim, and keepdim after dim")
        if other is not None:
            return OPS["maximum" if largest else "minimum"](input, other)
        if dim is None:
            return extreme_of_all(input, largest) if input.numel() else empty_error(name)
        if input.is_complex():
            raise RuntimeError(f"{name}(): does not support complex input")
        values, indices = extreme_along(input, dim, keepdim or False, largest)
        return named(name, values=values, indices=indices)
    body.__name__, body.__doc__ = (
        name, f"The {name}imum of all elements, along a dimension (values, indices), or of two tensors.")
    body.__signature__ = inspect.signature(overloaded_form)
    return op(body, composite=True)


def empty_error(name):
    raise RuntimeError(
        f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
        "'dim' argument.")


max, min = overloaded("max", True), overloaded("min", False)


def truth(name):
    def body(input, dim=None, keepdim=False):
        x = input if input.dtype is bool_ else P.ne(input, 0)
        out = reduced(getattr(P, name), x, dims_of(input, dim) if dim != () else (), keepdim)
        return P.convert(out, dtype=uint8) if input.dtype is uint8 else out
    body.__name__, body.__doc__ = name, f"Whether {name} element(s) over dimensions are true."
    return op(body, samples=SAMPLES, out_of=("bool", "uint8"))


any, all = truth("any"), truth("all")


@op(samples=SAMPLES[:2])
def count_nonzero(input, dim=None):
    """Number of nonzero elements."""
    dims = dims_of(input, dim)
    return reduced(P.sum, P.convert(P.ne(input, 0), dtype=int64), dims, False)


def moments(x, dims, correction):
    """Mean (kept) and variance (kept) in two passes."""
    count = count_of(x, dims)
    center = P.div(P.sum(x, dims) if dims else x, count)
    away = P.sub(x, center)
    square = P.mul(away, away) if not x.dtype.is_complex else P.convert(P.real(P.mul(away, P.conj(away))),
                                                                        dtype=x.dtype.to_real())
    total = P.sum(square, dims) if dims else square
    return center, P.div(total, count - correction if correction else count)


@op(method=False, name="_variance_of_few")
def variance_of_few(x, dims, every, freedom):
    """Variance (kept) of elements with ``freedom`` <= 0 degrees of freedom: a sum of squares over 0."""
    return P.div(moments(x, dims, 0)[1], 0.0)


@rule(variance_of_few)
def vjp(g, y, x, dims, every, freedom):  # noqa: F811
    """As in PyTorch: infinite or NaN if no dimensions were given, else divided by ``freedom``, be it negative."""
    center = moments(x, dims, 0)[0]
    if every:
        slope = P.where(P.eq(x, center), P.full(shape=(), value=math.nan, dtype=g.dtype), math.inf)
    else:
        slope = P.mul(P.div(P.sub(x, center), freedom), 2.0)
    return [P.convert(P.mul(g, slope), dtype=x.dtype)]


def in_range_of_squares(x):
    """A tensor in double precision, in which squares of narrower floats neither overflow nor vanish; in single
    precision on devices, some of which lack double precision."""
    if not x.device.provider.on_host:
        return upcast(x)
    return as_dtype(x, complex128 if x.dtype.is_complex else float64)


def variance(name, finish):
    def body(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
        if isinstance(dim, bool):  # the call's only argument besides the input
            dim, unbiased = None, dim
        if not input.dtype.is_inexact:
            raise RuntimeError(f"{name} only support floating point and complex dtypes")
        correction = correction if correction is not None else 0 if unbiased is False else 1
        dims = dims_of(input, dim)
        if count_of(input, dims) <= correction and product(input.shape[d] for d in range(len(input.shape))
                                                           if d not in dims) > 0:
            warn(f"{name}(): degrees of freedom is <= 0: correction must be less than the count of elements, "
                 f"{count_of(input, dims)}; the result is NaN or infinite.")
        x, count = in_range_of_squares(input), count_of(input, dims)
        # decided for each size, as it is where the call warns
        few = count <= correction if correction > 0 else correction < 0 and count == 0
        center, spread = moments(x, dims, 0 if few else correction)
        spread = variance_of_few(x, dims, dim is None, count - correction) if few else spread
        out = [drop(v, dims, keepdim) for v in finish(spread, center)]
        out = [as_dtype(v, input.dtype if v.dtype.is_complex else input.dtype.to_real()) for v in out]
        return out[0] if len(out) == 1 else tuple(out)
    body.__name__, body.__doc__ = (
        name, f"{name.replace('_', ' and ')} over dimensions, dividing by the count less ``correction`` (1).")
    return op(body, samples=SAMPLES[:3], lone_bool=True, overwritable=("result",))


@op(method=False, name="_root_of_squares")
def root_of_squares(input):
    """Square root of a sum of squares, whose minimum is at 0: the gradient is 0 there."""
    return P.sqrt(input)


@rule(root_of_squares)
def vjp(g, y, input):  # noqa: F811
    """That of the square root; 0 where the root is 0."""
    return [divide_or_zero(g, P.mul(y, 2.0))]


def divide_or_zero(x, y):
    """x / y, and 0 where y is 0, whatever x is. No division by 0 is left that a derivative of it would meet."""
    zero = P.eq(y, 0)
    return P.where(zero, 0.0, P.div(x, P.where(zero, 1.0, y)))


var, std = variance("var", lambda v, m: (v,)), variance("std", lambda v, m: (root_of_squares(v),))
var_mean = variance("var_mean", lambda v, m: (v, m))
std_mean = variance("std_mean", lambda v, m: (root_of_squares(v), m))


@rule(P.sqrt)
def vjp(g, y, x):  # noqa: F811
    return [P.div(g, P.mul(y, 2.0)) if not y.dtype.is_complex else P.div(g, P.conj(P.mul(y, 2.0)))]


@op(samples=SAMPLES[1:3])
def logsumexp(input, dim, keepdim=False):
    """log(sum(exp(x))), without overflow."""
    x = floating(input)
    dims = dims_of(input, dim)
    if not dims and not x.dtype.is_complex:
        return P.mul(x, 1)
    size = P.real(x) if x.dtype.is_complex else x
    high = P.amax(size, dims) if builtin_all(not (type(x.shape[d]) is int and x.shape[d] == 0)
                                             for d in dims) else P.sum(size, dims)
    high = as_dtype(P.where(P.eq(P.abs(high), math.inf), 0.0, high), x.dtype)
    return drop(P.add(P.log(P.sum(P.exp(P.sub(x, high)), dims)), high), dims, keepdim)


def builtin_all(items):
    for item in items:
        if not item:
            return False
    return True


@rule(logsumexp)
def vjp(g, y, input, dim, keepdim=False):  # noqa: F811
    dims = dims_of(input, dim)
    if not dims:
        return [g]
    kept = tuple(1 if k in dims else s for k, s in enumerate(input.shape))
    y, g = P.reshape(y, shape=kept), P.reshape(g, shape=kept)
    return [P.mul(adjoint(P.exp(P.sub(floating(input), P.where(P.eq(y, -math.inf), 0.0, y)))), g)]


@op(samples=(sample((3, 4), 2), sample((3, 4), 1, 0)), name="_norm", method=False)
def vector_norm(input, ord, dims, keepdim=False, dtype=None):
    """(sum |x| ** ord) ** (1 / ord) over dimensions; inf and -inf give the extreme, 0 the count of non-zeros."""
    x = input if dtype is None else P.convert(input, dtype=dtype)
    result = x.dtype.to_real()
    x = upcast(P.abs(x) if x.dtype.is_complex or ord != 2 else x)
    if ord == 2:
        out = P.sqrt(P.sum(P.mul(x, x), dims) if dims else P.mul(x, x))
    elif ord == math.inf:
        out = P.amax(x, dims) if dims else x
    elif ord == -math.inf:
        out = P.amin(x, dims) if dims else x
    elif ord == 0:
        ones = P.convert(P.ne(x, 0), dtype=x.dtype)
        out = P.sum(ones, dims) if dims else ones
    elif ord == 1:
        out = P.sum(x, dims) if dims else P.mul(x, 1)
    else:
        powered = P.pow(x, real(ord))
        out = P.pow(P.sum(powered, dims) if dims else powered, 1.0 / ord)
    out = drop(out, dims, keepdim)
    return out if out.dtype is result else P.convert(out, dtype=result)


@rule(vector_norm)
def vjp(g, y, input, ord, dims, keepdim=False, dtype=None):  # noqa: F811
    """Zero where the norm is zero."""
    kept = tuple(1 if k in dims else s for k, s in enumerate(input.shape))
    y, g = P.reshape(y, shape=kept), P.reshape(g, shape=kept)
    x = input if dtype is None else P.convert(input, dtype=dtype)
    if x.dtype.is_complex:
        return [P.convert(complex_norm_vjp(g, y, x, ord, dims), dtype=input.dtype)]
    out = norm_slope(g, y, x, ord, dims, P.abs(x), P.sign(x))
    return [P.convert(out, dtype=input.dtype) if out.dtype is not input.dtype else out]


def complex_norm_vjp(g, y, x, ord, dims):
    slope = norm_slope(g, y, P.abs(x), ord, dims, P.abs(x), P.full(shape=(), value=1, dtype=y.dtype))
    return P.mul(P.convert(slope, dtype=x.dtype), P.sgn(x))


def norm_slope(g, y, x, ord, dims, size, sign):
    if ord == 0:
        return P.full(shape=tuple(x.shape), value=0, dtype=x.dtype)
    if ord == 1:
        return P.mul(g, sign)
    zero = P.eq(y, 0)
    if ord == 2:
        return P.where(zero, 0.0, P.mul(g, P.div(x, P.where(zero, 1.0, y))))
    if ord in (math.inf, -math.inf):
        hit = P.convert(P.logical_or(P.eq(size, y), P.logical_and(P.ne(y, y), P.ne(size, size))), dtype=x.dtype)
        return P.mul(P.mul(sign, hit), P.div(g, P.sum(hit, dims) if dims else hit))
    powered = P.where(P.eq(size, 0), 0.0, P.pow(P.where(P.eq(size, 0), 1.0, size), ord - 1.0))
    if ord < 1:
        return P.mul(P.mul(sign, powered), P.mul(g, P.pow(y, 1.0 - ord)))
    return P.mul(P.mul(sign, powered), P.where(zero, 0.0, P.div(g, P.pow(P.where(zero, 1.0, y), ord - 1.0))))


@op(composite=True)
def norm(input, p="fro", dim=None, keepdim=False, dtype=None):
    """A vector norm over all elements or dimensions (matrix norms: linalg.norm)."""
    if p == "nuc":
        matrix_norm = OPS["linalg.matrix_norm"]
        return matrix_norm(input, "nuc", dim or (-2, -1), keepdim, dtype=dtype)
    ord = 2.0 if p in ("fro", None) else real(p)
    dims = tuple(range(input.dim())) if dim is None else tuple(sorted(
        wrapped(d, input.dim()) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))))
    if not input.dim():
        dims = ()
    if dtype is None and not input.dtype.is_inexact:
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {input.dtype}")
    return vector_norm(input, ord, dims, keepdim, dtype)


@op(composite=True, method=False)
def norm_except_dim(v, pow=2, dim=0):
    """The p-norm over every dimension but one, which is kept (-1: over all)."""
    if dim == -1:
        return norm(v, pow)
    at = wrapped(dim, v.dim())
    return norm(v, pow, tuple(k for k in range(v.dim()) if k != at), keepdim=True)


@op(composite=True)
def dist(input, other, p=2):
    """The p-norm of the difference."""
    return norm(input - other, p)


@op(composite=True, inplace_too=True)
def renorm(input, p, dim, maxnorm):
    """Scale sub-tensors along ``dim`` down to a p-norm of at most ``maxnorm``."""
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if input.dim() < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.dim()} dimensions")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    at = wrapped(dim, input.dim())
    size = norm(input, p, tuple(k for k in range(input.dim()) if k != at), keepdim=True)
    from .logic import where_
    return input * where_(size > maxnorm, maxnorm / (size + 1e-7), 1.0)
