"""Operators that PyTorch decomposes, as it decomposes them: each is a function of the arguments of Rushlight's
operator, and calls the overloads that are seen in its place."""
from __future__ import annotations

import math

from .._src.core.convert import contiguous_format
from .._src.core.dtypes import bool_, complex128, float64
from .._src.core.meta import product, reshaped_strides
from .._src.core.native import Tensor
from .._src.core.op import OPS
from .._src.ops.shape import inferred, sizes_of

WHOLE = ("slice", None, None, None)
SEVERAL: dict = {}


def composed(*names):
    """Register a function as the decomposition of Rushlight operators."""
    def enter(function):
        SEVERAL.update(dict.fromkeys(names, function))
        return function
    return enter


def indexed(input, index, cut=None):
    """Integers, slices and new dimensions, one after another; ``cut(input, index)`` takes one slice."""
    cut = OPS["index_basic"] if cut is None else cut
    out, dim = input, 0
    for entry in index:
        if entry is None:
            out, dim = OPS["unsqueeze"](out, dim), dim + 1
        elif isinstance(entry, tuple):
            if entry[1:] != (None, None, None):
                out = cut(out, (*(WHOLE,) * dim, entry, *(WHOLE,) * (out.dim() - dim - 1)))
            dim += 1
        else:
            out = OPS["select"](out, dim, entry)
    return OPS["alias"](out) if out is input else out


SEVERAL["index_basic"] = indexed


def narrowed(input, dim, start, end):
    """``input[start:end]`` along one dimension, as one slice."""
    dim %= input.dim()
    return OPS["index_basic"](input, (*(WHOLE,) * dim, ("slice", start, end, None),
                                      *(WHOLE,) * (input.dim() - dim - 1)))


def viewed(input, sizes):
    """The elements in other sizes: a view where strides allow, else of a copy."""
    sizes = inferred(tuple(sizes), input.numel())
    if reshaped_strides(input._rush_meta.shape, input._rush_meta.strides, sizes) is not None:
        return OPS["view"](input, sizes)
    return OPS["_unsafe_view"](OPS["clone"](input, memory_format=contiguous_format), sizes)


@composed("reshape")
def reshape(input, *sizes, shape=None):
    return viewed(input, sizes_of(sizes) if shape is None else tuple(shape))


@composed("reshape_as", "view_as")
def reshape_as(input, other):
    return viewed(input, tuple(other.shape))


@composed("flatten")
def flatten(input, start_dim=0, end_dim=-1):
    rank = input.dim()
    if rank == 0:
        return viewed(input, (1,))
    first, last = start_dim % rank, end_dim % rank
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if first == last:
        return input
    shape = tuple(input.shape)
    return viewed(input, (*shape[:first], product(shape[first:last + 1]), *shape[last + 1:]))


@composed("ravel")
def ravel(input):
    return viewed(input if input.is_contiguous() else OPS["contiguous"](input), (-1,))


@composed("unflatten")
def unflatten(input, dim, sizes):
    at, shape = dim % max(input.dim(), 1), tuple(input.shape)
    sizes = inferred(tuple(sizes), shape[at])
    return OPS["view"](input, (*shape[:at], *sizes, *shape[at + 1:]))


@composed("expand_as")
def expand_as(input, other):
    return OPS["expand"](input, tuple(other.shape))


@composed("broadcast_to")
def broadcast_to(input, size):
    return OPS["expand"](input, tuple(size))


@composed("contiguous")
def contiguous(input, memory_format=None):
    if input.is_contiguous(**{} if memory_format is None else {"memory_format": memory_format}):
        return input
    return OPS["clone"](input, memory_format=memory_format or contiguous_format)


@composed("positive")
def positive(input):
    if input.dtype.name == "bool":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@composed("real")
def real(input):
    return OPS["select"](OPS["view_as_real"](input), input.dim(), 0) if input.dtype.is_complex else input


@composed("imag")
def imag(input):
    if not input.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return OPS["select"](OPS["view_as_real"](input), input.dim(), 1)


@composed("conj", "conj_physical")
def conj(input):
    return OPS["_conj"](input) if input.dtype.is_complex else input


@composed("adjoint")
def adjoint(input):
    turned = OPS["transpose"](input, -2, -1)
    return OPS["_conj"](turned) if input.dtype.is_complex else turned


