"""Views and rearrangements: the same elements under other indices."""
from __future__ import annotations

from ..core.advice import warn
from ..core.dtypes import INTEGER, bool_, dtype as dtype_class, int64
from ..core.errors import (ExpandError, IndexRangeError, JoinError, NegativeSizeError, OutOfMemoryError, ReshapeError,
                           StorageBoundsError, ViewError)
from ..core.expr import Expr
from ..core.interpret import top
from ..core.kinds import P
from ..core.meta import CONJUGATED, NEGATED, broadcast, is_channels_last, is_one, product, reshaped_strides, same, span
from ..core.op import OPS, op, sample
from ..core.tensor import Tensor, wrapped
from .promotion import as_dtype, check_number, promoted


def sizes_of(size):
    """Sizes given one by one or as one sequence."""
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else tuple(size)


def inferred(shape, numel):
    """A shape with its -1 worked out."""
    if any(type(s) is int and s < -1 for s in shape):
        raise NegativeSizeError(f"invalid shape dimension in {list(shape)}",
                                "sizes of 0 or more, or one -1 for what is left")
    if -1 not in [s for s in shape if type(s) is int]:
        if product(shape) != numel:
            raise wrong_count(shape, numel)
        return tuple(shape)
    rest = product(s for s in shape if not (type(s) is int and s == -1))
    if sum(1 for s in shape if type(s) is int and s == -1) > 1:
        raise ReshapeError(f"only one dimension can be inferred, but {list(shape)} has several", "a single -1",
                           "work the other sizes out")
    if rest == 0:
        raise ReshapeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size -1 "
            "can be any value and is ambiguous")
    if numel % rest != 0:
        raise wrong_count(shape, numel)
    return tuple(numel // rest if type(s) is int and s == -1 else s for s in shape)


def wrong_count(shape, numel) -> ReshapeError:
    """What is raised for a shape with another number of elements."""
    return ReshapeError(f"shape '{list(shape)}' is invalid for input of size {numel}",
                        f"sizes whose product is {numel}", "put -1 for one size to have it worked out")


@op(view=True, samples=(sample((2, 6), (3, 4)), sample((2, 6), (-1,))))
def reshape(input, *sizes, shape=None):
    """The elements in row-major order in another shape; a view where strides allow, else a copy.

    One size may be -1: what is left.  RuntimeError where the number of elements differs.

    >>> torch.arange(6).reshape(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    return P.reshape(input, shape=inferred(sizes_of(sizes) if shape is None else tuple(shape), input.numel()))


def as_other_dtype(*shape):
    """What ``view`` does when it is given a dtype: the same bytes read as another type."""
    return (lambda x: view_bytes(x, shape[0])) if len(shape) == 1 and isinstance(shape[0], dtype_class) else None


@op(view=True, method=False, name="_bytes_as")
def bytes_as(input, dtype):
    """The same memory as numbers of another dtype, within programs."""
    return P.bytes_as(input, old=input.dtype, dtype=dtype)


def view_bytes(x, dtype):
    if x._turned and dtype is not x.dtype:
        raise RuntimeError(
            "torch.Tensor.view is not supported for "
            f"{'conjugate view tensors' if x.is_conj() else 'tensors with negative bit set'} when converting to a "
            "different dtype.")
    old, new = x.itemsize, dtype.itemsize
    placed = x._storage is not None and top() is None
    shape, strides, offset = list(x.shape), list(x._meta.strides), x.storage_offset() if placed else 0
    if old != new:
        told = f"to view {x.dtype} as {dtype} (different element sizes), but got"
        if not shape:
            raise RuntimeError(f"self.dim() cannot be 0 {told} a 0-dim tensor")
        if strides[-1] != 1:
            raise RuntimeError(f"self.stride(-1) must be 1 {told} {strides[-1]}")
        counted = {"self.size(-1)": shape[-1], "self.storage_offset()": offset,
                   **{f"self.stride({k})": s for k, s in enumerate(strides[:-1])}}
        for what, count in counted.items():
            if count * old % new:
                raise RuntimeError(f"{what} must be divisible by {new // old} {told} {count}")
        shape[-1], strides[:-1], offset = shape[-1] * old // new, [s * old // new
                                                                   for s in strides[:-1]], offset * old // new
    if not placed:
        return bytes_as(x, dtype)
    return reread(x, x._meta.like(tuple(shape), tuple(strides), dtype), offset)


def reread(x, meta, offset):
    """The memory of a tensor as numbers of another dtype."""
    from ..core.tensor import alias as alias_memory
    made = alias_memory(x, meta, offset)
    # what has no gradient is no part of a history
    made._base = x if meta.dtype.is_inexact and not x._needs_grad else None
    return made


@op(view=True, samples=(sample((2, 6), 3, 4),), otherwise=as_other_dtype)
def view(input, *shape):
    """A view in another shape (or, given a dtype, of the same bytes as that dtype).  RuntimeError where only a copy
    would do."""
    if len(shape) == 1 and isinstance(shape[0], dtype_class):
        return view_bytes(input, shape[0])
    shape = inferred(sizes_of(shape), input.numel())
    if reshaped_strides(input._meta.shape, input._meta.strides, shape) is None:
        raise ViewError(
            f"view size is not compatible with input tensor's size and stride: {list(input.shape)} with strides "
            f"{list(input._meta.strides)} seen as "
            f"{list(shape)} (at least one dimension spans across two contiguous subspaces)",
            "dimensions joined only where they follow each other in memory",
            "Use .reshape(...) instead, which copies where it must")
    return P.reshape(input, shape=shape)


@op(view=True)
def view_as(input, other):
    """A view in the shape of other."""
    return view.body(input, tuple(other.shape))


@op(view=True)
def reshape_as(input, other):
    """Reshaped as other."""
    return reshape.body(input, tuple(other.shape))


@op(view=True)
def permute(input, *order, dims=None):
    """The dimensions in another order.

    A view.  RuntimeError unless every dimension is named once.

    >>> torch.zeros(2, 3, 4).permute(2, 0, 1).shape
    torch.Size([4, 2, 3])
    """
    dims = sizes_of(order) if dims is None else tuple(dims)
    if len(dims) != len(input.shape):
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {len(input.shape)} is not equal to len(dims) = {len(dims)}")
    order = tuple(wrapped(d, len(input.shape)) for d in dims)
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return P.permute(input, dims=order)


@op(view=True, samples=(sample((2, 3, 4), 0, 2),), inplace_view=True)
def transpose(input, dim0, dim1):
    """Two dimensions exchanged."""
    rank = len(input.shape)
    a, b = wrapped(dim0, rank), wrapped(dim1, rank)
    order = list(range(rank))
    if rank:
        order[a], order[b] = order[b], order[a]
    return P.permute(input, dims=tuple(order))


@op(view=True, inplace_view=True)
def t(input):
    """A matrix transposed; vectors as they are."""
    if len(input.shape) > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {len(input.shape)}D")
    return transpose.body(input, 0, 1) if len(input.shape) == 2 else P.permute(
        input, dims=tuple(range(len(input.shape))))


@op(view=True)
def adjoint(input):
    """The last two dimensions exchanged, conjugated."""
    if len(input.shape) == 1:
        raise RuntimeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    if not input.shape:
        return P.conj(P.permute(input, dims=())) if input.dtype.is_complex else P.permute(input, dims=())
    out = transpose.body(input, -2, -1)
    return P.conjugated(out) if input.dtype.is_complex else out


@op(view=True)
def movedim(input, source, destination):
    """Dimensions moved to other places, the rest in order."""
    rank = len(input.shape)
    if not rank:
        return P.permute(input, dims=())
    source = [wrapped(d, rank) for d in ((source,) if isinstance(source, int) else source)]
    destination = [wrapped(d, rank) for d in ((destination,) if isinstance(destination, int) else destination)]
    if len(source) != len(destination):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({source} dims) should contain the same number of "
            f"dims as destination ({destination} dims)")
    if len(set(source)) != len(source) or len(set(destination)) != len(destination):
        raise RuntimeError("movedim: repeated dim in `source` or `destination`")
    rest = [d for d in range(rank) if d not in source]
    order = [None] * rank
    for s, d in zip(source, destination):
        order[d] = s
    return P.permute(input, dims=tuple(rest.pop(0) if d is None else d for d in order))


@op(view=True, inplace_view=True)
def squeeze(input, dim=None):
    """Dimensions of size 1 removed: all of them, or those in ``dim``."""
    rank = len(input.shape)
    dims = range(rank) if dim is None else [wrapped(d, rank) for d in ((dim,) if isinstance(dim, int) else dim)]
    kept = tuple(s for k, s in enumerate(input.shape) if not (k in dims and is_one(s)))
    return P.reshape(input, shape=kept)


@op(view=True, inplace_view=True)
def unsqueeze(input, dim):
    """A dimension of size 1 inserted."""
    at = wrapped(dim, len(input.shape) + 1)
    return P.reshape(input, shape=(*input.shape[:at], 1, *input.shape[at:]))


@op(view=True)
def flatten(input, start_dim=0, end_dim=-1):
    """Dimensions start..end joined into one."""
    rank = len(input.shape)
    if not rank:
        return P.reshape(input, shape=(1,))
    a, b = wrapped(start_dim, rank), wrapped(end_dim, rank)
    if a > b:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if a == b:
        return input
    return P.reshape(input, shape=(*input.shape[:a], product(input.shape[a:b + 1]), *input.shape[b + 1:]))


@op(view=True)
def ravel(input):
    """All elements in one dimension."""
    return P.reshape(input, shape=(input.numel(),))


@op(view=True)
def unflatten(input, dim, sizes):
    """One dimension split into several."""
    at = wrapped(dim, len(input.shape))
    try:
        sizes = inferred(tuple(sizes), input.shape[at])
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} ({input.shape[at]}) "
            "in the input tensor") from None
    return P.reshape(input, shape=(*input.shape[:at], *sizes, *input.shape[at + 1:]))


def expanded(shape, wanted):
    lead = len(wanted) - len(shape)
    if lead < 0:
        raise ExpandError(
            f"expand: the number of sizes provided ({len(wanted)}) must be greater or equal to the number of "
            f"dimensions in the tensor ({len(shape)})")
    out = []
    for k, size in enumerate(wanted):
        own = shape[k - lead] if k >= lead else 1
        if type(size) is int and size == -1 and k >= lead:
            size = own
        if type(size) is int and size < 0:
            raise ExpandError(
                f"The expanded size of the tensor ({size}) isn't allowed in a leading, non-existing dimension {k}")
        if not is_one(own) and own != size:
            raise ExpandError(
                f"The expanded size of the tensor ({size}) must match the existing size ({own}) at non-singleton "
                f"dimension {k}.  "
                f"Target sizes: {list(wanted)}.  Tensor sizes: {list(shape)}",
                "sizes equal to the tensor's where that is not 1", "use repeat() to have copies")
        out.append(size)
    return tuple(out)


@op(view=True)
def expand(input, *sizes, size=None, implicit=False):
    """Dimensions of size 1 repeated without copying.

    A view with strides of 0; -1 keeps a size.  RuntimeError where another size is not 1.

    >>> torch.tensor([[1], [2]]).expand(2, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    return P.expand(input, shape=expanded(input.shape, sizes_of(sizes) if size is None else tuple(size)))


@op(view=True)
def expand_as(input, other):
    """Expanded to the shape of other."""
    return P.expand(input, shape=expanded(input.shape, tuple(other.shape)))


@op(view=True)
def broadcast_to(input, size):
    """Expanded to a shape."""
    return P.expand(input, shape=expanded(input.shape, tuple(size)))


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
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [-{size}, {size}], but got {start})")
    start = start + size if start < 0 else start
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return sliced(input, at, start, 1, length)


def sliced(input, at, start, step, length):
    """A strided range of one dimension."""
    rank = len(input.shape)
    return P.slice(input, starts=tuple(start if k == at else 0 for k in range(rank)),
                   steps=tuple(step if k == at else 1 for k in range(rank)),
                   shape=tuple(length if k == at else s for k, s in enumerate(input.shape)))


@op(view=True)
def select(input, dim, index):
    """The slice at one index of a dimension, which goes away."""
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
    """Indexing by integers, slices (as ("slice", start, stop, step)), None and Ellipsis, already one entry a
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
    """Where a slice starts and stops in a dimension, and its step; sizes may be symbols."""
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


def no_window(size):
    raise RuntimeError(f"maximum size for tensor at dimension 0 is 1 but size is {size}")


@op(view=True)
def unfold(input, dimension, size, step):
    """Every window of ``size`` elements along a dimension, ``step`` apart; windows become the last dimension."""
    if not input.shape:
        return P.unfold(input, dim=0, size=size, step=step) if size <= 1 else no_window(size)
    at = wrapped(dimension, len(input.shape))
    length = input.shape[at] if input.shape else 1
    if size > length or size < 0:
        raise RuntimeError(f"maximum size for tensor at dimension {at} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return P.unfold(input, dim=at, size=size, step=step)


@op(composite=True, inplace_view=True)
def as_strided(input, size, stride, storage_offset=None):
    """The storage seen with any sizes, strides and start (default: where input starts), in elements.

    RuntimeError for what reaches beyond the storage.
    """
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {list(stride)} and {list(size)}")
    if any(s < 0 for s in size):
        raise NegativeSizeError(f"as_strided: sizes {list(size)} hold a negative one", "sizes of 0 or more")
    if any(s < 0 for s in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    known = input._storage is not None  # a traced value has none: it starts its own memory
    own = input._offset if known else 0
    start = own if storage_offset is None else storage_offset
    if start < 0:
        raise StorageBoundsError(f"as_strided: the start {start} lies before the storage",
                                 "a storage_offset of 0 or more")
    needed = (start + span(size, stride)) * input.itemsize if product(size) else 0
    if known and needed > input._storage.nbytes:
        raise StorageBoundsError(
            f"as_strided: sizes {list(size)}, strides {list(stride)} and start {start} need {needed} bytes, out of "
            "bounds for a "
            f"storage of {input._storage.nbytes} bytes", "sizes, strides and start within the storage")
    return strided(input, size, stride, start - own)


@op(view=True, method=False, name="_as_strided")
def strided(input, size, stride, start):
    """Memory seen with any sizes and strides, ``start`` elements behind input's first one."""
    return P.strided(input, shape=size, strides=stride, offset=start)


def region(tensor, meta, start):
    """A view of what lies ``start`` elements (of its dtype) behind a tensor's first one, of its dtype or of the numbers
    that share its memory."""
    return turning(memory_region(turning(tensor, tensor._turned), meta, start), meta.turned)


def turning(tensor, bits: int):
    """A view of a tensor through these bits of ``Meta.turned``; the tensor itself where there are none."""
    for bit, name in ((CONJUGATED, "conj"), (NEGATED, "_neg_view")):
        tensor = OPS[name](tensor) if bits & bit else tensor
    return tensor


def memory_region(tensor, meta, start):
    """``region`` of numbers as they are in memory."""
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
    """The same memory under another tensor."""
    return P.permute(input, dims=tuple(range(len(input.shape))))


@op(view=True, detaches=True, by_rows=True)
def detach(input):
    """The same memory, cut off from the gradient."""
    return P.permute(input, dims=tuple(range(len(input.shape))))


@op(samples=(sample((2, 3), (0, 1)),))
def flip(input, *which, dims=None):
    """The order reversed along dimensions."""
    dims = ((dims,) if isinstance(dims, int) else tuple(dims)) if dims is not None else sizes_of(which)
    dims = tuple(sorted(wrapped(d, len(input.shape)) for d in dims))
    if len(set(dims)) != len(dims):
        raise RuntimeError("dim appears multiple times in the list of dims")
    return P.flip(input, dims=dims) if dims and input.shape else P.mul(input, 1)


@op
def fliplr(input):
    """The order reversed along the second dimension."""
    if len(input.shape) < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return P.flip(input, dims=(1,))


@op
def flipud(input):
    """The order reversed along the first dimension."""
    if len(input.shape) < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return P.flip(input, dims=(0,))


def list_of_tensors(name, tensors) -> list:
    """The items of a sequence; TypeError where it is a tensor, or an item is none."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}")
    for k, item in enumerate(tensors):
        if not isinstance(item, Tensor):
            raise TypeError(f"{name}(): expected Tensor as element {k} in argument 0, but got {type(item).__name__}")
    return list(tensors)


def some(name, tensors) -> list:
    """As list_of_tensors; RuntimeError where there is none."""
    if isinstance(tensors, (list, tuple)) and not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return list_of_tensors(name, tensors)


def joined(tensors, dim):
    return P.cat(tuple(tensors), dim=dim)


@op(samples=(sample([(2, 3), (4, 3)]),), method=False, moves=True)
def cat(tensors, dim=0):
    """Tensors one after the other along a dimension; legacy empty vectors are skipped.

    [..., n, ...], [..., m, ...] -> [..., n + m, ...] in the dtype to which all promote.  RuntimeError where other
    dimensions differ.

    >>> torch.cat([torch.zeros(2, 3), torch.ones(1, 3)]).shape
    torch.Size([3, 3])
    """
    tensors = list_of_tensors("cat", tensors)
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    real = [x for x in tensors if tuple(x.shape) != (0,)] or tensors[:1]
    real = list(promoted(*tensors))[:] if len(tensors) > 1 and len(real) == len(tensors) else [
        P.convert(x, dtype=promoted_dtype(tensors)) if x.dtype is not promoted_dtype(tensors) else x for x in real]
    if not real[0].shape:
        raise JoinError("zero-dimensional tensor (at position 0) cannot be concatenated")
    at = wrapped(dim, len(real[0].shape))
    for k, x in enumerate(real[1:], 1):
        if len(x.shape) != len(real[0].shape):
            raise JoinError(f"Tensors must have same number of dimensions: got {len(real[0].shape)} and {len(x.shape)}",
                            "one rank", "unsqueeze the smaller ones, or stack()")
        for d, (a, b) in enumerate(zip(real[0].shape, x.shape)):
            if d != at and a != b:
                raise JoinError(
                    f"Sizes of tensors must match except in dimension {at}. Expected size {a} but got size {b} for "
                    f"tensor number {k} in the list.",
                    f"shapes like {list(real[0].shape)} but for dimension {at}", "join along another dimension, or pad")
    return joined(real, at) if len(real) > 1 else P.mul(real[0], 1) if real[0].dtype.name != "bool" else P.logical_and(
        real[0], True)


def promoted_dtype(tensors):
    from .promotion import result_dtype
    return result_dtype(*tensors)


@op(samples=(sample([(2, 3), (2, 3)]),), method=False)
def stack(tensors, dim=0):
    """Tensors of one shape along a new dimension.

    k of [*, *] -> [*, k, *], k at ``dim``.  RuntimeError where shapes differ.

    >>> torch.stack([torch.zeros(3), torch.ones(3)], dim=1).shape
    torch.Size([3, 2])
    """
    tensors = some("stack", tensors)
    at = wrapped(dim, len(tensors[0].shape) + 1)
    for k, x in enumerate(tensors):
        if tuple(x.shape) != tuple(tensors[0].shape):
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 and "
                f"{list(x.shape)} at entry {k}")
    tensors = list(promoted(*tensors)) if len(tensors) > 1 else tensors
    return joined([P.reshape(x, shape=(*x.shape[:at], 1, *x.shape[at:])) for x in tensors], at)


@op(samples=(sample((2, 3), 2, 2),))
def repeat(input, *times, repeats=None):
    """Copies of the tensor tiled along each dimension."""
    repeats = sizes_of(times) if repeats is None else tuple(repeats)
    lead = len(repeats) - len(input.shape)
    if lead < 0:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    if any(r < 0 for r in repeats):
        raise RuntimeError(f"Trying to create tensor with negative dimension in repeat: {list(repeats)}")
    shape = (1,) * lead + tuple(input.shape)
    x = P.reshape(input, shape=tuple(v for s in shape for v in (1, s)))
    x = P.expand(x, shape=tuple(v for r, s in zip(repeats, shape) for v in (r, s)))
    out = P.reshape(x, shape=tuple(r * s for r, s in zip(repeats, shape)))
    # such a reshape is a view, which the result must not be
    merged = all(r == 1 or s == 1 for r, s in zip(repeats, shape))
    return P.copy(out) if merged else out


@op
def tile(input, *times, dims=None):
    """As repeat, with missing repeats taken as 1."""
    dims = sizes_of(times) if dims is None else tuple(dims)
    return repeat.body(input, (1,) * (len(input.shape) - len(dims)) + tuple(dims))


@op(method=False, name="_roll")
def rolled(input, shift, dim):
    """Elements moved along one dimension, those that fall off coming back at the other end."""
    size = input.shape[dim]
    return joined([sliced(input, dim, size - shift, 1, shift), sliced(input, dim, 0, 1, size - shift)], dim)


@op(composite=True, samples=(sample((2, 3), 1, 1), sample((2, 3), shifts=(1, 2), dims=(0, 1))))
def roll(input, shifts, dims=None):
    """Elements moved along dimensions, those that fall off coming back at the other end.

    One dimension after the other: each is a copy of two blocks, which both in one program would not be.
    """
    if dims is None or dims == ():
        if not isinstance(shifts, (int, Expr)) and len(shifts) != 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:0")
        return roll(input.reshape(-1), shifts, 0).reshape(input.shape)
    shifts, dims = ((v,) if isinstance(v, (int, Expr)) else tuple(v) for v in (shifts, dims))
    if len(shifts) != len(dims):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if not input.numel():  # whatever the dimensions are, as in PyTorch
        return input.clone()
    out = input
    for shift, dim in zip(shifts, dims):
        at = wrapped(dim, input.dim())
        shift = shift % input.shape[at]
        out = rolled(out, shift, at) if shift else out
    return out if out is not input else input.clone()


@op
def rot90(input, k=1, dims=(0, 1)):
    """Turned by 90 degrees k times in the plane of two dimensions."""
    if len(dims) != 2 or len(input.shape) < 2:
        raise RuntimeError(
            f"expected total rotation dims == 2 and total dims >= 2, but got dims = {len(dims)} and total dims = "
            f"{len(input.shape)}")
    a, b = (wrapped(d, len(input.shape)) for d in dims)
    if a == b:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}")
    turns = k % 4
    if turns == 0:
        return P.mul(input, 1)
    if turns == 2:
        return P.flip(input, dims=tuple(sorted((a, b))))
    order = list(range(len(input.shape)))
    order[a], order[b] = b, a
    x = P.permute(input, dims=tuple(order))
    return P.flip(x, dims=(a,)) if turns == 1 else P.flip(x, dims=(b,))


def triangle(input, diagonal, keep):
    if len(input.shape) < 2:
        raise RuntimeError("tril/triu: input tensor must have at least 2 dimensions")
    rows = P.reshape(P.iota(size=input.shape[-2], dtype=int64), shape=(input.shape[-2], 1))
    columns = P.reshape(P.iota(size=input.shape[-1], dtype=int64), shape=(1, input.shape[-1]))
    return P.where(keep(P.sub(columns, rows), diagonal), input, 0)


@op(samples=(sample((3, 4)),), inplace_too=True)
def tril(input, diagonal=0):
    """The lower triangle, zero above ``diagonal``."""
    return triangle(input, diagonal, P.le)


@op(samples=(sample((3, 4)),), inplace_too=True)
def triu(input, diagonal=0):
    """The upper triangle, zero below ``diagonal``."""
    return triangle(input, diagonal, P.ge)


@op
def contiguous(input, memory_format=None):
    """The tensor itself if its elements lie in order, else a copy in order."""
    if memory_format is not None and memory_format.name.startswith("channels_last"):
        check_rank(memory_format, input.shape)
        return input if is_channels_last(input._meta) else channels_last(input)
    return input if input._meta.contiguous else P.copy(input)


def check_rank(memory_format, shape):
    """RuntimeError for an order of memory that is for images of another rank."""
    rank = 4 if memory_format.name == "channels_last" else 5
    if len(shape) != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {memory_format.name} format, got sizes {list(shape)}")


def channels_last(input):
    order = (0, *range(2, len(input.shape)), 1)
    back = (0, len(input.shape) - 1, *range(1, len(input.shape) - 1))
    return P.permute(P.copy(P.permute(input, dims=order)), dims=back)


@op(by_rows=True)
def clone(input, *, memory_format=None):
    """A copy with the same layout (dense), or in ``memory_format``."""
    if memory_format is not None and memory_format.name.startswith("channels_last"):
        check_rank(memory_format, input.shape)
        return channels_last(input)
    if memory_format is not None and memory_format.name == "contiguous_format":
        return P.copy(input)
    return P.convert(input, dtype=input._meta.dtype)


@op(name="_to_dtype", method=False)
def to_dtype(input, dtype):
    """The tensor as another dtype; itself where it has it."""
    return input if input.dtype is dtype else P.convert(input, dtype=dtype)


@op(samples=(sample((2, 3), (1, 1), value=2.0),), namespace="nn.functional")
def pad(input, pad, mode="constant", value=None):
    """Padded (cropped where negative): ``pad`` gives (before, after) from the last dimension on."""
    pad = tuple(pad)
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    count = len(pad) // 2
    rank = len(input.shape)
    if count > rank:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {rank}")
    low = [0] * (rank - count) + [pad[2 * k] for k in reversed(range(count))]
    high = [0] * (rank - count) + [pad[2 * k + 1] for k in reversed(range(count))]
    for size, a, b in zip(input.shape, low, high):
        if size + a + b < 0:
            raise RuntimeError(
                f"The input size {size}, plus negative padding {a} and {b} resulted in a negative output size, which "
                "is invalid. Check dimension sizes.")
    if mode == "constant":
        check_number(value, input.dtype)
        around = {"low": tuple(low), "high": tuple(high), "inner": (0,) * rank}
        if not isinstance(value, Tensor):
            return P.pad(input, **around, value=0 if value is None else value)
        within = P.pad(P.full(shape=tuple(input.shape), value=True, dtype=bool_), **around, value=False)
        return P.where(within, P.pad(input, **around, value=0), as_dtype(value, input.dtype))
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value:
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if count not in (rank - 1, rank - 2):
        raise NotImplementedError("Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now")
    if mode != "circular" and any(type(s) is int and s == 0 for s in input.shape[rank - count - 1:]):
        raise RuntimeError(
            f"Expected {count + 1}D or {count + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(input.shape)}")
    out = input
    for at in reversed(range(rank)):  # whole rows at last
        if (low[at], high[at]) != (0, 0):
            out = border(out, at, low[at], high[at], mode)
    return out


@op
def constant_pad_nd(input, pad, value=0):
    """``nn.functional.pad`` with a constant."""
    return OPS["nn.functional.pad"].body(input, tuple(pad), "constant", value)


def border(x, at, low, high, mode):
    """One dimension extended by reflection, repetition of the edge, or wrapping around."""
    if mode == "circular" and min(low, high) < 0:  # what is cut off does not come round again
        x = sliced(x, at, max(-low, 0), 1, x.shape[at] + min(low, 0) + min(high, 0))
        low, high = max(low, 0), max(high, 0)
    size = x.shape[at]
    if mode == "reflect" and max(low, high) >= size:
        raise RuntimeError(
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
            f"({low}, {high}) at dimension {at} of input {list(x.shape)}")
    if mode == "circular" and max(low, high) > size:
        raise RuntimeError("Padding value causes wrapping around more than once.")
    middle = sliced(x, at, max(-low, 0), 1, size + min(low, 0) + min(high, 0))
    pieces = [edge(x, at, mode, low, True), middle, edge(x, at, mode, high, False)]
    pieces = [piece for piece in pieces if piece is not None]
    return P.cat(tuple(pieces), dim=at) if len(pieces) > 1 else middle


def edge(x, at, mode, width, first):
    """The ``width`` elements before the first one along a dimension, or behind the last one; None for none."""
    size = x.shape[at]
    if width <= 0:
        return None
    if mode == "replicate":
        shape = tuple(width if k == at else s for k, s in enumerate(x.shape))
        return P.expand(sliced(x, at, 0 if first else size - 1, 1, 1), shape=shape)
    if mode == "circular":
        return sliced(x, at, size - width if first else 0, 1, width)
    return P.flip(sliced(x, at, 1 if first else size - 1 - width, 1, width), dims=(at,))


# --- several results: composed of the views above ---------------------------------------------------------------------
@op(composite=True, aliases={"tensor": "input", "split_size": "split_size_or_sections",
                             "split_sizes": "split_size_or_sections"})
def split(input, split_size_or_sections, dim=0):
    """Consecutive parts along a dimension: of one size, or of the given sizes."""
    at = wrapped(dim, input.dim())
    if not input.dim():
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    total, sizes = input.size(at), split_size_or_sections
    if not isinstance(sizes, (list, tuple)):
        if sizes < 0:
            raise RuntimeError(f"split expects split_size be non-negative, but got split_size={sizes}")
        if sizes == 0 and total != 0:
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {total}")
        count = int(-(-total // sizes)) if sizes and total else 1
        sizes = [*[sizes] * (count - 1), total - sizes * (count - 1)] if count > 1 else [total]
    elif sum(sizes) != total or any(s < 0 for s in sizes):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's size at dimension {at}), "
            f"but got split_sizes={list(sizes)}")
    out, start = [], 0
    for size in sizes:
        out.append(narrow(input, at, start, size))
        start += size
    return tuple(out)


@op(composite=True)
def split_with_sizes(input, split_sizes, dim=0):
    """Consecutive parts of the given sizes."""
    return split(input, tuple(split_sizes), dim)


def copies_of(name, function):
    def body(input, *args, **kwargs):
        return tuple(part.clone() for part in function(input, *args, **kwargs))
    body.__name__, body.__doc__ = f"{name}_copy", f"{name}, copied."
    return op(body, composite=True, method=False)


@op(composite=True)
def chunk(input, chunks, dim=0):
    """At most ``chunks`` parts of equal size, the last one smaller.

    Views.

    >>> torch.arange(5).chunk(2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    if not input.dim():
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    size = -(-input.size(dim) // chunks)
    if size == 0:
        return tuple(narrow(input, dim, 0, 0) for _ in range(chunks))
    return split(input, size, dim)


MOST_PARTS = 1 << 31  # of a tensor: no memory holds more
CUTS = dict.fromkeys(("indices", "sections", "tensor_indices_or_sections"), "indices_or_sections")


@op(composite=True, aliases=CUTS)
def tensor_split(input, indices_or_sections, dim=0):
    """Parts as equal as can be, or cut at the given indices."""
    if not input.dim():
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    total, cuts = input.size(dim), indices_or_sections
    if isinstance(cuts, Tensor):
        if not cuts.device.provider.on_host or cuts.dtype is not int64 or cuts.dim() > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a 0-d or 1-d int64 tensor on the cpu")
        cuts = cuts.tolist()
    if isinstance(cuts, int):
        if cuts <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {cuts}")
        if cuts > MOST_PARTS:
            raise OutOfMemoryError(f"tensor_split: {cuts} parts are more than memory holds", f"at most {MOST_PARTS}")
        base, more = total // cuts, total % cuts
        cuts = [k * base + min(k, more) for k in range(1, cuts)]
    spans = [bounds(a, b, None, total)[:2] for a, b in zip([None, *cuts], [*cuts, None])]
    return tuple(narrow(input, dim, a, max(0, b - a)) for a, b in spans)


def cut_by(name, at, least):
    def body(input, indices_or_sections):
        if input.dim() < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension{'s' * (least > 1)}, but got a tensor "
                f"with {input.dim()} dimensions!")
        dim = 0 if name == "hsplit" and input.dim() == 1 else at
        if isinstance(indices_or_sections, int) and (indices_or_sections <= 0 or input.size(dim) % indices_or_sections):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension "
                f"{input.size(dim)} is not divisible by the split_size {indices_or_sections}!")
        return tensor_split(input, indices_or_sections, dim)
    body.__name__, body.__doc__ = name, f"tensor_split along dimension {at}."
    return op(body, composite=True, aliases=CUTS)


hsplit, vsplit, dsplit = cut_by("hsplit", 1, 1), cut_by("vsplit", 0, 2), cut_by("dsplit", 2, 3)


@op(composite=True)
def unbind(input, dim=0):
    """The slices along a dimension, as a tuple."""
    if not input.dim():
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return tuple(select(input, dim, k) for k in range(input.size(dim)))


for _name, _function in {"unbind": unbind, "split": split, "split_with_sizes": split_with_sizes}.items():
    copies_of(_name, _function)


@op(composite=True, method=False)
def meshgrid(*tensors, indexing=None):
    """Coordinates of the grid spanned by vectors."""
    tensors = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if any(x.dim() > 1 for x in tensors):
        raise RuntimeError("torch.meshgrid: Expected 0D or 1D tensor in the tensor list")
    if any(x.dtype is not tensors[0].dtype for x in tensors):
        raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    if indexing is None:
        warn("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument: 'ij' as "
             "here, or 'xy'.")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    swap = indexing == "xy" and len(tensors) > 1
    if swap:
        tensors[0], tensors[1] = tensors[1], tensors[0]
    shape = tuple(x.numel() for x in tensors)
    grids = [x.reshape([-1 if j == k else 1 for j in range(len(shape))]).expand(shape) for k, x in enumerate(tensors)]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@op(composite=True, method=False)
def broadcast_tensors(*tensors):
    """Every tensor expanded to the common shape."""
    tensors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    shape = broadcast(*(x.shape for x in tensors))
    return tuple(expand(x, shape) for x in tensors)


def with_rank(name, rank, place):
    def body(*tensors):
        many = len(tensors) == 1 and isinstance(tensors[0], (list, tuple))
        out = tuple(place(x) for x in (tensors[0] if many else tensors))
        return out if many or len(out) != 1 else out[0]
    body.__name__, body.__doc__ = name, f"Tensors with at least {rank} dimension(s)."
    return op(body, composite=True, method=False)


def two(x):
    return x if x.dim() > 1 else x.reshape(1, -1)


def three(x):
    return x if x.dim() > 2 else x.unsqueeze(-1) if x.dim() == 2 else x.reshape(1, -1, 1)


atleast_1d = with_rank("atleast_1d", 1, lambda x: x if x.dim() else x.reshape(1))
atleast_2d, atleast_3d = with_rank("atleast_2d", 2, two), with_rank("atleast_3d", 3, three)


@op(composite=True, method=False)
def hstack(tensors):
    """Side by side: along the second dimension (vectors: the first)."""
    tensors = some("hstack", tensors)
    tensors = [x if x.dim() else x.reshape(1) for x in tensors]
    return cat(tensors, 0 if tensors[0].dim() == 1 else 1)


@op(composite=True, method=False)
def vstack(tensors):
    """On top of each other."""
    return cat([two(x) for x in some("vstack", tensors)], 0)


@op(composite=True, method=False)
def dstack(tensors):
    """Along the third dimension."""
    return cat([three(x) for x in some("dstack", tensors)], 2)


@op(composite=True, method=False)
def column_stack(tensors):
    """Vectors as columns side by side."""
    return hstack([x if x.dim() > 1 else x.reshape(-1, 1) for x in tensors])


@op(composite=True)
def diag(input, diagonal=0):
    """A matrix with this diagonal, or the diagonal of this matrix."""
    if input.dim() == 1:
        return diag_embed(input, diagonal)
    if input.dim() != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.dim()}D")
    from .shape import diagonal as of
    return of(input, diagonal, 0, 1).clone()


@op(composite=True)
def diagflat(input, offset=0):
    """A matrix with the flattened input on a diagonal."""
    return diag_embed(input.reshape(-1), offset)


@op
def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """Matrices with the last dimension on their diagonals."""
    rank = len(input.shape) + 1
    a, b = wrapped(dim1, rank), wrapped(dim2, rank)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = input.shape[-1] + abs(offset)
    low, high = (max(-offset, 0), max(offset, 0))
    x = P.pad(input, low=(0,) * (rank - 2) + (low,), high=(0,) * (rank - 2) + (high,), inner=(0,) * (rank - 1), value=0)
    rows = P.reshape(P.iota(size=size, dtype=int64), shape=(size, 1))
    columns = P.reshape(P.iota(size=size, dtype=int64), shape=(1, size))
    x = P.where(P.eq(P.sub(columns, rows), offset), P.reshape(x, shape=(*x.shape, 1)), 0)
    rest = [k for k in range(rank) if k not in (a, b)]
    order = [0] * rank
    for place, k in enumerate([*rest, a, b]):
        order[k] = place
    return P.permute(x, dims=tuple(order))
