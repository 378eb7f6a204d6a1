"""Indexing, gathering and scattering."""
from __future__ import annotations

import numpy as np

from ..core.advice import warn
from ..core.dtypes import bool_, bound, int32, int64, type_name, uint8
from ..core.expr import Expr
from ..core.interpret import is_idle
from ..core.errors import IndexCountError, StorageBoundsError
from ..core.exchange import as_tensor, tensor as make
from ..core.kinds import P
from ..core.meta import Meta, broadcast, product, span
from ..core.narrow import as_held
from ..core.native import chosen, part, places, state
from ..core.op import OPS, Scalar, op, rule
from ..core.targets import is_expanded
from ..core.tensor import Tensor, attach, resolved, wrapped
from .expanded import write_changes
from .promotion import as_dtype, check_number, held, is_number
from .shape import index_basic

INTEGERS = ("int64", "int32", "int16", "int8", "uint8")


def parse(tensor, key):
    """An index as a list with one entry for each dimension of the input or None: ints, slices, None, tensors (bool
    masks kept)."""
    if isinstance(key, list) and len(key) < 32 and any(k is None or k is Ellipsis
                                                       or isinstance(k, (list, tuple, range, slice, Tensor,
                                                                         np.ndarray)) for k in key):
        warn("Using a non-tuple sequence for multidimensional indexing is deprecated: write x[tuple(seq)], or "
             "x[torch.tensor(seq)] if it is one index.")
        key = tuple(key)
    key = key if isinstance(key, tuple) else (key,)
    entries, used = [], 0
    for k in key:
        if isinstance(k, (list, np.ndarray)) or (isinstance(k, (tuple, range)) and not isinstance(k, str)):
            k = as_tensor(k) if isinstance(k, np.ndarray) else make(list(k)) if len(k) else make([], dtype=int64)
        elif is_place(k) and is_idle() and not without_data(k):
            k = k.item()
        elif hasattr(k, "__index__") and not isinstance(k, (bool, int, Tensor, Expr)):
            k = k.__index__()
        elif not (k is None or k is Ellipsis or isinstance(k, (bool, int, slice, Tensor, Expr))):
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
                f"(got {type(k).__name__})")
        entries.append(k)
        used += k.dim() if isinstance(k, Tensor) and k.dtype in (
            bool_, uint8) else 0 if k is None or k is Ellipsis or isinstance(k, bool) else 1
    if not tensor.dim() and len(entries) == 1 and type(entries[0]) is int:
        raise IndexCountError("invalid index of a 0-dim tensor", "no index",
                              "use tensor.item() to convert it to a number")
    if used > tensor.dim():
        raise IndexCountError(f"too many indices for tensor of dimension {tensor.dim()}: {used}",
                              f"at most {tensor.dim()}", "insert dimensions with None or unsqueeze()")
    if sum(1 for k in entries if k is Ellipsis) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    rest = [slice(None)] * (tensor.dim() - used)
    at = next((j for j, k in enumerate(entries) if k is Ellipsis), None)
    return entries + rest if at is None else entries[:at] + rest + entries[at + 1:]


def on_host(x) -> bool:
    """Whether native code may read a tensor's memory."""
    return x._meta.device.provider.on_host


def without_data(x) -> bool:
    """Whether a tensor has no elements to read, whatever its class says of its device."""
    return not x._meta.device.provider.has_data


def is_place(k) -> bool:
    """Whether an index is a tensor that stands for a whole number."""
    return isinstance(k, Tensor) and not k.dim() and k.dtype.name in INTEGERS and k.dtype is not uint8


def place_at(dim, place):
    """What ``_pick`` does where the place can be read: a view."""
    return (lambda x: OPS["select"](x, dim, place.item())) if is_idle() and not without_data(place) else None


@op(view=True, method=False, name="_pick", otherwise=place_at)
def pick(input, dim, place):
    """The slice at a place of a dimension, which a tensor without dimensions tells: a view of the input."""
    return index_rows.body(input, tuple(place if k == dim else None for k in range(len(input.shape))))


def picked(x, entries):
    """A tensor and its index without those entries that are tensors for whole numbers: these are looked up."""
    rest = []
    for k in reversed(range(len(entries))):
        if is_place(entries[k]):
            x = pick(x, sum(consumed(e) for e in entries[:k]), entries[k])
        else:
            rest.append(entries[k])
    return x, rest[::-1]


def consumed(entry) -> int:
    """How many dimensions an entry of an index stands for."""
    if isinstance(entry, Tensor) and entry.dtype in (bool_, uint8):
        return entry.dim()
    return int(entry is not None and not isinstance(entry, bool))


