"""Sorting, the largest k, medians and modes."""
from __future__ import annotations

import numpy as np

from ..core.dtypes import BOOL, FLOATING, float32, int64
from ..core.kinds import Foreign, P
from ..core.op import OPS, op, rule
from ..core.results import named
from ..core.tensor import wrapped
from .prims.primitive import primitive
from .promotion import needs


def with_index(x, *more, **params):
    return x.like(tuple(x.shape)), x.like(tuple(x.shape)).like(dtype=int64)


def ordered_bits(x):
    """Integers in the order of x: equal for equal elements, with every NaN largest."""
    if x.dtype.kind != "f":
        return x.astype(np.int64)
    bits = np.add(x, 0.0, dtype=np.float32).view(np.int32)  # a negative zero becomes a positive one
    bits ^= (bits >> 31) & 0x7FFFFFFF
    bits[np.isnan(x)] = 0x7FFFFFFF
    return bits.astype(np.int64)


def order_of(x, descending):
    """Stable order along the last dimension of elements of at most 32 bits: each sorted as one integer with its
    index."""
    packed = ordered_bits(x)
    if descending:
        np.invert(packed, out=packed)
    packed <<= 32
    packed |= np.arange(x.shape[-1])
    packed.sort(-1)
    packed &= 0xFFFFFFFF
    return packed


def sort_numpy(x, dim, descending):
    if x.dtype.kind in "fiub" and x.dtype.itemsize <= 4 and x.shape[dim] < 1 << 31:
        order = np.moveaxis(order_of(np.moveaxis(x, dim, -1), descending), -1, dim)
        return np.take_along_axis(x, order, dim), order
    if descending:  # stable, with NaN first, as the reverse of an ascending order would have it
        order = np.flip(x.shape[dim] - 1 - np.argsort(np.flip(x, dim), dim, kind="stable"), dim)
    else:
        order = np.argsort(x, dim, kind="stable")
    return np.take_along_axis(x, order, dim), order.astype(np.int64)


def spread(g, y, x, dim, **params):
    zeros = P.full(shape=tuple(x.shape), value=0, dtype=x.dtype)
    return [P.scatter(zeros, y[1], g[0], dim=dim, combine="add")] if g[0] is not None else [None]


P_sort = primitive("sort", Foreign(sort_numpy, with_index, spread), lambda x, dim, descending: 0, arity=1)


def topk_numpy(x, k, dim, largest):
    """Select k, then sort them; among equal elements any may be chosen."""
    if k == 0:
        chosen = np.zeros_like(np.take(x, np.arange(0), dim), dtype=np.int64)
        return np.take_along_axis(x, chosen, dim), chosen
    size = x.shape[dim]
    part = np.argpartition(x, size - k if largest else k - 1, dim)
    part = np.sort(np.take(part, np.arange(size - k, size) if largest else np.arange(k), dim), dim)
    values, order = sort_numpy(np.take_along_axis(x, part, dim), dim, largest)
    return values, np.take_along_axis(part, order, dim).astype(np.int64)


def of_size(x, k, dim, largest):
    shape = tuple(k if d == dim else n for d, n in enumerate(x.shape))
    return x.like(shape), x.like(shape).like(dtype=int64)


P_topk = primitive("topk", Foreign(topk_numpy, of_size, spread), lambda x, k, dim, largest: 0, arity=1)


@op(method=False, name="_topk", overwritable=("input",))
def topk_(input, k, dim, largest):
    """The k largest (smallest) elements along a dimension, sorted, and their indices."""
    needs(BOOL, "topk", input, FLOATING)
    return in_rows(input, dim, lambda x, last: P.topk(x, k=k, dim=last, largest=largest))


@op(method=False, name="_sort", overwritable=("input",))
def sorted_(input, dim, descending):
    """Sort along a dimension (stable): elements and their indices."""
    needs(BOOL, "sort", input, FLOATING)
    at = wrapped(dim, len(input.shape))
    if not input.shape:
        values, order = P.sort(P.reshape(input, shape=(1,)), dim=0, descending=descending)
        return P.reshape(values, shape=()), P.reshape(order, shape=())
    return in_rows(input, at, lambda x, last: P.sort(x, dim=last, descending=descending))


