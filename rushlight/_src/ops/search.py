"""Positions in sorted sequences, and counts of values: searchsorted, bucketize, bincount, histc, isin."""
from __future__ import annotations

import operator

import numpy as np

from ..core.advice import warn
from ..core.dtypes import BOOL, FLOATING, bool_, finfo, float32, float64, int32, int64
from ..core.kinds import P
from ..core.meta import Meta, product
from ..core.op import OPS, Scalar, op, rule
from ..core.tensor import Tensor
from .create import arange
from .promotion import as_dtype, needs, promoted, result_dtype as promoted_dtype, upcast


@op(composite=True, method=False)
def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
    """Insertion index of each value in a sorted sequence (along its last dimension)."""
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
    """Binary search for the first index in a row of sorted edges [n] or [*, n] that is not below an element (or, right,
    that is above it)."""
    edges, x = promoted(edges, input)
    needs(BOOL, "searchsorted", x, FLOATING)
    size = operator.index(edges.shape[-1])
    at, last = P.full(shape=tuple(x.shape), value=0, dtype=int64), max(size - 1, 0)
    step = 1 << size.bit_length() >> 1
    while step:
        further = P.add(at, step)
        probe = P.minimum(P.sub(further, 1), last)
        edge = P.take(edges, probe, dim=0) if len(edges.shape) == 1 else P.gather(edges, probe, dim=len(x.shape) - 1)
        before = P.logical_not(P.gt(edge, x) if right else P.ge(edge, x))  # NaN sorts after all edges
        at = P.where(P.logical_and(before, P.le(further, size)), further, at)
        step //= 2
    return P.convert(at, dtype=int32) if out_int32 else at


@rule(searchsorted)
def unmeasured(some, sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):  # noqa: F811
    return Meta.of(tuple(getattr(input, "shape", ())), int32 if out_int32 else int64, sorted_sequence.device)


@op(composite=True)
def bucketize(input, boundaries, *, out_int32=False, right=False):
    """Index of the bucket, between sorted boundaries, of each value."""
    if boundaries.dim() != 1:
        raise RuntimeError(
            f"torch.searchsorted(): boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@op(composite=True)
def bincount(input, weights=None, minlength=0):
    """Count of each non-negative integer (or the sum of its weights)."""
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
    """Count of each integer below ``size`` in [n], or the sum of its weights."""
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
    """True for elements that occur among the test elements."""
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
    """True for elements that occur among others [n], which are sorted and searched."""
    x, among = promoted(input, among)
    order, _ = P.sort(among, dim=0, descending=False)
    last = among.shape[0] - 1
    found = P.eq(P.take(order, P.minimum(search(order, x, False, False), last), dim=0), x)
    return P.logical_not(found) if invert else found


@rule(isin)
def unmeasured(some, elements, test_elements, *, assume_unique=False, invert=False):  # noqa: F811
    return Meta.of(tuple(getattr(elements, "shape", ())), bool_, getattr(elements, "device", None)
                   or test_elements.device)


@op(composite=True, method=False)
def _convert_indices_from_coo_to_csr(input, size, *, out_int32=False):
    """Convert sorted row indices [n] to the start of each of ``size`` rows, and the end of the last one: [size + 1]."""
    if input.dim() != 1:
        raise RuntimeError(f"Input is supposed to be a vector, but got {input.dim()} dimensional tensor.")
    return searchsorted(input.contiguous(), arange(size + 1, dtype=input.dtype, device=input.device),
                        out_int32=out_int32)


@op(composite=True, method=False)
def _convert_indices_from_csr_to_coo(crow_indices, col_indices, *, out_int32=False, transpose=False):
    """Convert row starts [rows + 1] and columns [n] to indices [2, n] of elements; ``transpose``: columns first."""
    lengths, width, place = crow_indices.diff(), crow_indices.size(-1) - 1, {"device": col_indices.device}
    numbers = arange(width, dtype=int64, **place).expand(lengths.shape).reshape(-1)
    rows = numbers.repeat_interleave(lengths.reshape(-1).to(int64))
    batches = [arange(n, dtype=int64, **place).view(-1, *(1,) * (col_indices.dim() - k - 1)).expand(col_indices.shape)
               .reshape(-1) for k, n in enumerate(col_indices.shape[:-1])]
    pair = rows, col_indices.reshape(-1).to(int64)
    return OPS["stack"]([*batches, *(reversed(pair) if transpose else pair)]).to(int32 if out_int32 else int64)
