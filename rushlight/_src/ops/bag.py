"""Reductions over runs of rows: bags of embeddings, segments."""
from __future__ import annotations

import math

import numpy as np

from ..core.dtypes import int32, int64
from ..core.exchange import computed, values_of
from ..core.kinds import P
from ..core.op import OPS, op, rule
from ..core.tensor import refuse_where, wrapped
from .attention import embedding
from .promotion import as_dtype, upcast

F = "nn.functional"


def check_bags(input, weight, offsets, per_sample_weights, mode, include_last_offset):
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if input.dtype not in (int64, int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{input.dtype} instead")
    if input.dim() == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated as a mini-batch of fixed length "
            "sequences. However, found offsets of type "
            f"{type(offsets).__name__}")
    if input.dim() not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if input.dim() == 1 and offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets is not None:
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
        if include_last_offset and not offsets.size(0):
            raise ValueError("include_last_offset: number of offsets should be at least 1")
        refuse_where(offsets[:1] != 0, RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0"))
        refuse_where(offsets[-1:] > input.numel(),
                     RuntimeError(f"offsets[-1] can not be greater than input's length ({input.numel()}): no bag starts "
                                "behind the last position"))
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
                f"(got mode='{mode}').")
        if per_sample_weights.dtype is not weight.dtype:
            raise RuntimeError(
                "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #2 "
                f"'per_sample_weights'; but type {weight.dtype} does not equal {per_sample_weights.dtype}")
        if tuple(per_sample_weights.shape) != tuple(input.shape):
            raise ValueError(
                f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, then it must "
                f"have the same shape as the input ({list(input.shape)})")


@op(composite=True, namespace=F)
def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean",
                  sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=None):
    """The sum, mean or maximum of rows of weight [v, d] over bags of positions: input [b, n], or [n] with bags from
    ``offsets`` [b] on -> [b, d]."""
    if weight.dtype in (int64, int32) and input.is_floating_point():
        import warnings
        warnings.warn(
            "embedding_bag: the arguments are (input, weight), in this order, but were swapped",
            stacklevel=2)
        input, weight = weight, input
    check_bags(input, weight, offsets, per_sample_weights, mode, include_last_offset)
    if padding_idx is not None:
        rows = weight.size(0)
        if not -rows <= padding_idx < rows:
            raise RuntimeError(f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, but "
                               f"got {padding_idx}")
        padding_idx = padding_idx % rows
    if max_norm is None and not scale_grad_by_freq and not sparse:
        return bags_of_table(weight, input, offsets, per_sample_weights, mode, padding_idx, include_last_offset)
    rows = embedding(input, weight, None, max_norm, norm_type, scale_grad_by_freq, sparse)
    return bags_of_rows(rows, input, offsets, per_sample_weights, mode, padding_idx, include_last_offset)


class OutOfTable(RuntimeError):
    """A position is outside of the embedding table."""

    def __init__(self, text):
        super().__init__(f"Expected idx >= 0 && idx < num_embeddings: {text}")


@op(method=False, name="_bags_of_table", out_of_range=OutOfTable,
    overwritable=lambda weight, **_: ("weight",) if weight.dtype.is_half else ())  # PyTorch copies it to float32
def bags_of_table(weight, input, offsets, scale, mode, padding_idx, include_last_offset):
    """Bags of the rows of weight [v, d] at these positions: rows are read while they are reduced."""
    rows = P.take(weight, as_dtype(input, int64), dim=0)
    return bags_of_rows(rows, input, offsets, scale, mode, padding_idx, include_last_offset)


@op(method=False, name="_bags_of_rows")
def bags_of_rows(rows, input, offsets, scale, mode, padding_idx, include_last_offset):
    """rows [b, n, d], or [n, d] with bags from ``offsets`` on -> [b, d]: the elements at positions ``input``; those of
    ``padding_idx`` do not count."""
    dtype, nothing = rows.dtype, -math.inf if mode == "max" else 0.0
    rows, counted = upcast(rows), None
    scale = scale if scale is None else P.reshape(upcast(scale), shape=(*input.shape, 1))
    if padding_idx is not None:
        counted = P.ne(input, padding_idx)
        kept = P.reshape(counted, shape=(*input.shape, 1))
        # both sides: a gradient of 0 times an infinite scale would be NaN
        rows, scale = P.where(kept, rows, nothing), scale if scale is None else P.where(kept, scale, 1.0)
    if scale is not None:
        rows = P.mul(rows, scale)
    counted = P.full(shape=tuple(input.shape), value=1,
                     dtype=rows.dtype) if counted is None else P.convert(counted, dtype=rows.dtype)
    if offsets is None:
        total, count = in_rows(rows, mode), P.sum(counted, (1,))
    else:
        last = (padding_idx is not None or mode == "max") if include_last_offset else None
        total, count = in_runs(rows, counted, as_dtype(offsets, int64), nothing, last)
    if mode == "mean":
        total = P.div(total, P.maximum(count, 1.0))
    elif mode == "max":
        total = P.where(P.eq(count, 0), 0, total)
    return as_dtype(total, dtype)


