"""Copies with rearranged elements: flips, rolls, repeats, triangles, diagonals, memory formats, padding."""
from __future__ import annotations

from ..core.dtypes import bool_, int64
from ..core.expectations import expect_counts, expect_elements
from ..core.expr import Expr
from ..core.kinds import P
from ..core.meta import is_channels_last
from ..core.op import OPS, Scalar, op, sample
from ..core.tensor import Tensor, wrapped
from .pieces import joined
from .promotion import as_dtype, check_number
from .shape import sizes_of
from .slices import diagonal as diagonal_view, sliced


@op(samples=(sample((2, 3), (0, 1)),))
def flip(input, *which, dims=None):
    """The order reversed along dimensions."""
    if dims is None and not which:
        raise TypeError("flip() missing 1 required positional arguments: \"dims\"")
    dims = ((dims,) if isinstance(dims, int) else tuple(dims)) if dims is not None else sizes_of(which)
    dims = tuple(sorted(wrapped(d, len(input.shape)) for d in dims))
    if len(set(dims)) != len(dims):
        raise RuntimeError("dim appears multiple times in the list of dims")
    return P.flip(input, dims=dims) if dims and input.shape else P.copy(input)


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


@op(samples=(sample((2, 3), 2, 2),))
def repeat(input, *times, repeats=None):
    """Copies of the tensor tiled along each dimension."""
    repeats = sizes_of(times) if repeats is None else tuple(repeats)
    lead = len(repeats) - len(input.shape)
    if lead < 0:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    expect_counts(repeats, lambda: RuntimeError(
        f"Trying to create tensor with negative dimension in repeat: {list(repeats)}"))
    shape = (1,) * lead + tuple(input.shape)
    x = P.reshape(input, shape=tuple(v for s in shape for v in (1, s)))
    x = P.expand(x, shape=tuple(v for r, s in zip(repeats, shape) for v in (r, s)))
    out = P.reshape(x, shape=tuple(r * s for r, s in zip(repeats, shape)))
    # such a reshape is a view, which the result must not be
    merged = any(isinstance(r, Expr) for r in repeats) or all(r == 1 or s == 1 for r, s in zip(repeats, shape))
    return P.copy(out) if merged else out


@op
def tile(input, *times, dims=None):
    """Like repeat, with missing repeats taken as 1."""
    dims = sizes_of(times) if dims is None else tuple(dims)
    return repeat.body(input, (1,) * (len(input.shape) - len(dims)) + tuple(dims))


@op(method=False, name="_roll")
def rolled(input, shift, dim):
    """Roll elements along one dimension: those shifted past the end reappear at the other end."""
    size = input.shape[dim]
    return joined([sliced(input, dim, size - shift, 1, shift), sliced(input, dim, 0, 1, size - shift)], dim)


@op(composite=True, samples=(sample((2, 3), 1, 1), sample((2, 3), shifts=(1, 2), dims=(0, 1))))
def roll(input, shifts, dims=None):
    """Roll elements along dimensions: those shifted past the end reappear at the other end.

    One dimension after the other: each is a copy of two blocks, which both in one program would not be.
    """
    if dims is None or dims == ():
        if not isinstance(shifts, (int, Expr)) and len(shifts) != 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:0")
        return roll(input.reshape(-1), shifts, 0).reshape(input.shape)
    shifts, dims = (tuple(v) if isinstance(v, (tuple, list)) else (v,) for v in (shifts, dims))
    if len(shifts) != len(dims):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if not input.numel():  # independent of the dimensions, as in PyTorch
        return input.clone()
    out = input
    for shift, dim in zip(shifts, dims):
        at = wrapped(dim, input.dim())
        shift = shift % input.shape[at]
        out = rolled(out, shift, at) if shift else out
    return out if out is not input else input.clone()


@op
def rot90(input, k=1, dims=(0, 1)):
    """Rotate by 90 degrees k times in the plane of two dimensions."""
    if len(dims) != 2 or len(input.shape) < 2:
        raise RuntimeError(
            f"expected total rotation dims == 2 and total dims >= 2, but got dims = {len(dims)} and total dims = "
            f"{len(input.shape)}")
    rank = len(input.shape)
    for number, d in enumerate(dims):
        if not -rank <= d < rank:
            raise RuntimeError(f"Rotation dim{number} out of range, dim{number} = {d}")
    a, b = (wrapped(d, rank) for d in dims)
    if a == b:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}")
    turns = k % 4
    if turns == 0:
        return P.copy(input)
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


@op(samples=(sample((3, 4)),), inplace_too=True, out_exact=True)
def tril(input, diagonal: Scalar = 0):
    """The lower triangle, zero above ``diagonal``."""
    return triangle(input, diagonal, P.le)


@op(samples=(sample((3, 4)),), inplace_too=True, out_exact=True)
def triu(input, diagonal: Scalar = 0):
    """The upper triangle, zero below ``diagonal``."""
    return triangle(input, diagonal, P.ge)


@op
def contiguous(input, memory_format=None):
    """Return the tensor itself if it is contiguous in the memory format, else a contiguous copy."""
    if memory_format is not None and memory_format.name.startswith("channels_last"):
        check_rank(memory_format, input.shape)
        return input if is_channels_last(input._rush_meta) else channels_last(input)
    return input if input._rush_meta.contiguous else P.copy(input)


