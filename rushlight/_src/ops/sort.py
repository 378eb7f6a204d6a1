"""Order: sorting, the largest k, uniqueness, searching, counting."""
from __future__ import annotations

import operator

import numpy as np

from ..core.advice import warn
from ..core.dtypes import bool_, finfo, float32, float64, int32, int64
from ..core.exchange import computed, values_of
from ..core.kinds import Foreign, P
from ..core.meta import Meta, product
from ..core.op import Scalar, op, rule
from ..core.results import named
from ..core.tensor import Tensor, refuse_where, wrapped
from .histories import without_derivative
from .index import nonzero_vector
from .prims import primitive
from .promotion import as_dtype, promoted, upcast
from .promotion import result_dtype as promoted_dtype


def with_index(x, *more, **params):
    return x.like(tuple(x.shape)), x.like(tuple(x.shape)).like(dtype=int64)


def ordered_bits(x):
    """Integers in the order of x: equal where elements are, every NaN above all else."""
    if x.dtype.kind != "f":
        return x.astype(np.int64)
    bits = np.add(x, 0.0, dtype=np.float32).view(np.int32)  # a negative zero becomes a positive one
    bits ^= (bits >> 31) & 0x7FFFFFFF
    bits[np.isnan(x)] = 0x7FFFFFFF
    return bits.astype(np.int64)


def order_of(x, descending):
    """The stable order along the last dimension of elements of at most 32 bits: each sorted as one integer with its
    position."""
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
    """A selection of k, then their order; among equal elements any may be chosen."""
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


@op(method=False, name="_topk")
def topk_(input, k, dim, largest):
    """The k largest (smallest) elements along a dimension in order, and where they were."""
    return in_rows(input, dim, lambda x, last: P.topk(x, k=k, dim=last, largest=largest))


@op(method=False, name="_sort")
def sorted_(input, dim, descending):
    """Elements in order along a dimension (stable), and where they were."""
    at = wrapped(dim, len(input.shape))
    if not input.shape:
        values, order = P.sort(P.reshape(input, shape=(1,)), dim=0, descending=descending)
        return P.reshape(values, shape=()), P.reshape(order, shape=())
    return in_rows(input, at, lambda x, last: P.sort(x, dim=last, descending=descending))


def in_rows(input, dim, run):
    """``run(x, last dimension)`` on a tensor whose last dimension this is, and its results with the dimension back at
    its place."""
    last = len(input.shape) - 1
    if dim == last:
        return run(input, last)
    there = (*range(dim), *range(dim + 1, last + 1), dim)
    back = (*range(dim), last, *range(dim, last))
    return tuple(P.permute(y, dims=back) for y in run(P.permute(input, dims=there), last))


@op(composite=True)
def sort(input, dim=-1, descending=False, stable=False):
    """Elements in order along a dimension: (values, indices)."""
    if isinstance(dim, bool):
        dim, descending = -1, dim
    values, indices = sorted_(input, dim, bool(descending))
    return named("sort", values=values, indices=indices)


@op(composite=True)
def argsort(input, dim=-1, descending=False, stable=False):
    """The indices that sort along a dimension."""
    return sorted_(input, dim, bool(descending))[1]


@op(composite=True)
def msort(input):
    """Sorted along the first dimension."""
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
    """The k-th smallest element along a dimension, and where it is."""
    at = wrapped(dim, input.dim())
    size = input.size(at) if input.dim() else 1
    if size == 0:
        raise IndexError(f"kthvalue(): Expected reduction dim {at} to have non-zero size.")
    if not 1 <= k <= size:
        raise RuntimeError("kthvalue(): selected number k out of range for dimension %d" % at)
    values, indices = kth(input, k, at, keepdim)
    return named("kthvalue", values=values, indices=indices)


@op(method=False, name="_kth")
def kth(input, k, dim, keepdim):
    """The k-th smallest element along a dimension, and where it is; the search begins at the nearer end."""
    if not input.shape:
        return P.copy(input), P.full(shape=(), value=0, dtype=int64)
    size = input.shape[dim]
    largest = 2 * k > size
    count = size - k + 1 if largest else k
    found = in_rows(input, dim, lambda x, last: P.topk(x, k=count, dim=last, largest=largest))
    return tuple(without(along_slice(y, dim, count - 1), dim, keepdim) for y in found)


def along_slice(x, dim, start):
    """One element along a dimension, which stays."""
    rank = len(x.shape)
    return P.slice(x, starts=tuple(start if d == dim else 0 for d in range(rank)), steps=(1,) * rank,
                   shape=tuple(1 if d == dim else n for d, n in enumerate(x.shape)))