@composed("narrow")
def narrow(input, dim, start, length):
    size = input.shape[dim]
    begin = start.item() if isinstance(start, Tensor) else start
    begin = begin + size if begin < 0 else begin
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if begin + length > size or begin < 0:
        raise RuntimeError(f"start ({begin}) + length ({length}) exceeds dimension size ({size}).")
    return narrowed(input, dim, begin, begin + length)


@composed("tensor_split")
def tensor_split(input, indices_or_sections, dim=0):
    size = input.shape[dim]
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        if indices_or_sections < 1:
            raise RuntimeError(f"number of sections must be larger than 0, got {indices_or_sections}")
        each, more = divmod(size, indices_or_sections)
        ends = [(k + 1) * each + min(k + 1, more) for k in range(indices_or_sections)]
        return tuple(narrowed(input, dim, *span) for span in zip([0, *ends], ends))
    cuts = list(indices_or_sections)
    return tuple(narrowed(input, dim, *span) for span in zip([0, *cuts], [*cuts, size]))


@composed("movedim")
def movedim(input, source, destination):
    given = [[x] if isinstance(x, int) else list(x) for x in (source, destination)]
    rank = input.dim()
    source, destination = ([d % rank for d in dims] for dims in given)
    rest = iter([d for d in range(rank) if d not in source])
    moved = dict(zip(destination, source))
    return OPS["permute"](input, [moved[d] if d in moved else next(rest) for d in range(rank)])


@composed("tile")
def tile(input, *times, dims=None):
    times = list(sizes_of(times) if dims is None else dims)
    return OPS["repeat"](input, (*(1,) * (input.dim() - len(times)), *times))


@composed("fliplr")
def fliplr(input):
    if input.dim() < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return OPS["flip"](input, (1,))


@composed("flipud")
def flipud(input):
    if not input.dim():
        raise RuntimeError("Input must be >= 1-d.")
    return OPS["flip"](input, (0,))


@composed("diag")
def diag(input, diagonal=0):
    if input.dim() == 1:
        return OPS["diag_embed"](input, diagonal)
    return OPS["diagonal_copy"](input, diagonal)


@composed("linalg.diagonal")
def linalg_diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    return OPS["diagonal"](A, offset, dim1, dim2)


@composed("outer")
def outer(input, vec2):
    if input.dim() != 1 or vec2.dim() != 1:
        raise RuntimeError(f"outer: Expected 1-D arguments, but got {input.dim()}-D and {vec2.dim()}-D")
    return OPS["mul"](viewed(input, (input.shape[0], 1)), vec2)


@composed("square")
def square(input):
    return OPS["pow"](input, 2)


@composed("isfinite")
def isfinite(input):
    if not input.dtype.is_inexact:
        return OPS["ones_like"](input, dtype=bool_)
    if input.dtype.is_complex:
        parts = OPS["view_as_real"](input)
        return OPS["bitwise_and"](*(isfinite(OPS["select"](parts, input.dim(), k)) for k in (0, 1)))
    return OPS["mul"](OPS["ne"](OPS["abs"](input), math.inf), OPS["eq"](input, input))


@composed("argsort")
def argsort(input, dim=-1, descending=False, stable=False):
    return OPS["sort"](input, dim, descending, stable)[1]


@composed("msort")
def msort(input):
    return OPS["sort"](input, 0)[0]