def in_rows(input, dim, run):
    """Apply ``run(x, last dimension)`` to a tensor with this dimension moved last, and move it back in the results."""
    last = len(input.shape) - 1
    if dim == last:
        return run(input, last)
    there = (*range(dim), *range(dim + 1, last + 1), dim)
    back = (*range(dim), last, *range(dim, last))
    return tuple(P.permute(y, dims=back) for y in run(P.permute(input, dims=there), last))


@op(composite=True)
def sort(input, dim=-1, descending=False, stable=None):
    """Sort along a dimension: (values, indices)."""
    if isinstance(dim, bool):
        dim, descending = -1, dim
    values, indices = sorted_(input, dim, bool(descending))
    return named("sort", values=values, indices=indices)


@op(composite=True)
def argsort(input, dim=-1, descending=False, stable=False):
    """The indices that sort along a dimension."""
    return sorted_(input, dim, bool(descending))[1]


@op(composite=True, out_exact=True)
def msort(input):
    """Sort along the first dimension."""
    return sorted_(input, 0, False)[0] if input.dim() else input.clone()


@op(composite=True)
def topk(input, k, dim=-1, largest=True, sorted=True):
    """The k largest (smallest) elements along a dimension: (values, indices).

    [..., n, ...] -> [..., k, ...] twice, indices as int64.  RuntimeError for k beyond n.

    >>> torch.tensor([1., 4., 2.]).topk(2).indices
    tensor([1, 2])
    """
    at = wrapped(dim, input.dim())
    size = input.size(at) if input.dim() else 1
    if not 0 <= k <= size:
        raise RuntimeError("selected index k out of range")
    if input.dim() and size:
        values, indices = topk_(input, k, at, bool(largest))
    else:
        values, indices = sorted_(input, dim, bool(largest))
    return named("topk", values=values.contiguous(), indices=indices.contiguous())


@op(composite=True, moves=True)
def kthvalue(input, k, dim=-1, keepdim=False):
    """The k-th smallest element along a dimension, and its index."""
    at = wrapped(dim, input.dim())
    size = input.size(at) if input.dim() else 1
    if size == 0:
        raise IndexError(f"kthvalue(): Expected reduction dim {at} to have non-zero size.")
    if not 1 <= k <= size:
        raise RuntimeError("kthvalue(): selected number k out of range for dimension %d" % at)
    values, indices = kth(input, k, at, keepdim)
    return named("kthvalue", values=values, indices=indices)


@op(method=False, name="_kth", overwritable=("input",))
def kth(input, k, dim, keepdim):
    """The k-th smallest element along a dimension, and its index; the search begins at the nearer end."""
    needs(BOOL, "kthvalue", input, FLOATING)
    if not input.shape:
        return P.copy(input), P.full(shape=(), value=0, dtype=int64)
    size = input.shape[dim]
    largest = 2 * k > size
    count = size - k + 1 if largest else k
    found = in_rows(input, dim, lambda x, last: P.topk(x, k=count, dim=last, largest=largest))
    return tuple(without(along_slice(y, dim, count - 1), dim, keepdim) for y in found)


def along_slice(x, dim, start):
    """One element along a dimension, which is kept."""
    rank = len(x.shape)
    return P.slice(x, starts=tuple(start if d == dim else 0 for d in range(rank)), steps=(1,) * rank,
                   shape=tuple(1 if d == dim else n for d, n in enumerate(x.shape)))


def without(x, dim, keepdim):
    """Remove a dimension of one element unless ``keepdim``."""
    return x if keepdim else P.reshape(x, shape=tuple(n for d, n in enumerate(x.shape) if d != dim))


def nan_of(input):
    """NaN in the dtype of ``input``; of an integer dtype, what NaN converts to."""
    return OPS["full"]((), float("nan"), dtype=float32).to(input.dtype)