def in_rows(rows, mode):
    """[b, n, d] -> [b, d]."""
    bags, size, width = rows.shape
    if mode == "max" and type(size) is int and size == 0:
        return P.full(shape=(bags, width), value=0, dtype=rows.dtype)
    return P.reshape(largest_of_rows(rows) if mode == "max" else P.sum(rows, (1,)), shape=(bags, width))


@op(method=False, name="_largest_of_rows")
def largest_of_rows(rows):
    """[b, n, d] -> [b, 1, d]: the largest of n; the gradient goes to the first of equal elements."""
    return P.amax(rows, (1,))


@rule(largest_of_rows)
def vjp(g, y, rows):
    return [P.scatter(P.full(shape=tuple(rows.shape), value=0, dtype=g.dtype), P.argmax(rows, (1,)), g, dim=1,
                      combine="set")]


@op(method=False, name="_largest_of_runs")
def largest_of_runs(rows, bag, count):
    """[n, d] -> [count, d]: the largest of each bag; the gradient goes to the first of equal elements."""
    return P.put(P.full(shape=(count, rows.shape[1]), value=-math.inf, dtype=rows.dtype), bag, rows, dim=0,
                 combine="max")


@rule(largest_of_runs)
def vjp(g, y, rows, bag, count):  # noqa: F811
    size, own = rows.shape[0], P.take(y, bag, dim=0)
    hit = P.logical_or(P.eq(rows, own), P.logical_and(P.ne(rows, rows), P.ne(own, own)))
    order = P.reshape(P.iota(size=size, dtype=int64), shape=(size, 1))
    first = P.put(P.full(shape=tuple(y.shape), value=size, dtype=int64), bag, P.where(hit, order, size), dim=0,
                  combine="min")
    return [P.where(P.eq(order, P.take(first, bag, dim=0)), P.take(g, bag, dim=0), 0), None]


def in_runs(rows, counted, offsets, nothing, reaching):
    """Reduce rows [n, d] from each offset on, and count those in each bag: [b, d] and [b, 1].

    ``reaching``: None: a bag begins with each offset.  Else the last offset is the end of the last bag; later elements
    are in no bag or, if True, in the last.
    """
    (size, width), count = rows.shape, offsets.shape[0]
    starts = P.put(P.full(shape=(size + 1,), value=0, dtype=int64), offsets,
                   P.full(shape=(count,), value=1, dtype=int64), dim=0, combine="add")
    bag = P.sub(P.slice(P.cumsum(starts, dim=0), starts=(0,), steps=(1,), shape=(size,)), 1)
    if reaching and (type(count) is not int or count > 1):
        bag = P.minimum(bag, count - 2)
    total = largest_of_runs(rows, bag, count) if nothing else P.put(
        P.full(shape=(count, width), value=0.0, dtype=rows.dtype), bag, rows, dim=0, combine="add")
    found = P.put(P.full(shape=(count,), value=0, dtype=rows.dtype), bag, counted, dim=0, combine="add")
    bags = count if reaching is None else count - 1
    return P.slice(total, starts=(0, 0), steps=(1, 1),
                   shape=(bags, width)), P.reshape(P.slice(found, starts=(0,), steps=(1,), shape=(bags,)),
                                                   shape=(bags, 1))


# --- segments ---------------------------------------------------------------------------------------------------------
def segments(lengths, size):
    """Segment of each of ``size`` elements, row by row; the number of segments for elements in none."""
    flat = lengths.reshape(-1, lengths.shape[-1])
    out = np.full((len(flat), size), lengths.shape[-1])
    for row, found in zip(out, flat):
        named = np.repeat(np.arange(len(found)), found)
        row[:len(named)] = named
    return out.reshape(*lengths.shape[:-1], size)


