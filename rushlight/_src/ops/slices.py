"""Views of parts of a tensor: slices, single indices, diagonals, windows, and storage with other strides."""
from __future__ import annotations

from ..core.dtypes import INTEGER
from ..core.errors import IndexRangeError, NegativeSizeError, StorageBoundsError
from ..core.expectations import at_most, expect
from ..core.kinds import P
from ..core.meta import dense_strides, is_one, product, same, span
from ..core.op import OPS, op, turning
from ..core.tensor import Tensor, wrapped
from .shape import reread


def from_tensor(dim, start, length):
    """``narrow`` with a start that is a tensor."""
    if not isinstance(start, Tensor):
        return None
    if start.shape or start.dtype.category != INTEGER:
        raise RuntimeError(f"start must be an 0-dim integral Tensor, but it is {list(start.shape)} of {start.dtype}")
    return lambda x: narrow(x, dim, start.item(), length)


@op(view=True, otherwise=from_tensor)
def narrow(input, dim, start, length):
    """``length`` elements from ``start`` along a dimension."""
    at = wrapped(dim, len(input.shape))
    if not input.shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    size = input.shape[at]
    expect(at_most(0, length), lambda: RuntimeError("narrow(): length must be non-negative."))
    for condition in (at_most(-size, start), at_most(start, size)):
        expect(condition, lambda: IndexError(
            f"start out of range (expected to be in range of [-{size}, {size}], but got {start})"))
    start = start + size if start < 0 else start
    expect(at_most(start + length, size), lambda: RuntimeError(
        f"start ({start}) + length ({length}) exceeds dimension size ({size})."))
    return sliced(input, at, start, 1, length)


def sliced(input, at, start, step, length):
    """A strided range of one dimension."""
    rank = len(input.shape)
    return P.slice(input, starts=tuple(start if k == at else 0 for k in range(rank)),
                   steps=tuple(step if k == at else 1 for k in range(rank)),
                   shape=tuple(length if k == at else s for k, s in enumerate(input.shape)))


@op(view=True)
def select(input, dim, index: int):
    """The slice at one index of a dimension, which is removed."""
    if not input.shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    at = wrapped(dim, len(input.shape))
    size = input.shape[at]
    if not -size <= index < size:
        raise IndexRangeError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {at}",
            f"an index from {-size} to {size - 1}")
    part = sliced(input, at, index + size if index < 0 else index, 1, 1)
    return P.reshape(part, shape=(*input.shape[:at], *input.shape[at + 1:]))