def check_rank(memory_format, shape):
    """RuntimeError for a memory format of images of another rank."""
    rank = 4 if memory_format.name == "channels_last" else 5
    if len(shape) != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {memory_format.name} format, got sizes {list(shape)}")


def channels_last(input):
    order = (0, *range(2, len(input.shape)), 1)
    back = (0, len(input.shape) - 1, *range(1, len(input.shape) - 1))
    return P.permute(P.copy(P.permute(input, dims=order)), dims=back)


@op(by_rows=True)
def clone(input, *, memory_format=None):
    """A copy with the same strides (dense), or in ``memory_format``."""
    if memory_format is not None and memory_format.name.startswith("channels_last"):
        check_rank(memory_format, input.shape)
        return channels_last(input)
    if memory_format is not None and memory_format.name == "contiguous_format":
        return P.copy(input)
    return P.convert(input, dtype=input._rush_meta.dtype)


@op(name="_to_dtype", method=False)
def to_dtype(input, dtype):
    """Convert the tensor to another dtype; itself if it has it."""
    return input if input.dtype is dtype else P.convert(input, dtype=dtype)


@op(samples=(sample((2, 3), (1, 1), value=2.0),), namespace="nn.functional")
def pad(input, pad, mode="constant", value=None):
    """Pad (crop if negative): ``pad`` gives (before, after) from the last dimension on."""
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
    if mode != "circular":
        expect_elements(input.shape[rank - count - 1:], lambda: RuntimeError(
            f"Expected {count + 1}D or {count + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(input.shape)}"))
    left = [size + a + b for size, a, b in zip(input.shape, low, high)][rank - count:]
    if mode != "circular" and min(pad, default=0) < 0 and all(size < 1 for size in left):
        raise RuntimeError(f"input {list(input.shape)} is too small: padding {pad} leaves the sizes {left}")
    out = input
    for at in reversed(range(rank)):  # whole rows at last
        if (low[at], high[at]) != (0, 0):
            out = border(out, at, low[at], high[at], mode)
    return P.copy(out) if out is input else out


@op
def constant_pad_nd(input, pad, value=0):
    """``nn.functional.pad`` with a constant."""
    return OPS["nn.functional.pad"].body(input, tuple(pad), "constant", value)


def border(x, at, low, high, mode):
    """Extend one dimension by reflection, repetition of the edge, or wrapping around."""
    if mode == "circular" and min(low, high) < 0:  # cropped elements do not wrap around
        if x.shape[at] + low + high < 0:
            raise RuntimeError(
                f"Negative padding value is resulting in an empty dimension: padding ({low}, {high}) at dimension {at} "
                f"of input {list(x.shape)}")
        if x.shape[at] + low + high < 1 and max(low, high) <= x.shape[at]:
            return sliced(x, at, 0, 1, 0)
        x = sliced(x, at, max(-low, 0), 1, x.shape[at] + min(low, 0) + min(high, 0))
        low, high = max(low, 0), max(high, 0)
    size = x.shape[at]
    if mode == "reflect" and max(low, high) >= size:
        raise RuntimeError(
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
            f"({low}, {high}) at dimension {at} of input {list(x.shape)}")
    if mode == "circular" and max(low, high) > size:
        raise RuntimeError("Padding value causes wrapping around more than once.")
    pieces = [edge(x, at, mode, low, True), x, edge(x, at, mode, high, False)]
    pieces = [piece for piece in pieces if piece is not None]
    out = P.cat(tuple(pieces), dim=at) if len(pieces) > 1 else x
    return sliced(out, at, max(-low, 0), 1, size + low + high) if min(low, high) < 0 else out


def edge(x, at, mode, width, first):
    """The ``width`` elements before the first one along a dimension, or after the last one; None if ``width`` is 0."""
    size = x.shape[at]
    if width <= 0:
        return None
    if mode == "replicate":
        shape = tuple(width if k == at else s for k, s in enumerate(x.shape))
        return P.expand(sliced(x, at, 0 if first else size - 1, 1, 1), shape=shape)
    if mode == "circular":
        return sliced(x, at, size - width if first else 0, 1, width)
    return P.flip(sliced(x, at, 1 if first else size - 1 - width, 1, width), dims=(at,))


@op(composite=True, out_exact=True)
def diag(input, diagonal=0):
    """A matrix with this diagonal, or the diagonal of this matrix."""
    if input.dim() == 1:
        return diag_embed(input, diagonal)
    if input.dim() != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.dim()}D")
    return diagonal_view(input, diagonal, 0, 1).clone()


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
    low, high = (max(-offset, 0), max(offset, 0))
    size = input.shape[-1] + low + high
    x = P.pad(input, low=(0,) * (rank - 2) + (low,), high=(0,) * (rank - 2) + (high,), inner=(0,) * (rank - 1), value=0)
    rows = P.reshape(P.iota(size=size, dtype=int64), shape=(size, 1))
    columns = P.reshape(P.iota(size=size, dtype=int64), shape=(1, size))
    x = P.where(P.eq(P.sub(columns, rows), offset), P.reshape(x, shape=(*x.shape, 1)), 0)
    rest = [k for k in range(rank) if k not in (a, b)]
    order = [0] * rank
    for place, k in enumerate([*rest, a, b]):
        order[k] = place
    return P.permute(x, dims=tuple(order))
