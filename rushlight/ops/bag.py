"""Reductions over runs of rows: bags of embeddings, segments."""
from __future__ import annotations

import math

import numpy as np

from ..core.dtypes import int32, int64
from ..core.exchange import from_numpy, values_of
from ..core.op import OPS, op
from ..core.tensor import wrapped
from .attention import embedding

F = "nn.functional"


def bags_of(offsets, count, include_last_offset):
    """The bag of each of ``count`` elements, and how many bags there are."""
    starts = values_of(offsets)
    ends = starts[1:] if include_last_offset else np.append(starts[1:], count)
    starts = starts[:-1] if include_last_offset else starts
    return np.repeat(np.arange(len(starts)), ends - starts), len(starts)


def check_bags(input, weight, offsets, per_sample_weights, mode, include_last_offset):
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if input.dtype not in (int64, int32):
        raise RuntimeError(f"Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got {input.dtype} instead")
    if input.dim() == 2 and offsets is not None:
        raise ValueError("if input is 2D, then offsets has to be None, as input is treated as a mini-batch of fixed length sequences. However, found offsets of type "
                         f"{type(offsets).__name__}")
    if input.dim() not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if input.dim() == 1 and offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets is not None:
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
        found = values_of(offsets)
        if len(found) and found[0] != 0:
            raise ValueError(f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {found[0]}")
        if len(found) and found[-1] > input.numel():
            raise ValueError(f"offsets[-1] can not be greater than input's length ({input.numel()}), but got offsets[-1] of {found[-1]}")
        if include_last_offset and not len(found):
            raise ValueError("include_last_offset: number of offsets should be at least 1")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(f"embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got mode='{mode}').")
        if tuple(per_sample_weights.shape) != tuple(input.shape):
            raise ValueError(f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, then it must have the same shape as the input ({list(input.shape)})")


@op(composite=True, namespace=F)
def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean", sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=None):
    """The sum, mean or maximum of rows of weight [v, d] over bags of positions: input [b, n], or [n] with bags from ``offsets`` [b] on -> [b, d]."""
    if weight.dtype in (int64, int32) and input.is_floating_point():
        import warnings
        warnings.warn("embedding_bag: the arguments are (input, weight), in this order; they were given the other way round", stacklevel=2)
        input, weight = weight, input
    check_bags(input, weight, offsets, per_sample_weights, mode, include_last_offset)
    if input.dim() == 2:
        bag, count = np.repeat(np.arange(input.size(0)), input.size(1)), input.size(0)
    else:
        bag, count = bags_of(offsets, input.numel(), include_last_offset)
    at = input.reshape(-1)[:len(bag)]
    scale = None if per_sample_weights is None else per_sample_weights.reshape(-1)[:len(bag)]
    if padding_idx is not None:
        kept = values_of(at) != padding_idx % weight.size(0)
        at, bag = at[from_numpy(kept)], bag[kept]
        scale = None if scale is None else scale[from_numpy(kept)]
    rows = embedding(at, weight, None, max_norm, norm_type, scale_grad_by_freq, sparse)
    if weight.dtype.is_half:  # summed in float32, rounded once
        rows, scale = rows.float(), None if scale is None else scale.float()
    rows = rows if scale is None else rows * scale.unsqueeze(1)
    place = from_numpy(bag.astype(np.int64))
    out = rows.new_zeros((count, weight.size(1)))
    if mode == "max":
        return out.scatter_reduce(0, place.unsqueeze(1).expand(rows.shape), rows, "amax", include_self=False).to(weight.dtype)
    out = out.index_add(0, place, rows)
    if mode == "mean":
        out = out / from_numpy(np.maximum(np.bincount(bag, minlength=count), 1).astype(np.int64)).unsqueeze(1).to(out.dtype)
    return out.to(weight.dtype)


# --- segments --------------------------------------------------------------------------------------------------------------------
def segments(lengths, size):
    """The segment of each of ``size`` elements, row by row; one past the last for elements of none."""
    flat = lengths.reshape(-1, lengths.shape[-1])
    out = np.full((len(flat), size), lengths.shape[-1])
    for row, found in zip(out, flat):
        named = np.repeat(np.arange(len(found)), found)
        row[:len(named)] = named
    return out.reshape(*lengths.shape[:-1], size)


@op(composite=True, method=False)
def _segment_reduce(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    """Consecutive segments along ``axis`` reduced to one element each: "sum", "mean", "max", "min" or "prod"."""
    if reduce not in ("sum", "mean", "max", "min", "prod"):
        raise RuntimeError(f"segment_reduce(): unsupported reduction {reduce}")
    if (lengths is None) == (offsets is None):
        raise RuntimeError("segment_reduce(): exactly one of lengths and offsets must be given")
    axis = wrapped(axis, data.dim())
    sizes = values_of(lengths) if offsets is None else np.diff(values_of(offsets), axis=-1)
    if (sizes < 0).any() or not unsafe and (sizes.sum(-1) != data.size(axis)).any():
        raise RuntimeError(f"segment_reduce(): lengths must be non-negative and add up to data.size({axis}) ({data.size(axis)}), got sums {sizes.sum(-1).tolist()}")
    count = sizes.shape[-1]
    tail = (1,) * (data.dim() - axis - 1)
    place = from_numpy(segments(sizes, data.size(axis)).astype(np.int64)).reshape((*data.shape[:axis + 1], *tail)).expand(data.shape)
    neutral = {"sum": 0.0, "mean": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}[reduce] if initial is None else initial
    start = data.new_full((*data.shape[:axis], count + 1, *data.shape[axis + 1:]), neutral)
    how = {"max": "amax", "min": "amin", "mean": "sum"}.get(reduce, reduce)
    out = start.scatter_reduce(axis, place, data, how).narrow(axis, 0, count)
    if reduce != "mean":
        return out
    each = from_numpy(sizes.astype(np.int64)).reshape((*sizes.shape, *tail)).to(data.dtype)
    empty = math.nan if initial is None else initial
    return OPS["where"](each == 0, empty, out / each.clamp_min(1))
