"""Views and reshaping: the same elements under other indices."""
from __future__ import annotations

from ..core.dtypes import dtype as dtype_class
from ..core.errors import NegativeSizeError, ReshapeError, ViewError
from ..core.interpret import top
from ..core.kinds import P
from ..core.meta import is_one, product, reshaped_strides
from ..core.op import op, sample
from ..core.tensor import wrapped
from .prims.views import expanded


def sizes_of(size):
    """Return sizes given one by one or as one sequence."""
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else tuple(size)


def inferred(shape, numel):
    """Replace the -1 in a shape by its size."""
    if any(type(s) is int and s < -1 for s in shape):
        raise NegativeSizeError(f"invalid shape dimension in {list(shape)}",
                                "sizes of 0 or more, and at most one -1")
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
    """Return the exception for a shape with another number of elements."""
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
    """``view`` with a dtype: reinterpret the same bytes."""
    return (lambda x: view_bytes(x, shape[0])) if len(shape) == 1 and isinstance(shape[0], dtype_class) else None


@op(view=True, method=False, name="_bytes_as")
def bytes_as(input, dtype):
    """Reinterpret memory as another dtype, within programs."""
    return P.bytes_as(input, old=input.dtype, dtype=dtype)


def view_bytes(x, dtype):
    if x._rush_turned and dtype is not x.dtype:
        raise RuntimeError(
            "torch.Tensor.view is not supported for "
            f"{'conjugate view tensors' if x.is_conj() else 'tensors with negative bit set'} when converting to a "
            "different dtype.")
    old, new = x.dtype.itemsize, dtype.itemsize
    placed = x._rush_storage is not None and top() is None
    shape, strides, offset = list(x.shape), list(x._rush_meta.strides), x.storage_offset() if placed else 0
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
    return reread(x, x._rush_meta.like(tuple(shape), tuple(strides), dtype), offset)


def reread(x, meta, offset):
    """Reinterpret the memory of a tensor as another dtype."""
    from ..core.tensor import alias as alias_memory
    made = alias_memory(x, meta, offset)
    # values without a gradient have no history
    made._base = x if meta.dtype.is_inexact and not x._rush_needs_grad else None
    return made


@op(view=True, samples=(sample((2, 6), 3, 4),), otherwise=as_other_dtype)
def view(input, *shape):
    """A view in another shape (or, given a dtype, of the same bytes as that dtype).  RuntimeError if that needs a
    copy."""
    if len(shape) == 1 and isinstance(shape[0], dtype_class):
        return view_bytes(input, shape[0])
    shape = inferred(sizes_of(shape), input.numel())
    if reshaped_strides(input._rush_meta.shape, input._rush_meta.strides, shape) is None:
        raise ViewError(
            f"view size is not compatible with input tensor's size and stride: {list(input.shape)} with strides "
            f"{list(input._rush_meta.strides)} seen as "
            f"{list(shape)} (at least one dimension spans across two contiguous subspaces)",
            "only dimensions that are contiguous in memory can be joined",
            "Use .reshape(...) instead, which copies if necessary")
    return P.reshape(input, shape=shape)


@op(view=True)
def view_as(input, other):
    """A view in the shape of other."""
    return view.body(input, tuple(other.shape))


@op(view=True)
def reshape_as(input, other):
    """Reshape like other."""
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
    """Swap two dimensions."""
    rank = len(input.shape)
    a, b = wrapped(dim0, rank), wrapped(dim1, rank)
    order = list(range(rank))
    if rank:
        order[a], order[b] = order[b], order[a]
    return P.permute(input, dims=tuple(order))


@op(view=True, inplace_view=True)
def t(input):
    """Transpose a matrix; vectors are unchanged."""
    if len(input.shape) > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {len(input.shape)}D")
    return transpose.body(input, 0, 1) if len(input.shape) == 2 else P.permute(
        input, dims=tuple(range(len(input.shape))))


@op(view=True)
def adjoint(input):
    """Conjugate transpose of the last two dimensions."""
    if len(input.shape) == 1:
        raise RuntimeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    if not input.shape:
        return P.conj(P.permute(input, dims=())) if input.dtype.is_complex else P.permute(input, dims=())
    out = transpose.body(input, -2, -1)
    return P.conjugated(out) if input.dtype.is_complex else out


@op(view=True)
def movedim(input, source, destination):
    """Move dimensions to other positions; the rest stays in order."""
    rank = len(input.shape)
    if not rank:
        return P.permute(input, dims=())
    source = [wrapped(d, rank) for d in ((source,) if isinstance(source, int) else source)]
    destination = [wrapped(d, rank) for d in ((destination,) if isinstance(destination, int) else destination)]
    if len(source) != len(destination):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({source} dims) should contain the same number of "
            f"dims as destination ({destination} dims)")
    for name, dims in (("source", source), ("destination", destination)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({dims})")
    rest = [d for d in range(rank) if d not in source]
    order = [None] * rank
    for s, d in zip(source, destination):
        order[d] = s
    return P.permute(input, dims=tuple(rest.pop(0) if d is None else d for d in order))


@op(view=True, inplace_view=True)
def squeeze(input, dim=None):
    """Remove dimensions of size 1: all of them, or those in ``dim``."""
    rank = len(input.shape)
    dims = range(rank) if dim is None else [wrapped(d, rank) for d in ((dim,) if isinstance(dim, int) else dim)]
    kept = tuple(s for k, s in enumerate(input.shape) if not (k in dims and is_one(s)))
    return P.reshape(input, shape=kept)


@op(view=True, inplace_view=True)
def unsqueeze(input, dim):
    """Insert a dimension of size 1."""
    at = wrapped(dim, len(input.shape) + 1)
    return P.reshape(input, shape=(*input.shape[:at], 1, *input.shape[at:]))


@op(view=True)
def flatten(input, start_dim=0, end_dim=-1):
    """Flatten dimensions start..end into one."""
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
    """All elements in one contiguous dimension: a copy if necessary."""
    ordered = input if input._rush_meta.contiguous else P.copy(input)
    return P.reshape(ordered, shape=(input.numel(),))


@op(view=True)
def unflatten(input, dim, sizes):
    """Split one dimension into several."""
    at = wrapped(dim, len(input.shape))
    try:
        sizes = inferred(tuple(sizes), input.shape[at])
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} ({input.shape[at]}) "
            "in the input tensor") from None
    return P.reshape(input, shape=(*input.shape[:at], *sizes, *input.shape[at + 1:]))


@op(view=True)
def expand(input, *sizes, size=None, implicit=False):
    """Repeat dimensions of size 1 without copying.

    A view with strides of 0; -1 keeps a size.  RuntimeError where another size is not 1.

    >>> torch.tensor([[1], [2]]).expand(2, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    return P.expand(input, shape=expanded(input.shape, sizes_of(sizes) if size is None else tuple(size)))


@op(view=True)
def expand_as(input, other):
    """Expand to the shape of other."""
    return P.expand(input, shape=expanded(input.shape, tuple(other.shape)))


@op(view=True)
def broadcast_to(input, *sizes, size=None):
    """Expand to a shape, which may be given as one tuple or as separate sizes."""
    return P.expand(input, shape=expanded(input.shape, sizes_of(sizes) if size is None else tuple(size)))