def slice_entry(k):
    def whole(v):
        if v is not None and not hasattr(v, "__index__"):
            raise TypeError(
                f"slice indices must be integers or None or have an __index__ method, not {type(v).__name__}")
        return v if v is None or type(v) in (int, Expr) else v.__index__()
    step = whole(k.step)
    if step is not None and step <= 0:
        raise ValueError("step must be greater than zero")
    return "slice", whole(k.start), whole(k.stop), step


def static(entries):
    """Entries as the static parameter of ``index_basic``; advanced ones become full slices."""
    return tuple(slice_entry(k) if isinstance(k, slice) else ("slice", None, None, None) if isinstance(k, Tensor)
                 else k for k in entries)


def part_of(tensor, entries):
    """What entries without tensors show."""
    found = part(tensor, tuple(entries))
    return index_basic(tensor, static(entries)) if found is None else found


@attach
def __getitem__(self, key):
    found = part(self, key)
    if found is not None:
        return found
    if type(key) is int and self.dim():
        return index_basic(self, (key,) + (("slice", None, None, None),) * (self.dim() - 1))
    if type(key) is Tensor and is_idle() and self.dim():
        if key.dtype is int64 and not key._meta.shape and not without_data(key):
            return self[key.item()]
        if key.dtype is int64:
            return index_rows(self, (key,) + (None,) * (self.dim() - 1))
        if key.dtype is bool_ and key.dim() and not self.requires_grad and self.shape[
                :key.dim()] == key.shape and on_host(key) and on_host(self):
            return chosen(resolved(self.contiguous()), key.contiguous())
    entries = parse(self, key)
    if any(isinstance(k, bool) for k in entries):
        entries = [make(k) if isinstance(k, bool) else k for k in entries]
    advanced = [k for k in entries if isinstance(k, Tensor)]
    if any(map(is_place, advanced)):
        self, entries = picked(self, entries)
        advanced = [k for k in entries if isinstance(k, Tensor)]
    if not advanced:
        return part_of(self, entries)
    x, indices = prepared(self, entries)
    return index(x, indices)


def prepared(x, entries):
    """The basic part of an index applied, and the tensors by the dimension they index (None elsewhere)."""
    masks = []
    for k in entries:
        if isinstance(k, Tensor) and k.dtype in (bool_, uint8):
            masks += [k] if k.dim() else [k]
    for _ in range(sum(k.dtype is uint8 for k in masks)):
        warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead: write "
             "mask.bool().")
    flat = []  # one entry for each input dimension that remains
    basic = []
    for k in entries:
        if isinstance(k, Tensor):
            if k.dtype in (bool_, uint8):
                if k.dim() == 0:
                    basic.append(None)
                    flat.append(k)
                else:
                    basic += [slice(None)] * k.dim()
                    flat.append(k)
            else:
                basic.append(slice(None))
                flat.append(k)
        else:
            basic.append(k)
            if not type(k) is int:
                flat.append(None)
    start = part_of(x, basic) if any(not (isinstance(b, slice) and b == slice(None)) for b in basic) else x
    indices, dim = [], 0
    for k in flat:
        if k is None:
            indices.append(None)
            dim += 1
        elif k.dtype in (bool_, uint8):
            if k.dim() == 0:
                indices.append(nonzero_vector(k))
                dim += 1
                continue
            for j in range(k.dim()):
                if k.size(j) != start.size(dim + j):
                    raise IndexError(
                        f"The shape of the mask {list(k.shape)} at index {j} does not match the shape of the indexed "
                        f"tensor {list(x.shape)} at index {dim + j}")
            indices += list(nonzero(k, as_tuple=True))
            dim += k.dim()
        else:
            if k.dtype.name not in INTEGERS:
                raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
            indices.append(k)
            dim += 1
    return start, indices


def nonzero_vector(flags):
    """Where flags [n] hold, in order; of a single flag [0] or []."""
    return nonzero(flags.reshape(-1), as_tuple=True)[0]