@op(view=True, method=False)
def index_basic(input, index):
    """Indexing by integers, slices (as ("slice", start, stop, step)), None and Ellipsis, with one entry for each
    dimension."""
    out, dim, own = input, 0, 0  # own: the dimension of the input
    for entry in index:
        if entry is None:
            out = P.reshape(out, shape=(*out.shape[:dim], 1, *out.shape[dim:]))
            dim += 1
        elif isinstance(entry, tuple):
            start, stop, step = bounds(*entry[1:], out.shape[dim])
            length = max(0, -(-(stop - start) // step))
            if not (same(start, 0) and step == 1 and same(length, out.shape[dim])):
                out = sliced(out, dim, start if length else 0, step, length)
            dim, own = dim + 1, own + 1
        else:
            size = out.shape[dim]
            if not -size <= entry < size:
                raise IndexRangeError(f"index {entry} is out of bounds for dimension {own} with size {size}",
                                      f"an index from {-size} to {size - 1}")
            out = sliced(out, dim, entry % size, 1, 1)
            out = P.reshape(out, shape=(*out.shape[:dim], *out.shape[dim + 1:]))
            own += 1
    return out if out is not input else P.permute(input, dims=tuple(range(len(input.shape))))


def bounds(start, stop, step, size):
    """Start, stop and step of a slice of a dimension; sizes may be symbols."""
    if all(v is None or type(v) is int for v in (start, stop, size)):
        return slice(start, stop, step).indices(size)

    def at(position, otherwise):
        if position is None:
            return otherwise
        if position < 0:
            position = position + size
            return 0 if position < 0 else position
        return size if position > size else position

    return at(start, 0), at(stop, size), 1 if step is None else step


@op(view=True)
def diagonal(input, offset=0, dim1=0, dim2=1):
    """The diagonal of two dimensions, which become one at the end."""
    rank = len(input.shape)
    a, b = wrapped(dim1, rank), wrapped(dim2, rank)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rest = [k for k in range(rank) if k not in (a, b)]
    x = P.permute(input, dims=(*rest, a, b))
    rows, columns = x.shape[-2:]
    start = (0, offset) if offset >= 0 else (-offset, 0)
    length = max(0, min(rows - start[0], columns - start[1]))
    return P.diagonal(x, row=start[0] if length else 0, column=start[1] if length else 0, length=length)


@op(view=True)
def unfold(input, dimension, size, step: int):
    """Every window of ``size`` elements along a dimension, ``step`` apart; windows become the last dimension."""
    at = wrapped(dimension, max(len(input.shape), 1))
    length = input.shape[at] if input.shape else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > length:
        raise RuntimeError(f"maximum size for tensor at dimension {at} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return P.unfold(input, dim=at, size=size, step=step)


@op(composite=True, inplace_view=True)
def as_strided(input, size, stride, storage_offset=None):
    """A view of the storage with any sizes, strides and start (default: that of input), in elements.

    RuntimeError for what reaches beyond the storage.
    """
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {list(stride)} and {list(size)}")
    if any(s < 0 for s in size):
        raise NegativeSizeError(f"as_strided: sizes {list(size)} contain a negative one", "sizes of 0 or more")
    if any(s < 0 for s in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    holder = input._rush_holder()
    held = holder._rush_memory_bytes()
    if storage_offset is None and holder is input:
        own = start = input._rush_offset
    else:
        own, start = holder.storage_offset(), input.storage_offset() if storage_offset is None else storage_offset
    if start < 0:
        raise StorageBoundsError(f"as_strided: the start {start} is before the storage",
                                 "a storage_offset of 0 or more")
    needed = (start + span(size, stride)) * holder.itemsize if product(size) else 0
    if held is not None and needed > held:
        raise StorageBoundsError(
            f"as_strided: sizes {list(size)}, strides {list(stride)} and start {start} need {needed} bytes, out of "
            f"bounds for a storage of {held} bytes", "sizes, strides and start within the storage")
    if held is None and product(size) and (start < own or start - own + span(size, stride) > span(
            holder.shape, holder._rush_meta.strides)):
        raise StorageBoundsError(
            f"as_strided: sizes {list(size)}, strides {list(stride)} and start {start} exceed the elements "
            f"of a value of a program, which start at {own}", "a region within the value")
    return turning(strided(holder, size, stride, start - own), holder._rush_turned ^ input._rush_turned)


@op(view=True, method=False, name="_as_strided")
def strided(input, size, stride, start):
    """A view of storage with any sizes and strides, ``start`` elements after input's first one."""
    order = None if input._rush_meta.contiguous else dense_strides(input.shape, input.stride())
    if order is not None:  # then the elements of input determine the storage, computed or not
        ones = [d for d, size in enumerate(input.shape) if is_one(size)]
        input = P.permute(input, dims=(*ones, *reversed(order)))
    return P.strided(input, shape=size, strides=stride, offset=start)


@op(view=True, method=False, name="_within")
def within(input, size, stride, start):
    """An alias whose elements outside of the region of ``_as_strided`` pass no gradient."""
    return P.within(input, shape=size, strides=stride, offset=start)


def region(tensor, meta, start):
    """View of the storage ``start`` elements (of its dtype) after a tensor's first one, with the tensor's dtype or that
    of its real or imaginary parts."""
    return turning(memory_region(turning(tensor, tensor._rush_turned), meta, start), meta.turned)


def memory_region(tensor, meta, start):
    """``region`` of the stored values."""
    shape, strides = tuple(meta.shape), tuple(meta.strides)
    if meta.dtype is tensor.dtype:
        return strided(tensor, shape, strides, start)
    if not (tensor.dtype.is_inexact and meta.dtype.is_inexact and meta.dtype.to_real() is tensor.dtype.to_real()):
        return reread(tensor, meta.plain, tensor.storage_offset() * tensor.itemsize // meta.itemsize + start)
    if tensor.dtype.is_complex:
        return strided(OPS["view_as_real"](tensor), shape, strides, start)
    return OPS["view_as_complex"](strided(tensor, (*shape, 2), (*(2 * s for s in strides), 1), 2 * start))


@op(view=True, method=False)
def alias(input):
    """Another tensor over the same storage."""
    return P.permute(input, dims=tuple(range(len(input.shape))))


@op(view=True, detaches=True, by_rows=True)
def detach(input):
    """A tensor over the same storage, without gradient history."""
    return P.permute(input, dims=tuple(range(len(input.shape))))
