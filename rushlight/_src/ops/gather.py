"""Elements read or written along a dimension by an index tensor: gather, take, scatter, index_select and others."""
from __future__ import annotations

from ..core.dtypes import bound, int32, int64, uint8
from ..core.errors import StorageBoundsError
from ..core.kinds import P
from ..core.meta import broadcast, product, row_major, span
from ..core.op import Scalar, op, rule
from ..core.tensor import Tensor, wrapped
from .prims.views import laid_down, overlapping
from .promotion import as_dtype, held, is_number


def index_of(name, dim, input, index):
    at = wrapped(dim, len(input.shape))
    if index.dtype not in (int64, int32):
        raise (IndexError if name.startswith("index_select")
               else RuntimeError)(f"{name}(): Expected dtype int32/int64 for index but got {index.dtype}")
    return at, as_dtype(index, int64)


@op(moves=True)
def index_select(input, dim, index):
    """Slices at the positions of a vector along a dimension."""
    at, index = index_of("index_select", dim, input, index)
    if len(index.shape) > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if not len(index.shape):
        index = P.reshape(index, shape=(1,))
    if not input.shape:
        if index.shape[0] != 1:
            raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.shape[0]} value(s)")
        return P.reshape(P.take(P.reshape(input, shape=(1,)), index, dim=0), shape=())
    size, count = input.shape[at], index.shape[0]
    if type(size) is int and type(count) is int and size == 0 < count:
        raise RuntimeError(f"index_select(): self indexing axis dim should be positive, got {count} positions in "
                           f"dimension {at} of {list(input.shape)}")
    return P.take(input, index, dim=at)


def lifted(x):
    """Return the same tensor, with one dimension if it has none."""
    return x if x.shape else P.reshape(x, shape=(1,))


@op(out_of_range=RuntimeError, moves=True, out_exact=True)
def gather(input, dim, index, *, sparse_grad=False):
    """out[i][j] = input[index[i][j]][j] (for dim 0): elements read along a dimension.

    The result has the shape of ``index`` (int64).  RuntimeError for an index that is out of range.

    >>> torch.tensor([[1, 2], [3, 4]]).gather(1, torch.tensor([[1], [0]]))
    tensor([[2],
            [3]])
    """
    at = wrapped(dim, len(input.shape))
    if index.dtype not in (int64, int32) and product(index.shape) != 0:
        raise RuntimeError("gather(): Expected dtype int32/int64 for index")
    x, i = lifted(input), lifted(as_dtype(index, int64))
    if product(index.shape) == 0:  # of any rank: nothing is read
        i = P.reshape(i, shape=(0,) * len(x.shape))
    if len(x.shape) != len(i.shape):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    if product(index.shape) != 0 and type(x.shape[at]) is int and x.shape[at] == 0:
        raise RuntimeError(f"gather(): an index is out of bounds for dimension {at} with size 0")
    for k, (a, b) in enumerate(zip(x.shape, i.shape)):
        if k != at and b > a:
            raise RuntimeError(
                f"Size does not match at dimension {k} expected index {list(index.shape)} to be no larger than self "
                f"{list(input.shape)} apart from dimension {at}")
    return P.reshape(P.gather(x, i, dim=at), shape=tuple(index.shape))


@op
def take_along_dim(input, indices, dim=None):
    """Elements read along a dimension, with broadcasting."""
    if indices.dtype is not int64:
        raise RuntimeError(f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype}")
    if dim is None:
        return P.gather(P.reshape(input, shape=(product(input.shape),)),
                        P.reshape(indices, shape=(product(indices.shape),)), dim=0)
    if len(input.shape) != len(indices.shape):
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{len(input.shape)} dimensions for input, and {len(indices.shape)} dimensions for indices")
    at = wrapped(dim, len(input.shape))
    rest = broadcast(tuple(1 if k == at else s for k, s in enumerate(input.shape)),
                     tuple(1 if k == at else s for k, s in enumerate(indices.shape)))
    x = P.expand(input, shape=tuple(input.shape[at] if k == at else s for k, s in enumerate(rest)))
    indices = P.where(P.lt(indices, 0), P.add(indices, input.shape[at]), indices)
    i = P.expand(indices, shape=tuple(indices.shape[at] if k == at else s for k, s in enumerate(rest)))
    return P.gather(x, i, dim=at)