def positions(x, indices):
    """The indexed dimensions brought to the front, and the position in them of each looked-up element.

    Returns (x permuted, how many dimensions are indexed, the index into their product, where the result's index
    dimensions go).
    """
    dims = [k for k, i in enumerate(indices) if i is not None]
    if not dims:
        raise RuntimeError("indices name no dimension: at least one of them has to be a tensor")
    tensors = [indices[k] for k in dims]
    rest = [k for k in range(len(x.shape)) if k not in dims]
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    order = (*dims, *rest)
    try:
        shape = broadcast(*(i.shape for i in tensors))
    except RuntimeError:
        raise IndexError(
            "shape mismatch: indexing tensors could not be broadcast together with shapes "
            f"{', '.join(str(list(i.shape)) for i in tensors)}") from None
    at = None
    for k, i in zip(dims, tensors):
        size = x.shape[k]
        i = as_dtype(i, int64)
        i = P.where(P.lt(i, 0), P.add(i, size), i)
        if len(dims) > 1:  # a wrong index must not be hidden by the others
            i = P.where(P.logical_or(P.lt(i, 0), P.ge(i, size)), -(1 << 40), i)
        at = i if at is None else P.add(P.mul(at, size), i)
    at = P.expand(at, shape=shape) if tuple(at.shape) != shape else at
    moved = P.permute(x, dims=order) if order != tuple(range(len(order))) else x
    return moved, len(dims), at, dims[0] if adjacent else 0


@op(method=False, name="_index")
def index_rows(input, indices):
    """input[indices] with a tensor or None for each dimension."""
    x, count, at, place = positions(input, indices)
    lead = product(x.shape[:count])
    if lead and any(type(size) is int and size == 0 for size in x.shape[count:]):
        # of rows without elements PyTorch takes any position, here alone
        at = P.full(shape=tuple(at.shape), value=0, dtype=int64)
    flat = P.reshape(x, shape=(lead, *x.shape[count:]))
    out = P.take(flat, at, dim=0)
    if place:
        rank, depth = len(out.shape), len(at.shape)
        order = (*range(depth, depth + place), *range(depth), *range(depth + place, rank))
        out = P.permute(out, dims=order)
    return out


@op(composite=True, method=False)
def index(input, indices):
    """input[indices]."""
    indices = list(indices) + [None] * (input.dim() - len(indices))
    return index_rows(input, tuple(indices))


def expands(shape, target) -> bool:
    """Whether a shape broadcasts to another one."""
    try:
        return broadcast(shape, target) == target
    except RuntimeError:
        return False


@op(method=False, name="_index_put")
def put_rows(input, indices, values, accumulate):
    """input with input[indices] = values (or += with ``accumulate``)."""
    x, count, at, place = positions(input, indices)
    shape = tuple(x.shape)
    flat = P.reshape(x, shape=(product(shape[:count]), *shape[count:]))
    depth = len(at.shape)
    rest = shape[count:]
    target = (*rest[:place], *at.shape, *rest[place:])
    values = as_dtype(values, input.dtype)
    if not expands(tuple(values.shape), target):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of "
            f"shape {list(target)}")
    values = P.expand(values, shape=target)
    if place:
        values = P.permute(values, dims=(*range(place, place + depth), *range(place),
                                         *range(place + depth, len(target))))
    out = P.put(flat, at, values, dim=0, combine="add" if accumulate else "set")
    out = P.reshape(out, shape=shape)
    dims = [k for k, i in enumerate(indices) if i is not None]
    order = (*dims, *[k for k in range(len(shape)) if k not in dims])
    back = [0] * len(order)
    for k, d in enumerate(order):
        back[d] = k
    return P.permute(out, dims=tuple(back))


@op(composite=True)
def index_put(input, indices, values, accumulate=False):
    """input with input[indices] = values (or +=)."""
    if values.dtype is not input.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {input.dtype} for the destination and "
            f"{values.dtype} for the source.")
    x, found = prepared(input, parse(input, tuple(i if i is not None else slice(None) for i in indices)))
    return put_rows(x, tuple(found), values, accumulate)


@op(composite=True, inplace=True)
def index_put_(input, indices, values, accumulate=False):
    """In place: input[indices] = values (or +=)."""
    changed = index_put(input, indices, values, accumulate)
    return write_changes("index_put_", input, changed) if is_expanded(input._meta) else input.copy_(changed)


