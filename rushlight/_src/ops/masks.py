"""Elements read or written where a condition holds, or at flat positions: masked_select, masked_scatter, put."""
from __future__ import annotations

from ..core.dtypes import bool_, int64
from ..core.interpret import top
from ..core.meta import broadcast, product
from ..core.op import OPS, op
from ..core.overlaps import refuse_shared
from ..core.targets import check_distinct
from .index import INTEGERS, index, index_put, nonzero


def bounded(input, mask, indices):
    """Replace indices out of range, or where the mask does not hold, by 0."""
    return tuple(None if i is None else (i % max(input.size(k), 1)) for k, i in enumerate(indices))


@op(composite=True, method=False)
def _unsafe_masked_index(input, mask, indices, fill):
    """input[indices] where mask holds, else ``fill``; indices under the mask alone need to be valid."""
    from .logic import where_
    return where_(mask, index(input, bounded(input, mask, indices)), fill)


@op(composite=True, method=False)
def _unsafe_masked_index_put_accumulate(input, mask, indices, values):
    """input with values added at indices where mask holds."""
    return index_put(input, bounded(input, mask, indices), values.masked_fill(~mask, 0), True)


@op(composite=True, method=False)
def unravel_index(indices, shape: object):
    """The coordinates of positions in row-major order: a tuple with one int64 tensor a dimension."""
    if indices.dtype.name not in INTEGERS:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, tuple, list)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not all(isinstance(size, int) for size in shape):
        raise TypeError(f"expected 'shape' sequence to only contain ints, but got {shape}")
    if any(size < 0 for size in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    out, step = [], product(shape)
    indices = indices.to(int64)
    for size in shape:
        step = step // max(size, 1)
        out.append((indices // step) % size if size else indices)
    return tuple(out)


@op(composite=True)
def argwhere(input):
    """Indices of nonzero elements, [n, dims]."""
    return nonzero(input)


@op(composite=True, moves=True)
def masked_select(input, mask):
    """The elements where mask holds, in one dimension."""
    if mask.dtype is not bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast(tuple(input.shape), tuple(mask.shape))
    if shape and shape == tuple(input.shape) == tuple(mask.shape):
        return input[mask]
    return input.expand(shape).reshape(-1)[mask.expand(shape).reshape(-1)]


@op(composite=True, inplace_too=True)
def masked_scatter(input, mask, source):
    """Elements of source, in order, written where mask holds."""
    if mask.dtype is not bool_:
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    shape = broadcast(tuple(input.shape), tuple(mask.shape))
    if input.dtype is not source.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got {input.dtype} and {source.dtype}")
    mask, count = mask.expand(shape), source.numel()
    before = mask.reshape(-1).cumsum(0)
    if top() is None and before.numel() and int(before[-1]) > count:  # a level may have a mask for each example
        raise RuntimeError(f"masked_scatter: expected source to have at least {int(before[-1])} elements")
    if not count or not before.numel():
        return input.expand(shape).clone()
    found = source.reshape(-1)[(before - 1).clamp(0, count - 1)].reshape(shape)
    return OPS["where"](mask, found, input)


@op(composite=True)
def put(input, index, source, accumulate=False):
    """A copy of input with source written at positions in row-major order."""
    if index.numel() != source.numel():
        raise RuntimeError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.numel()}, index.numel() = {index.numel()}")
    if input.dtype is not source.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = {input.dtype} and "
            f"source.dtype = {source.dtype}")
    return index_put(input.reshape(-1), (index.reshape(-1),), source.reshape(-1), accumulate).reshape(input.shape)


@op(composite=True, inplace=True)
def put_(input, index, source, accumulate=False):
    """In place: source written at positions in row-major order."""
    check_distinct("put_", input._rush_meta)
    refuse_shared("put_", input, index, source)
    return input.copy_(put(input, index, source, accumulate))
