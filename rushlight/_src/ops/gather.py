"""Elements picked or written along a dimension by an index tensor: gather, take, scatter, index_select and the like."""
from __future__ import annotations

from ..core.dtypes import bound, int32, int64, uint8
from ..core.errors import StorageBoundsError
from ..core.kinds import P
from ..core.meta import broadcast, product, span
from ..core.op import Scalar, op
from ..core.tensor import Tensor, wrapped
from .promotion import as_dtype, held, is_number


def index_of(name, dim, input, index):
    at = wrapped(dim, len(input.shape))
    if index.dtype not in (int64, int32):
        raise (IndexError if name.startswith("index_select")
               else RuntimeError)(f"{name}(): Expected dtype int32/int64 for index but got {index.dtype}")
    return at, as_dtype(index, int64)


@op(moves=True)
def index_select(input, dim, index):
    """The slices at the positions of a vector along a dimension."""
    at, index = index_of("index_select", dim, input, index)
    if len(index.shape) > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if not len(index.shape):
        index = P.reshape(index, shape=(1,))
    if not input.shape:
        if index.shape[0] != 1:
            raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.shape[0]} value(s)")
        return P.reshape(P.take(P.reshape(input, shape=(1,)), index, dim=0), shape=())
    return P.take(input, index, dim=at)


@op(out_of_range=RuntimeError, moves=True, out_exact=True)
def gather(input, dim, index, *, sparse_grad=False):
    """out[i][j] = input[index[i][j]][j] (for dim 0): elements picked along a dimension.

    The result has the shape of ``index`` (int64).  RuntimeError for an index that is out of range.

    >>> torch.tensor([[1, 2], [3, 4]]).gather(1, torch.tensor([[1], [0]]))
    tensor([[2],
            [3]])
    """
    at = wrapped(dim, len(input.shape))
    if index.dtype not in (int64, int32) and product(index.shape) != 0:
        raise RuntimeError("gather(): Expected dtype int32/int64 for index")
    if len(input.shape) != len(index.shape) and product(index.shape) != 0 and input.shape and index.shape:
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    if not input.shape or not index.shape:
        x = P.reshape(input, shape=(1,)) if not input.shape else input
        i = P.reshape(as_dtype(index, int64), shape=(1,)) if not index.shape else as_dtype(index, int64)
        return P.reshape(P.gather(x, i, dim=0), shape=tuple(index.shape))
    for k, (a, b) in enumerate(zip(input.shape, index.shape)):
        if k != at and b > a:
            raise RuntimeError(
                f"Size does not match at dimension {k} expected index {list(index.shape)} to be no larger than self "
                f"{list(input.shape)} apart from dimension {at}")
    return P.gather(input, as_dtype(index, int64), dim=at)


@op
def take_along_dim(input, indices, dim=None):
    """Elements picked along a dimension, with broadcasting."""
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


def scatter_arguments(name, input, dim, index, src):
    at = wrapped(dim, len(input.shape))
    if index.dtype not in (int64, int32):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    index = as_dtype(index, int64)
    if isinstance(src, Tensor) and not is_number(src):
        if src.dtype is not input.dtype:
            raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
        if index.shape and product(index.shape) != 0 and len(src.shape) != len(index.shape):
            raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
        for k, (a, b) in enumerate(zip(src.shape, index.shape)):
            if b > a:
                raise RuntimeError(f"Expected index {list(index.shape)} to be no larger than src {list(src.shape)}")
    if input.shape and index.shape and len(index.shape) != len(input.shape) and product(index.shape) != 0:
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    if input.shape and type(input.shape[at]) is int and input.shape[at] == 0 and product(index.shape) != 0:
        raise RuntimeError(f"{name}(): an index is out of bounds for dimension {at} with size 0")
    for k, (a, b) in enumerate(zip(input.shape, index.shape)):
        if k != at and b > a:
            raise RuntimeError(
                f"Expected index {list(index.shape)} to be no larger than self {list(input.shape)} apart from "
                f"dimension {at}")
    if not isinstance(src, Tensor) or is_number(src):
        value = held(src, input.dtype)
        src = P.expand(value, shape=tuple(index.shape)) if isinstance(value, Tensor) else P.full(
            shape=tuple(index.shape), value=value, dtype=input.dtype)
    elif tuple(src.shape) != tuple(index.shape):
        src = P.slice(src, starts=(0,) * len(index.shape), steps=(1,) * len(index.shape), shape=tuple(index.shape))
    return at, index, src


def scattered(input, at, index, src, combine):
    if not input.shape or not index.shape:
        vectors = [P.reshape(x, shape=(1,)) if not x.shape else x for x in (input, index, src)]
        return P.reshape(P.scatter(*vectors, dim=0, combine=combine), shape=tuple(input.shape))
    return P.scatter(input, index, src, dim=at, combine=combine)


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
    return reduce_into(input, source, lambda base, values, combine: scattered(base, at, index, values, combine), reduce,
                       include_self)


def reduce_into(input, source, place, reduce, include_self):
    """``source`` combined into a copy of input; ``place(base, values, combine)`` knows where."""
    combine = {"sum": "add", "prod": "mul", "mean": "add", "amax": "max", "amin": "min"}.get(reduce)
    if combine is None:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}.")
    ones = P.full(shape=tuple(source.shape), value=1, dtype=input.dtype)
    base = input
    if not include_self:
        touched = place(P.full(shape=tuple(input.shape), value=0, dtype=input.dtype), ones, "set")
        base = P.where(P.ne(touched, 0), neutral_of(combine, input.dtype), input)
    out = place(base, source, combine)
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
    out = reduce_into(x, values, lambda base, v, combine: P.put(base, index, v, dim=at, combine=combine), reduce,
                      include_self)
    return P.reshape(out, shape=tuple(input.shape))


@op(inplace_too=True, some=True)
def index_fill(input, dim, index, value: Scalar):
    """A copy of input with slices along a dimension set to one value."""
    at, index = index_of("index_fill", dim, input, index)
    if isinstance(value, Tensor) and not is_number(value) and value.shape:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {len(value.shape)} "
            "dimension(s).")
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


@op
def as_strided_scatter(input, src, size, stride, storage_offset=None):
    """A copy of input (row-major) with src in place of the elements that ``as_strided`` sees."""
    if tuple(src.shape) != tuple(size):
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = "
            f"{list(size)}")
    count, last = product(input.shape), (storage_offset or 0) + span(tuple(size), tuple(stride))
    if product(size) and type(last) is int and last > count:
        raise StorageBoundsError(
            f"as_strided_scatter: sizes {list(size)}, strides {list(stride)} and start {storage_offset or 0} need "
            f"{last} elements, out of bounds for "
            f"the {count} of input", "sizes, strides and start within input")
    at = P.strided(P.iota(size=count, dtype=int64), shape=tuple(size), strides=tuple(stride),
                   offset=storage_offset or 0)
    written = product(size)
    out = P.put(P.reshape(input, shape=(count,)), P.reshape(at, shape=(written,)), P.reshape(src, shape=(written,)),
                dim=0, combine="set")
    return P.reshape(out, shape=tuple(input.shape))