@op(moves=True)
def take(input, index):
    """Elements at positions in row-major order; negative ones count from the end."""
    if index.dtype is not int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index.dtype}")
    size = product(input.shape)
    at = P.where(P.lt(index, 0), P.add(index, size), index)
    return P.take(P.reshape(input, shape=(size,)), at, dim=0)


def written_part(index, src):
    """Part of ``src`` that is written: of the shape of ``index``, after checks of ranks and sizes."""
    if len(src.shape) != len(index.shape):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if any(b > a for a, b in zip(src.shape, index.shape)):
        raise RuntimeError(f"Expected index {list(index.shape)} to be no larger than src {list(src.shape)}")
    if tuple(src.shape) == tuple(index.shape):
        return src
    return P.slice(src, starts=(0,) * len(index.shape), steps=(1,) * len(index.shape), shape=tuple(index.shape))


def scatter_arguments(name, input, dim, index, src):
    """Dimension, index and written values, with as many dimensions as the input has, at least one."""
    at, given = wrapped(dim, len(input.shape)), isinstance(src, Tensor) and not is_number(src)
    if index.dtype not in (int64, int32):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if given and src.dtype is not input.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    input, index, src = lifted(input), lifted(as_dtype(index, int64)), lifted(src) if given else src
    rank = len(input.shape)
    if product(index.shape) == 0:  # of any rank: nothing is written
        if given:
            several = len(src.shape)
            src = P.slice(src, starts=(0,) * several, steps=(1,) * several, shape=(0,) * several)
        index, src = (P.reshape(x, shape=(0,) * rank) if isinstance(x, Tensor) and not is_number(x) else x
                      for x in (index, src))
    if len(index.shape) != rank:
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    if product(index.shape) != 0 and type(input.shape[at]) is int and input.shape[at] == 0:
        raise RuntimeError(f"{name}(): an index is out of bounds for dimension {at} with size 0")
    if any(k != at and b > a for k, (a, b) in enumerate(zip(input.shape, index.shape))):
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self {list(input.shape)} apart from "
            f"dimension {at}")
    if given:
        return at, index, written_part(index, src)
    value, shape = held(src, input.dtype), tuple(index.shape)
    return at, index, P.expand(value, shape=shape) if isinstance(value, Tensor) else P.full(
        shape=shape, value=value, dtype=input.dtype)


def scattered(input, at, index, src, combine, write=P.scatter):
    return P.reshape(write(lifted(input), index, src, dim=at, combine=combine), shape=tuple(input.shape))


@op(inplace_too=True, out_of_range=RuntimeError, moves=True)
def scatter(input, dim, index, src: Scalar = None, *, reduce=None, value: Scalar = None):
    """A copy of input with src written at the positions of index along a dimension."""
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    at, index, source = scatter_arguments("scatter", input, dim, index, value if src is None else src)
    return scattered(input, at, index, source, {None: "set", "add": "add", "multiply": "mul"}[reduce])


@op(inplace_too=True, out_of_range=RuntimeError, moves=True)
def scatter_add(input, dim, index, src):
    """A copy of input with src added at the positions of index along a dimension."""
    at, index, source = scatter_arguments("scatter_add", input, dim, index, src)
    return scattered(input, at, index, source, "add")


@op(inplace_too=True, out_of_range=RuntimeError, moves=True)
def scatter_reduce(input, dim, index, src, reduce, *, include_self=True):
    """src combined into a copy of input along a dimension: sum, prod, mean, amax or amin."""
    at, index, source = scatter_arguments("scatter_reduce", input, dim, index, src)
    return reduce_into(input, source, lambda base, *how: scattered(base, at, index, *how), reduce, include_self)


@op(method=False, name="_extremes_of_sources")
def extremes_of_sources(base, index, source, dim, combine):
    """``base`` with the largest (smallest) of several sources at each place of ``index``: elements, or slices where
    ``index`` has fewer dimensions. Where sources go ``base`` is neutral: equal to the result by chance, it shares no
    gradient."""
    return choose_access(index, source)[0](base, index, source, dim=dim, combine=combine)


@rule(extremes_of_sources)
def vjp(g, y, base, index, source, dim, combine):
    write, read = choose_access(index, source)
    hit = P.convert(P.eq(source, read(y, index, dim=dim)), dtype=g.dtype)
    count = write(P.full(shape=tuple(base.shape), value=0, dtype=g.dtype), index, hit, dim=dim, combine="add")
    count = P.where(P.eq(y, y), P.maximum(count, 1.0), count)  # 0 where no source goes
    return [g, None, P.mul(read(P.div(g, count), index, dim=dim), hit)]