def into_segments(values, place, count, start, axis, combine):
    """Combine elements, starting with ``start``, into their segments; those of index ``count`` are in none."""
    shape = tuple(count + 1 if k == axis else s for k, s in enumerate(values.shape))
    total = P.scatter(P.full(shape=shape, value=start, dtype=values.dtype), place, values, dim=axis, combine=combine)
    rank = len(shape)
    return P.slice(total, starts=(0,) * rank, steps=(1,) * rank,
                   shape=tuple(count if k == axis else s for k, s in enumerate(shape)))


@op(method=False, name="_in_segments")
def in_segments(data, place, count, start, axis, combine):
    """Reduce segments, [..., n, ...] -> [..., count, ...]: "add", "mul", "max" or "min", starting with ``start``."""
    return into_segments(data, place, count, start, axis, combine)


@rule(in_segments)
def vjp(g, y, data, place, count, start, axis, combine):  # noqa: F811
    """Extremes: the gradient in equal parts to the elements that equal the extreme, NaN included.  "mul": times the
    product of the other elements, also if the element is zero or NaN."""
    if not count:
        return [P.full(shape=tuple(data.shape), value=0, dtype=data.dtype), None]
    at = P.minimum(place, count - 1)
    own = lambda x: P.gather(x, at, dim=axis)  # value of an element's segment
    total = lambda chosen: own(into_segments(P.convert(chosen, dtype=data.dtype), place, count, 0.0, axis, "add"))
    g, unknown = own(g), P.ne(data, data)
    if combine in ("max", "min"):
        found = own(y)
        chosen = P.logical_or(P.eq(data, found), P.logical_and(unknown, P.ne(found, found)))
        g = P.where(chosen, P.div(g, total(chosen)), 0)
    elif combine == "mul":
        zero = P.eq(data, 0)
        special = P.logical_or(zero, unknown)
        others = own(into_segments(P.where(special, 1, data), place, count, start, axis, "mul"))
        others = P.where(P.gt(total(zero), P.convert(zero, dtype=data.dtype)), 0, others)
        others = P.where(P.gt(total(unknown), P.convert(unknown, dtype=data.dtype)), math.nan, others)
        g = P.mul(g, P.where(special, others, P.div(own(y), P.where(special, 1, data))))
    return [P.where(P.lt(place, count), g, 0), None]


@op(composite=True, method=False)
def _segment_reduce(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    """Consecutive segments along ``axis`` reduced to one element each: "sum", "mean", "amax", "amin" (or
    "max", "min") or "prod"."""
    reduce = {"amax": "max", "amin": "min"}.get(reduce, reduce)
    if reduce not in ("sum", "mean", "max", "min", "prod"):
        raise RuntimeError(f"segment_reduce(): unsupported reduction {reduce}")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    bounds = lengths if offsets is None else offsets
    if not data.is_floating_point() or bounds.dtype not in (int64, int32):
        raise NotImplementedError(
            f"segment_reduce() is not implemented for data of {data.dtype} and lengths or offsets of {bounds.dtype}: "
            "give floating-point data and integers")
    axis = wrapped(axis, data.dim())
    sizes = values_of(lengths) if offsets is None else np.diff(values_of(offsets), axis=-1)
    if (sizes < 0).any() or not unsafe and (sizes.sum(-1) != data.size(axis)).any():
        raise RuntimeError(
            f"segment_reduce(): lengths must be non-negative and add up to data.size({axis}) ({data.size(axis)}), got "
            f"sums {sizes.sum(-1).tolist()}")
    count = sizes.shape[-1]
    tail = (1,) * (data.dim() - axis - 1)
    place = computed(segments(sizes, data.size(axis)).astype(np.int64)).reshape((*data.shape[:axis + 1],
                                                                                 *tail)).expand(data.shape)
    neutral = {"sum": 0.0, "mean": 0.0, "max": -math.inf, "min": math.inf,
               "prod": 1.0}[reduce] if initial is None else initial
    how = {"max": "max", "min": "min", "prod": "mul"}.get(reduce, "add")
    out = in_segments(data, place, count, neutral, axis, how)
    if reduce != "mean":
        return out
    each = computed(sizes.astype(np.int64)).reshape((*sizes.shape, *tail)).to(data.dtype)
    empty = math.nan if initial is None else initial
    return OPS["where"](each == 0, empty, out / each.clamp_min(1))