def without(x, dim, keepdim):
    """A tensor less its dimension of one element, unless that is to be kept."""
    return x if keepdim else P.reshape(x, shape=tuple(n for d, n in enumerate(x.shape) if d != dim))


@op(composite=True)
def median(input, dim=None, keepdim=False):
    """The (lower) median: of all elements, or along a dimension (values, indices)."""
    if dim is None:
        flat = input.reshape(-1)
        if not flat.numel():
            return input.new_full((), float("nan"))
        return median(flat, 0)[0]
    at = wrapped(dim, input.dim())
    size = input.size(at) if input.dim() else 1
    if size == 0:
        raise IndexError(f"median(): Expected reduction dim {at} to have non-zero size.")
    values, indices = lower_median(input, at, keepdim)
    return named("median", values=values, indices=indices)


@op(method=False, name="_lower_median")
def lower_median(input, dim, keepdim):
    """The median along a dimension, the lower one of two, and where it is; NaN where there is one."""
    if not input.shape:
        return kth(input, 1, 0, keepdim)
    _, place = kth(input, (input.shape[dim] + 1) // 2, dim, True)
    if input.dtype.is_floating_point:
        unknown = P.ne(input, input)
        place = P.where(P.any(unknown, (dim,)), P.argmax(unknown, (dim,)), place)
    return without(P.gather(input, place, dim=dim), dim, keepdim), without(place, dim, keepdim)


def _choose(condition, a, b):
    from .elementwise import where_
    return where_(condition, a, b)


@op(composite=True)
def nanmedian(input, dim=None, keepdim=False):
    """The median of what is not NaN."""
    if dim is None:
        return nanmedian(input.reshape(-1), 0)[0] if input.dim() else input.clone()
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
    """Whether each element equals its neighbour along the last dimension; the first has none."""
    *before, size = x.shape
    shape, steps, zeros = (*before, size - 1), (1,) * len(x.shape), (0,) * len(x.shape)
    first = (*zeros[1:], 1)
    same = P.eq(P.slice(x, starts=first, steps=steps, shape=shape), P.slice(x, starts=zeros, steps=steps, shape=shape))
    return P.pad(same, low=first, high=zeros, inner=zeros, value=False)


@op(method=False, name="_commonest")
def commonest(input):
    """The last position, in each row, of its most frequent (smallest on a tie) value: [*, n] -> [*] int64."""
    last = len(input.shape) - 1
    ordered, places = P.sort(input, dim=last, descending=False)
    at = P.expand(P.iota(size=input.shape[last], dtype=int64), shape=tuple(input.shape))
    begins = P.where(like_the_one_before(ordered), 0, at)
    longest = P.argmax(P.sub(at, P.cummax(begins, dim=last)), (last,))  # a run ends with the last of its elements
    return P.reshape(P.gather(places, longest, dim=last), shape=tuple(input.shape[:-1]))


@op(composite=True, dynamic=True)
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements (or slices along ``dim``) in order, with their places and counts on request.  No gradient
    can flow through them: RuntimeError where one does."""
    return without_derivative("unique", input, distinct_of(input, return_inverse, return_counts, dim))


def distinct_of(input, return_inverse, return_counts, dim):
    if dim is None and not input.dtype.is_complex:
        return distinct_elements(input.detach(), return_inverse, return_counts)
    data = values_of(input.detach())
    out = np.unique(data, return_inverse=True, return_counts=True, axis=dim)
    inverse = computed(out[1].reshape(data.shape if dim is None else (-1,)).astype(np.int64))
    results = [as_kind(out[0], input)] + [inverse] * bool(return_inverse) + [computed(out[2].astype(np.int64))] * bool(
        return_counts)
    return results[0] if len(results) == 1 else tuple(results)


def distinct_elements(input, return_inverse, return_counts):
    """What ``unique`` returns: the first of each run of equal elements, once they are in order."""
    size = input.numel()
    if not size:
        return runs(input.reshape(-1), input.shape, return_inverse, return_counts)
    order, places, begins = runs_in_order(input.reshape(-1))
    results = [order[begins]]
    if return_inverse:
        results.append(places.new_zeros(size).scatter(0, places, numbers_of(begins)).reshape(input.shape))
    if return_counts:
        results.append(lengths_between(nonzero_vector(begins), size))
    return results[0] if len(results) == 1 else tuple(results)


@op(method=False, name="_runs_in_order")
def runs_in_order(input):
    """[n] -> its elements in order, where they were, and whether each begins a run of equal ones."""
    order, places = P.sort(input, dim=0, descending=False)
    return order, places, begins_run(order)


@op(method=False, name="_begins_run")
def begins_run(input):
    """Whether each element along the last dimension differs from the one before."""
    return P.logical_not(like_the_one_before(input))


@op(method=False, name="_numbers_of")
def numbers_of(begins):
    """The number of the run that each element belongs to."""
    return P.sub(P.cumsum(P.convert(begins, dtype=int64), dim=0), 1)


def lengths_between(starts, size):
    """How many elements lie between one start and the next, or the end."""
    from .scan import diff
    return diff(starts, append=starts.new_full((1,), size))


def runs(flat, shape, return_inverse, return_counts):
    """The first of each run of equal elements, with the number of each element's run and the lengths of runs on
    request."""
    begins = begins_run(flat) if flat.numel() else flat.bool()
    results = [flat[begins]]
    if return_inverse:
        results.append((numbers_of(begins) if flat.numel() else begins.long()).reshape(shape))
    if return_counts:
        results.append(lengths_between(nonzero_vector(begins), flat.numel()))
    return results[0] if len(results) == 1 else tuple(results)


@rule(unique)
def unmeasured(some, input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    return distinct(some(), input, return_inverse, return_counts, dim)


def distinct(count, input, return_inverse, return_counts, dim):
    """What is known of ``count`` distinct elements or slices, of their places and counts."""
    shape = tuple(input.shape)
    at = None if dim is None else wrapped(dim, len(shape))
    values = Meta.of((count,) if at is None else (*shape[:at], count, *shape[at + 1:]), input.dtype, input.device)
    inverse = Meta.of(shape if at is None else (shape[at],), int64, input.device)
    results = (values, *[inverse] * bool(return_inverse),
               *[Meta.of((count,), int64, input.device)] * bool(return_counts))
    return results if len(results) > 1 else values


def as_kind(array, like):
    from ..core.exchange import computed
    return computed(np.ascontiguousarray(array), like.dtype)


@op(composite=True, dynamic=True)
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """Runs of equal elements (or slices) reduced to one each.  No gradient can flow through them: RuntimeError where
    one does."""
    return without_derivative("unique_consecutive", input, runs_of(input, return_inverse, return_counts, dim))


def runs_of(input, return_inverse, return_counts, dim):
    if dim is None:
        return runs(input.detach().reshape(-1), input.shape, return_inverse, return_counts)
    data = values_of(input.detach())
    rows = np.moveaxis(data, dim, 0).reshape(data.shape[dim], -1)
    fresh = np.ones(len(rows), bool)
    fresh[1:] = (rows[1:] != rows[:-1]).any(1)
    starts = np.flatnonzero(fresh)
    results = [as_kind(np.take(data, starts, dim), input)]
    if return_inverse:
        results.append(computed((np.cumsum(fresh) - 1).astype(np.int64)))
    if return_counts:
        results.append(computed(np.diff(np.append(starts, len(rows))).astype(np.int64)))
    return results[0] if len(results) == 1 else tuple(results)


@rule(unique_consecutive)
def unmeasured(some, input, return_inverse=False, return_counts=False, dim=None):  # noqa: F811
    return distinct(some(), input, return_inverse, return_counts, dim)


@op(composite=True, method=False)
def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
    """Where each value would go in a sorted sequence (along its last dimension)."""
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True")
    if not isinstance(input, Tensor):
        if sorted_sequence.dim() != 1:
            raise RuntimeError(
                "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1")
        input = sorted_sequence.new_full((), input, dtype=promoted_dtype(sorted_sequence, input))
    if sorted_sequence.dim() != 1 and tuple(sorted_sequence.shape[:-1]) != tuple(input.shape[:-1]):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            "tensor and input value tensor must match")
    for name, values in (("boundary", sorted_sequence), ("input value", input), ("sorter", sorter)):
        if values is not None and not values.is_contiguous():
            warn(f"torch.searchsorted(): {name} tensor is non-contiguous, which costs a copy: call contiguous() once "
                 "if it is used often.")
    edges = sorted_sequence.detach() if sorter is None else sorted_sequence.detach().gather(-1, sorter)
    return search(edges, input.detach(), side == "right" if side else right, out_int32)


@op(method=False, name="_search")
def search(edges, input, right, out_int32):
    """The first place in a row of sorted edges [n] or [*, n] that is not below an element (or, right, that is above
    it), by halving."""
    edges, x = promoted(edges, input)
    size = operator.index(edges.shape[-1])
    at, last = P.full(shape=tuple(x.shape), value=0, dtype=int64), max(size - 1, 0)
    step = 1 << size.bit_length() >> 1
    while step:
        further = P.add(at, step)
        probe = P.minimum(P.sub(further, 1), last)
        edge = P.take(edges, probe, dim=0) if len(edges.shape) == 1 else P.gather(edges, probe, dim=len(x.shape) - 1)
        before = P.logical_not(P.gt(edge, x) if right else P.ge(edge, x))  # what is no number lies behind all edges
        at = P.where(P.logical_and(before, P.le(further, size)), further, at)
        step //= 2
    return P.convert(at, dtype=int32) if out_int32 else at


@rule(searchsorted)
def unmeasured(some, sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):  # noqa: F811
    return Meta.of(tuple(getattr(input, "shape", ())), int32 if out_int32 else int64, sorted_sequence.device)


@op(composite=True)
def bucketize(input, boundaries, *, out_int32=False, right=False):
    """The bucket, between sorted boundaries, that each value falls in."""
    if boundaries.dim() != 1:
        raise RuntimeError(
            f"torch.searchsorted(): boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@op(composite=True)
def bincount(input, weights=None, minlength=0):
    """How often each non-negative integer occurs (or the sum of its weights)."""
    if input.dtype.is_inexact or input.dtype.name == "bool":
        raise NotImplementedError(f"bincount is not implemented for {input.dtype}: it wants integers")
    if input.dim() != 1:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if weights is not None and tuple(weights.shape) != tuple(input.shape):
        raise RuntimeError("weights should be 1-d and have the same length as input")
    low, high = (v.item() for v in input.aminmax()) if input.numel() else (0, -1)
    if low < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None:
        weights = weights.detach() if weights.dtype is float32 else weights.detach().double()
    return occurrences(input, weights, max(minlength, high + 1))


@op(method=False, name="_occurrences")
def occurrences(input, weights, size):
    """How often each integer below ``size`` occurs in [n], or the sum of the weights where it does."""
    ones = P.full(shape=tuple(input.shape), value=1, dtype=int64) if weights is None else weights
    return P.put(P.full(shape=(size,), value=0, dtype=ones.dtype), as_dtype(input, int64), ones, dim=0, combine="add")


@rule(bincount)
def unmeasured(some, input, weights=None, minlength=0):  # noqa: F811
    return Meta.of((some(),), int64 if weights is None else float32 if weights.dtype is float32 else float64,
                   input.device)


@op(composite=True)
def histc(input, bins=100, min=0, max=0):
    """Counts in equal bins between min and max (by default those of the data)."""
    if bins <= 0:
        raise RuntimeError("bins must be > 0")
    low, high = float(min), float(max)
    if low == high and input.numel():
        low, high = (float(v.item()) for v in input.detach().aminmax())
    if low == high:
        low, high = low - 1, high + 1
    if low > high:
        raise RuntimeError("max must be larger than min")
    if not np.isfinite([low, high]).all():
        raise RuntimeError(f"range of [{low}, {high}] is not finite")
    x = input.detach()
    return histogram_of(x.double() if x.dtype.is_inexact and high - low > finfo(x.dtype).max else x, bins, low, high)


@op(method=False, name="_histogram_of")
def histogram_of(input, bins, low: Scalar, high: Scalar):
    """Counts in equal bins from ``low`` to ``high``, which belongs to the last one: [*] -> [bins]."""
    count = product(input.shape)
    x = P.reshape(upcast(input) if input.dtype.is_inexact else P.convert(input, dtype=float64), shape=(count,))
    low, high = as_dtype(low, x.dtype), as_dtype(high, x.dtype)
    inside = P.logical_and(P.ge(x, low), P.le(x, high))
    at = P.convert(P.div(P.mul(P.sub(x, low), bins), P.sub(high, low)), dtype=int64)
    at = P.maximum(P.minimum(at, bins - 1), 0)
    found = P.put(P.full(shape=(bins,), value=0, dtype=int64), at, P.convert(inside, dtype=int64), dim=0, combine="add")
    return P.convert(found, dtype=input.dtype)


@rule(histc)
def unmeasured(some, input, bins=100, min=0, max=0):  # noqa: F811
    return Meta.of((bins,), input.dtype, input.device)


@op(composite=True, aliases={"element": "elements", "test_element": "test_elements"})
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Whether each element occurs among the test elements."""
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError("isin(): expected at least one of elements and test_elements to be a tensor")
    like = elements if isinstance(elements, Tensor) else test_elements
    a, b = (v.detach() if isinstance(v, Tensor) else like.new_full((), v, dtype=promoted_dtype(like, v))
            for v in (elements, test_elements))
    if not b.numel():
        return a.new_full(tuple(a.shape), bool(invert), dtype=bool_)
    return occurs(a, b.reshape(-1), bool(invert))


@op(method=False, name="_occurs")
def occurs(input, among, invert):
    """Whether each element occurs among others [n], which are put in order and searched."""
    x, among = promoted(input, among)
    order, _ = P.sort(among, dim=0, descending=False)
    last = among.shape[0] - 1
    found = P.eq(P.take(order, P.minimum(search(order, x, False, False), last), dim=0), x)
    return P.logical_not(found) if invert else found


@rule(isin)
def unmeasured(some, elements, test_elements, *, assume_unique=False, invert=False):  # noqa: F811
    return Meta.of(tuple(getattr(elements, "shape", ())), bool_, getattr(elements, "device", None)
                   or test_elements.device)


@op(composite=True, autocast="float32")
def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """Quantiles along a dimension, interpolated between neighbours."""
    return quantiles(input, q, dim, keepdim, interpolation, False)


@op(composite=True, autocast="float32")
def nanquantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """Quantiles of what is not NaN."""
    return quantiles(input, q, dim, keepdim, interpolation, True)


def quantiles(input, q, dim, keepdim, interpolation, skip_nan):
    if input.dtype.name not in ("float32", "float64"):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
            f"{interpolation}")
    if input.numel() == 0:
        raise RuntimeError("quantile() input tensor must be non-empty")
    points = q if isinstance(q, Tensor) else input.new_full((), q)
    if points.dim() > 1:
        raise RuntimeError("quantile() q must be a scalar or 1D tensor")
    if points.dtype is not input.dtype:
        raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    refuse_where(~((points >= 0) & (points <= 1)), RuntimeError("quantile() q values must be in the range [0, 1]"))
    return interpolated(input, points, None if dim is None else wrapped(dim, input.dim()), bool(keepdim), interpolation,
                        skip_nan)