def choose_access(index, source):
    """Return the primitives that write sources to the places of ``index``, and read there."""
    return (P.scatter, P.gather) if len(index.shape) == len(source.shape) else (P.put, P.take)


def reduce_into(input, source, place, reduce, include_self):
    """Combine ``source`` into a copy of input by ``place(base, values, combine)``, or ``(..., write)`` to write by
    another operator."""
    combine = {"sum": "add", "prod": "mul", "mean": "add", "amax": "max", "amin": "min"}.get(reduce)
    if combine is None:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}.")
    ones = P.full(shape=tuple(source.shape), value=1, dtype=input.dtype)
    base = input
    if not include_self:
        touched = place(P.full(shape=tuple(input.shape), value=0, dtype=input.dtype), ones, "set")
        base = P.where(P.ne(touched, 0), neutral_of(combine, input.dtype), input)
    apart = not include_self and combine in ("max", "min")
    out = place(base, source, combine, *[extremes_of_sources] * apart)
    if reduce != "mean":
        return out
    count = place(P.full(shape=tuple(input.shape), value=1 if include_self else 0, dtype=input.dtype), ones, "add")
    count = P.where(P.eq(count, 0), 1, count)
    return P.div(out, count) if input.dtype.is_inexact else P.floor_divide(out, count)


def neutral_of(combine, dtype):
    if combine in ("add", "mul"):
        return 0 if combine == "add" else 1
    return bound(dtype, highest=combine == "min")


def along(name, combine):
    def body(input, dim, index, source, *, alpha: Scalar = 1):
        at, index = index_of(name, dim, input, index)
        if len(index.shape) > 1:
            raise IndexError(f"{name}(): Index should have dimension 1 or 0 (got {len(index.shape)})")
        if isinstance(alpha, Tensor) or alpha != 1:
            source = P.mul(source, held(alpha, source.dtype))
        if source.dtype is not input.dtype:
            raise RuntimeError(
                f"{name}(): self ({input.dtype}) and source ({source.dtype}) must have the same scalar type")
        index = index if index.shape else P.reshape(index, shape=(1,))
        if not input.shape:
            return P.reshape(P.put(P.reshape(input, shape=(1,)), index, P.reshape(source, shape=(1,)), dim=0,
                                   combine=combine), shape=())
        if not source.shape:
            source = P.expand(source, shape=tuple(index.shape[0] if k == at else s for k, s in enumerate(input.shape)))
        if name == "index_add" and (len(source.shape) != len(input.shape)
                                    or any(a != b for k, (a, b) in enumerate(zip(source.shape, input.shape))
                                           if k != at)):
            raise RuntimeError(
                "index_add(): source tensor shape must match self tensor shape, excluding the specified dimension. "
                f"Got self.shape = {list(input.shape)} source.shape = {list(source.shape)}")
        if source.shape[at] != index.shape[0]:
            raise IndexError(
                f"{name}(): Number of indices ({index.shape[0]}) should be equal to source.size(dim): "
                f"({source.shape[at]}), for dim: {dim}")
        return P.put(input, index, source, dim=at, combine=combine)
    body.__name__, body.__doc__ = name, "A copy of input with slices of source combined at the positions of index."
    return op(body, inplace_too=True, moves=True)


index_add, index_copy = along("index_add", "add"), along("index_copy", "set")


@op(inplace_too=True)
def index_reduce(input, dim, index, source, reduce, *, include_self=True):
    """Slices of source combined into a copy of input at the positions of index: prod, mean, amax or amin."""
    at, index = index_of("index_reduce", dim, input, index)
    if len(index.shape) > 1:
        raise IndexError(f"index_reduce(): Index should have dimension 1 or 0 (got {len(index.shape)})")
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"index_reduce(): self ({input.dtype}) and source ({source.dtype}) must have the same scalar type")
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    index = index if index.shape else P.reshape(index, shape=(1,))
    x, values = (P.reshape(v, shape=(1,)) if not v.shape else v for v in (input, source))
    if values.shape[at] != index.shape[0]:
        raise RuntimeError(
            f"index_reduce(): Number of indices ({index.shape[0]}) should be equal to source.size(dim): "
            f"({values.shape[at]}), for dim: {dim}")
    out = reduce_into(x, values, lambda base, v, combine, write=P.put: write(base, index, v, dim=at, combine=combine),
                      reduce, include_self)
    return P.reshape(out, shape=tuple(input.shape))