@composed("chunk")
def chunk(input, chunks, dim=0):
    size = input.shape[dim]
    each = -(-size // chunks) if chunks > 0 else 0
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    return OPS["split"](input, each, dim) if each else OPS["split_with_sizes"](input, [0] * chunks, dim)


for _name, _dim in (("vsplit", 0), ("dsplit", 2)):
    SEVERAL[_name] = lambda input, indices_or_sections, dim=_dim: tensor_split(input, indices_or_sections, dim)
SEVERAL["hsplit"] = lambda input, indices_or_sections: tensor_split(input, indices_or_sections,
                                                                     1 if input.dim() > 1 else 0)


@composed("atleast_1d")
def atleast_1d(*tensors):
    return each(lambda x: x if x.dim() else viewed(x, (1,)), tensors)


@composed("atleast_2d")
def atleast_2d(*tensors):
    return each(lambda x: x if x.dim() > 1 else OPS["unsqueeze"](x, 0) if x.dim() else viewed(x, (1, 1)), tensors)


@composed("atleast_3d")
def atleast_3d(*tensors):
    def grown(x):
        if x.dim() == 0:
            return viewed(x, (1, 1, 1))
        if x.dim() == 1:
            return OPS["unsqueeze"](OPS["unsqueeze"](x, 0), -1)
        return OPS["unsqueeze"](x, -1) if x.dim() == 2 else x
    return each(grown, tensors)


def each(function, tensors):
    """Apply to one tensor, or to several, given as arguments or in a list."""
    if len(tensors) == 1 and not isinstance(tensors[0], (list, tuple)):
        return function(tensors[0])
    return tuple(map(function, tensors[0] if isinstance(tensors[0], (list, tuple)) else tensors))


@composed("vstack")
def vstack(tensors):
    return OPS["cat"]([atleast_2d(x) for x in tensors], 0)


@composed("hstack")
def hstack(tensors):
    grown = [atleast_1d(x) for x in tensors]
    return OPS["cat"](grown, 0 if grown[0].dim() == 1 else 1)


@composed("dstack")
def dstack(tensors):
    return OPS["cat"]([atleast_3d(x) for x in tensors], 2)


@composed("column_stack")
def column_stack(tensors):
    return OPS["cat"]([viewed(x, (x.numel(), 1)) if x.dim() <= 1 else x for x in tensors], 1)


@composed("take_along_dim")
def take_along_dim(input, indices, dim=None):
    if dim is None:
        return OPS["gather"](viewed(input, (-1,)), 0, viewed(indices, (-1,)))
    dim %= input.dim()
    shapes = [list(x.shape) for x in (input, indices)]
    common = [max(p, q) if 0 not in (p, q) else 0 for p, q in zip(*shapes)]
    sizes = [[*common[:dim], shape[dim], *common[dim + 1:]] for shape in shapes]
    wide, places = (OPS["expand"](x, tuple(size)) for x, size in zip((input, indices), sizes))
    return OPS["gather"](wide, dim, OPS["remainder"](places, input.shape[dim]))


@composed("kron")
def kron(input, other):
    rank = max(input.dim(), other.dim())
    left, right = ((*(1,) * (rank - x.dim()), *x.shape) for x in (input, other))
    pairs = OPS["mul"](OPS["_unsafe_view"](input, tuple(n for size in left for n in (size, 1))),
                       OPS["_unsafe_view"](other, tuple(n for size in right for n in (1, size))))
    return OPS["_unsafe_view"](pairs, tuple(p * q for p, q in zip(left, right)))


@composed("float_power")
def float_power(input, exponent):
    complexes = any(x.dtype.is_complex if isinstance(x, Tensor) else isinstance(x, complex)
                    for x in (input, exponent))
    kind = complex128 if complexes else float64
    return OPS["pow"](*(x.to(kind) if isinstance(x, Tensor) else x for x in (input, exponent)))


@composed("special.ndtr")
def ndtr(input):
    return OPS["mul"](OPS["add"](OPS["erf"](OPS["mul"](input, math.sqrt(0.5))), 1), 0.5)


@composed("sum_to_size")
def sum_to_size(input, *sizes):
    sizes, rank = tuple(sizes_of(sizes)), input.dim()
    lead = rank - len(sizes)
    if lead < 0 or any(n != m and n != 1 for n, m in zip(sizes, input.shape[lead:])):
        raise RuntimeError(f"size {{{list(sizes)}}} is not expandable to size {{{list(input.shape)}}}.")
    dims = [*range(lead), *(lead + k for k, n in enumerate(sizes) if n == 1 and input.shape[lead + k] != 1)]
    out = OPS["sum"](input, dims, True) if dims else input
    return viewed(out, sizes) if lead else out


@composed("cross")
def cross(input, other, dim=None):
    if dim is None:
        dim = next((k for k, (n, m) in enumerate(zip(input.shape, other.shape)) if n == m == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return OPS["linalg.cross"](input, other, dim=dim)


@composed("isreal")
def isreal(input):
    return OPS["eq"](imag(input), 0) if input.dtype.is_complex else OPS["ones_like"](input, dtype=bool_)


@composed("rpow")
def rpow(input, other):
    return OPS["pow"](other, input)