@attach
def __setitem__(self, key, value):
    if self.dtype.is_half and type(value) in (int, float):
        value = as_held(value, self.dtype)  # rounded, to infinity also
    check_number(value, self.dtype)
    target = part(self, key)
    if target is not None and type(value) in (int, float, bool):
        target.fill_(value)
        return
    entries = parse(self, key)
    if any(isinstance(k, bool) for k in entries):
        entries = [make(k) if isinstance(k, bool) else k for k in entries]
    if any(map(is_place, entries)):
        self, entries = picked(self, entries)
    if not any(isinstance(k, Tensor) for k in entries):
        target = part_of(self, entries)
        if isinstance(value, Tensor):
            while value.dim() > target.dim() and value.size(0) == 1:
                value = value.squeeze(0)
            target.copy_(value if value._meta.shape == target._meta.shape else value.expand(target.shape))
        else:
            target.fill_(as_scalar(value, self))
        return
    if not isinstance(value, Tensor):
        value = OPS["_filled"](value, (), self.dtype) if type(value) in (
            int, float) and self.dtype.is_floating_point else make(value, dtype=self.dtype)
    value = value.to(self.dtype)
    if len(entries) == 1 and entries[0].dtype.name == "bool" and not any(type(size) is not int or size != 1
                                                                         for size in value._meta.shape):
        mask = entries[0]
        if mask.shape == self.shape[:mask.dim()]:  # no positions have to be found
            self.masked_fill_(mask.reshape((*mask.shape, *(1,) * (self.dim() - mask.dim()))), value.reshape(()))
            return
    x, indices = prepared(self, entries)
    while value.dim() > indexed_rank(x, indices) and value.size(0) == 1:
        value = value.squeeze(0)
    changed = put_rows(x, tuple(indices), value, False)
    if is_expanded(x._meta):
        write_changes("index_put_", x, changed)
    else:
        x.copy_(changed)


def indexed_rank(x, indices) -> int:
    """How many dimensions ``x[indices]`` has."""
    tensors = [i for i in indices if i is not None]
    return x.dim() - len(tensors) + max(i.dim() for i in tensors)


def as_scalar(value, target):
    if isinstance(value, (int, float, bool, complex)):
        return value
    if value is None or np.ndim(value):
        raise TypeError(
            f"can't assign a {type(value).__name__} to a torch.{type_name(target.dtype)}Tensor: make it a tensor first")
    return make(value, dtype=target.dtype)


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


@op(composite=True, dynamic=True)
def nonzero(input, *, as_tuple=False):
    """The indices of elements that are not zero: [n, dims] int64, or a tuple of vectors."""
    flags = in_memory(input.detach() if input.dtype is bool_ else input.detach() != 0)
    if not input.dim():
        found = places(flags.reshape(1), 1, int64)
        return found if as_tuple else found[0].reshape(-1, 1)[:, :0]
    return places(flags, int(as_tuple), int64)


def in_memory(x):
    """A tensor's elements, known and in row-major order.  NotImplementedError where there are none."""
    if without_data(x):
        raise NotImplementedError("what is not zero depends on data, which tensors on the device meta do not have")
    x = x.contiguous()
    return x.concrete() if x._storage is None else x


@rule(nonzero)
def unmeasured(some, input, *, as_tuple=False):
    count = some()
    return tuple(Meta.of((count,), int64, input.device)
                 for _ in range(max(input.dim(), 1))) if as_tuple else Meta.of((count, input.dim()), int64,
                                                                               input.device)


@op(composite=True)
def nonzero_static(input, *, size, fill_value=-1):
    """The indices of the first ``size`` elements that are not zero, filled up with ``fill_value``: [size, dims]
    int64."""
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    found = nonzero(input)[:size]
    out = found.new_full((size, found.size(1)), fill_value)
    out[:found.size(0)] = found
    return out


def bounded(input, mask, indices):
    """Indices with those outside, or where the mask does not hold, at 0."""
    return tuple(None if i is None else (i % max(input.size(k), 1)) for k, i in enumerate(indices))


@op(composite=True, method=False)
def _unsafe_masked_index(input, mask, indices, fill):
    """input[indices] where mask holds, else ``fill``; indices under the mask alone need to be valid."""
    from .elementwise import where_
    return where_(mask, index(input, bounded(input, mask, indices)), fill)


@op(composite=True, method=False)
def _unsafe_masked_index_put_accumulate(input, mask, indices, values):
    """input with values added at indices where mask holds."""
    return index_put(input, bounded(input, mask, indices), values.masked_fill(~mask, 0), True)


@op(composite=True, method=False)
def unravel_index(indices, shape):
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
    """The indices of elements that are not zero, [n, dims]."""
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
    at = nonzero(mask.expand(shape).reshape(-1)).reshape(-1)
    if at.numel() > source.numel():
        raise RuntimeError(f"masked_scatter: expected source to have at least {at.numel()} elements")
    out = index_copy(input.expand(shape).reshape(-1), 0, at, source.reshape(-1)[:at.numel()])
    return out.reshape(shape)


@op(composite=True, inplace_too=True)
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
    from .shape import diagonal, select
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