@op(inplace_too=True, some=True)
def index_fill(input, dim, index, value: Scalar):
    """A copy of input with slices along a dimension set to one value."""
    at, index = index_of("index_fill", dim, input, index)
    if isinstance(value, Tensor) and not is_number(value) and value.shape:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {len(value.shape)} "
            "dimension(s).")
    if type(value) is complex and not input.dtype.is_complex:
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported: got "
                           f"{value} for a tensor of {input.dtype}")
    x = input if input.shape else P.reshape(input, shape=(1,))
    index = index if index.shape else P.reshape(index, shape=(1,))
    index = P.where(P.lt(index, 0), P.add(index, x.shape[at]), index)
    ones = P.full(shape=tuple(index.shape), value=1, dtype=uint8)
    hit = P.put(P.full(shape=(x.shape[at],), value=0, dtype=uint8), index, ones, dim=0, combine="set")
    hit = P.reshape(P.ne(hit, 0), shape=tuple(size if k == at else 1 for k, size in enumerate(x.shape)))
    return P.reshape(P.where(hit, held(value, input.dtype), x), shape=tuple(input.shape))


def region(name, view):
    def body(input, src, *args, **kwargs):
        out = input.clone()
        target = view(out, *args, **kwargs)
        if tuple(target.shape) != tuple(src.shape):
            raise RuntimeError(
                f"expected src to have a size equal to the {name.split('_')[0]} of self. src size = "
                f"{list(src.shape)}, expected {list(target.shape)}")
        target.copy_(src)
        return out
    body.__name__, body.__doc__ = name, f"A copy of input with src in place of its {name.split('_')[0]}."
    return op(body, composite=True)


def sliced_view(x, dim=0, start=None, end=None, step=1):
    return x[tuple(slice(start, end, step) if k == wrapped(dim, x.dim()) else slice(None) for k in range(x.dim()))]


def _register_regions():
    from .slices import diagonal, select
    return region("select_scatter", select), region("slice_scatter", sliced_view), region("diagonal_scatter", diagonal)


select_scatter, slice_scatter, diagonal_scatter = _register_regions()


@op(composite=True)
def as_strided_scatter(input, src, size, stride, storage_offset=None):
    """A copy of input with src in place of the elements of ``as_strided``.

    RuntimeError for what reaches beyond input, and for a src of another size.
    """
    size, stride, shape, strides = tuple(size), tuple(stride), tuple(input.shape), tuple(input.stride())
    if tuple(src.shape) != size:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = "
            f"{list(size)}")
    own = input.storage_offset()
    if overlapping(shape, strides):  # a copy of it is row-major
        own, strides = 0, row_major(shape)
    start = own if storage_offset is None else storage_offset
    last, end = start + span(size, stride), own + span(shape, strides)
    if product(size) and type(last) is type(end) is int and (last > end or start < 0):
        raise StorageBoundsError(
            f"as_strided_scatter: sizes {list(size)}, strides {list(stride)} and start {start} need {last} elements, "
            f"out of bounds for the {end} of input", "sizes, strides and start within input")
    return strided_scatter(input, src, strides, stride, start - own)


@op(method=False, name="_strided_scatter")
def strided_scatter(input, src, strides, stride, start):
    """Copy ``input``, which has ``strides``, to row-major storage, with src in place of the elements at ``stride`` from
    ``start`` after the first one; elements outside of input are left out."""
    count, written = product(input.shape), product(src.shape)
    order, flat = P.iota(size=count, dtype=int64), P.reshape(input, shape=(count,))
    low = 0
    if strides != row_major(input.shape) or type(start) is int and start < 0:
        low, reach = min(start, 0), max(span(input.shape, strides), start + span(src.shape, stride))
        known = laid_down(P.add(P.reshape(order, shape=tuple(input.shape)), 1), input.shape, strides, -low, reach - low)
        order = P.where(P.eq(known, 0), count, P.sub(known, 1))
        flat = P.pad(flat, low=(0,), high=(1,), inner=(0,), value=0)  # the last one is for omitted elements
    at = P.strided(order, shape=tuple(src.shape), strides=tuple(stride), offset=start - low)
    out = P.put(flat, P.reshape(at, shape=(written,)), P.reshape(src, shape=(written,)), dim=0, combine="set")
    return P.reshape(P.slice(out, starts=(0,), steps=(1,), shape=(count,)), shape=tuple(input.shape))