@op(composite=True)
def median(input, dim=None, keepdim=False):
    """The (lower) median: of all elements, or along a dimension (values, indices)."""
    if dim is None:
        flat = input.reshape(-1)
        if not flat.numel():
            return nan_of(input)
        return median_of_all(flat, False)
    at = wrapped(dim, input.dim())
    size = input.size(at) if input.dim() else 1
    if size == 0:
        raise IndexError(f"median(): Expected reduction dim {at} to have non-zero size.")
    values, indices = lower_median(input, at, keepdim)
    return named("median", values=values, indices=indices)


@op(method=False, name="_median_of_all")
def median_of_all(input, skip_nan):
    """The (lower) median of a vector; ties share the gradient."""
    return (nanmedian if skip_nan else median).body(input, 0)[0]


@rule(median_of_all)
def vjp(g, y, input, skip_nan):
    hit = P.logical_or(P.eq(input, y), P.logical_and(P.ne(input, input), P.ne(y, y)))
    count = P.sum(P.convert(hit, dtype=y.dtype), (0,))
    return [P.where(hit, P.div(g, count), 0)]


@op(method=False, name="_lower_median", overwritable=("input",))
def lower_median(input, dim, keepdim):
    """The median along a dimension, the lower one of two, and its index; NaN if there is one."""
    if not input.shape:
        return kth(input, 1, 0, keepdim)
    _, place = kth(input, (input.shape[dim] + 1) // 2, dim, True)
    if input.dtype.is_floating_point:
        unknown = P.ne(input, input)
        place = P.where(P.any(unknown, (dim,)), P.argmax(unknown, (dim,)), place)
    return without(P.gather(input, place, dim=dim), dim, keepdim), without(place, dim, keepdim)


def _choose(condition, a, b):
    from .logic import where_
    return where_(condition, a, b)


@op(composite=True)
def nanmedian(input, dim=None, keepdim=False):
    """The median of elements that are not NaN."""
    if dim is None:
        if not input.numel():
            return nan_of(input)
        return median_of_all(input.reshape(-1), True) if input.dim() else input.clone()
    if not input.dim():
        wrapped(dim, 0)
        return named("nanmedian", values=input.clone(), indices=input.new_zeros((), dtype=int64))
    at = wrapped(dim, input.dim())
    values, indices = sorted_(input, dim, False)
    count = (~input.isnan()).sum(at, keepdim=True)
    middle = ((count - 1).clamp(min=0)) // 2
    out = [t.gather(at, middle) for t in (values, indices)]
    return named("nanmedian", values=out[0] if keepdim else out[0].squeeze(at), indices=out[1] if keepdim
                 else out[1].squeeze(at))


@op(composite=True, moves=True)
def mode(input, dim=-1, keepdim=False):
    """The most frequent (smallest on a tie) value along a dimension, and the index of its last occurrence."""
    if not input.dim():
        wrapped(dim, 0)
        return named("mode", values=input.clone(), indices=input.new_zeros((), dtype=int64))
    at = wrapped(dim, input.dim())
    where = commonest(input.movedim(at, -1)).unsqueeze(at)
    values = input.gather(at, where)
    return named("mode", values=values if keepdim else values.squeeze(at), indices=where if keepdim
                 else where.squeeze(at))


def like_the_one_before(x):
    """True for elements equal to the one before along the last dimension; the first has none."""
    *before, size = x.shape
    shape, steps, zeros = (*before, size - 1), (1,) * len(x.shape), (0,) * len(x.shape)
    first = (*zeros[1:], 1)
    same = P.eq(P.slice(x, starts=first, steps=steps, shape=shape), P.slice(x, starts=zeros, steps=steps, shape=shape))
    return P.pad(same, low=first, high=zeros, inner=zeros, value=False)


@op(method=False, name="_commonest")
def commonest(input):
    """Last index, in each row, of its most frequent (smallest on a tie) value: [*, n] -> [*] int64."""
    last = len(input.shape) - 1
    ordered, places = P.sort(input, dim=last, descending=False)
    at = P.expand(P.iota(size=input.shape[last], dtype=int64), shape=tuple(input.shape))
    begins = P.where(like_the_one_before(ordered), 0, at)
    longest = P.argmax(P.sub(at, P.cummax(begins, dim=last)), (last,))  # a run ends with the last of its elements
    return P.reshape(P.gather(places, longest, dim=last), shape=tuple(input.shape[:-1]))