@op(method=False, name="_interpolated")
def interpolated(input, points, dim, keepdim, interpolation, skip_nan):
    """Quantiles at these points, a number or a vector, of the elements in order."""
    x = input.reshape(-1) if dim is None else input.movedim(dim, -1) if input.dim() else input.reshape(1)
    order, _ = sorted_(x, -1, False)
    count = (~order.isnan()).sum(-1, keepdim=True) if skip_nan else order.new_full((*order.shape[:-1], 1),
                                                                                   order.size(-1))
    rank = points.reshape(-1) * (count - 1).clamp(min=0).to(input.dtype)
    if interpolation == "lower":
        rank = rank.floor()
    elif interpolation == "higher":
        rank = rank.ceil()
    elif interpolation == "nearest":
        rank = rank.round()
    below = rank.floor().to(int64)
    low, high = order.gather(-1, below), order.gather(-1, rank.ceil().to(int64))
    weight = 0.5 * (rank.ceil() - rank.floor()) if interpolation == "midpoint" else rank - below.to(input.dtype)
    out = low + (high - low) * weight
    if not skip_nan:
        out = _choose(order[..., -1:].isnan(), float("nan"), out)
    out = out.movedim(-1, 0)
    if keepdim:
        out = out.reshape((-1,) + (1,) * input.dim()) if dim is None else out.unsqueeze(dim + 1) if input.dim() else out
    return out if points.dim() else out.squeeze(0)


@op(composite=True)
def equal(input, other):
    """Whether two tensors have the same shape and elements: a Python bool."""
    return tuple(input.shape) == tuple(other.shape) and bool((input == other).all())


@op(composite=True, planned=True)
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """|input - other| <= atol + rtol * |other|, element by element."""
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{input.dtype} did not match {other.dtype}")
    if not (rtol >= 0 and atol >= 0):  # NaN is neither
        raise RuntimeError(f"rtol and atol must be greater than or equal to zero, but got {rtol} and {atol}")
    close = input == other
    if equal_nan and input.dtype.is_inexact:
        close = close | (input.isnan() & other.isnan())
    if rtol == 0 and atol == 0:
        return close
    a, b = (v.double() if not v.dtype.is_inexact else v for v in (input, other))
    return close | ((a - b).abs().isfinite() & ((a - b).abs() <= atol + (rtol * b).abs()))


@op(composite=True)
def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are close: a Python bool."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())
