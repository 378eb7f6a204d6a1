"""Indexing by ``[]``, for reads and writes, and nonzero."""
from __future__ import annotations

import numpy as np

from ..core.advice import warn
from ..core.dtypes import bool_, int64, type_name, uint8
from ..core.errors import IndexCountError
from ..core.exchange import as_tensor, tensor as make
from ..core.expr import Expr
from ..core.interpret import is_idle
from ..core.kinds import P, by_stride
from ..core.meta import Meta, broadcast, product
from ..core.narrow import as_held
from ..core.native import chosen, part, places
from ..core.op import OPS, op, rule
from ..core.overlaps import refuse_shared
from ..core.targets import is_expanded
from ..core.tensor import Tensor, attach, resolved
from .expanded import write_changes
from .promotion import as_dtype, check_number
from .slices import index_basic

INTEGERS = ("int64", "int32", "int16", "int8", "uint8")


def parse(tensor, key):
    """Expand an index to a list with one entry for each dimension of the input or None: ints, slices, None, tensors
    (bool masks unchanged)."""
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
    """True if native code may read a tensor's memory."""
    return x._rush_meta.device.provider.on_host


def without_data(x) -> bool:
    """True if a tensor has no elements to read, whatever device its class reports."""
    return not x._rush_meta.device.provider.has_data


def is_place(k) -> bool:
    """True if an index is a tensor that represents an integer."""
    return isinstance(k, Tensor) and not k.dim() and k.dtype.name in INTEGERS and k.dtype is not uint8


def place_at(dim, place):
    """Compute ``_pick`` as a view if the index can be read."""
    return (lambda x: OPS["select"](x, dim, place.item())) if is_idle() and not without_data(place) else None


@op(view=True, method=False, name="_pick", otherwise=place_at)
def pick(input, dim, place):
    """View of the input at an index along a dimension; the index is a 0-dim tensor."""
    return index_rows.body(input, tuple(place if k == dim else None for k in range(len(input.shape))))


def picked(x, entries):
    """A tensor and its index without those entries that are integer 0-dim tensors: these are looked up."""
    rest = []
    for k in reversed(range(len(entries))):
        if is_place(entries[k]):
            x = pick(x, sum(consumed(e) for e in entries[:k]), entries[k])
        else:
            rest.append(entries[k])
    return x, rest[::-1]


def consumed(entry) -> int:
    """Number of dimensions that an entry of an index covers."""
    if is_mask(entry):
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
    """Return entries as the static parameter of ``index_basic``; advanced ones become full slices."""
    return tuple(slice_entry(k) if isinstance(k, slice) else ("slice", None, None, None) if isinstance(k, Tensor)
                 else k for k in entries)


def part_of(tensor, entries):
    """Basic indexing: apply entries without tensors."""
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
        if key.dtype is int64 and not key._rush_meta.shape and not without_data(key):
            return self[key.item()]
        if key.dtype is int64:
            return index_rows(self, (key,) + (None,) * (self.dim() - 1))
        if (key.dtype is bool_ and key.dim() and not self.requires_grad and self.shape[:key.dim()] == key.shape
                and (key.dim() == self.dim() or self.is_contiguous()) and on_host(key) and on_host(self)):
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
    """Apply the basic part of an index; return the tensors by the dimension they index (None elsewhere)."""
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
    """Indices of the nonzero flags [n], in order; for a single flag [0] or []."""
    return nonzero(flags.reshape(-1), as_tuple=True)[0]


def positions(x, indices):
    """Move the indexed dimensions to the front, and compute the index of each element in them.

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
        # only here, PyTorch accepts any index into rows without elements
        at = P.full(shape=tuple(at.shape), value=0, dtype=int64)
    flat = P.reshape(x, shape=(lead, *x.shape[count:]))
    out = P.take(flat, at, dim=0)
    if place:
        rank, depth = len(out.shape), len(at.shape)
        order = (*range(depth, depth + place), *range(depth), *range(depth + place, rank))
        out = P.permute(out, dims=order)
    kept = [stride for stride, i in zip(input._rush_meta.strides, indices) if i is None]
    order = by_stride(out.shape, (*kept[:place], *(0,) * len(at.shape), *kept[place:]))
    return laid(out, order) if place or order != list(reversed(range(len(order)))) else out


def laid(out, order):
    """Copy a result to storage with its dimensions in this order, innermost first."""
    outer = tuple(reversed(order))
    back = tuple(sorted(range(len(outer)), key=outer.__getitem__))
    return P.permute(P.copy(P.permute(out, dims=outer)), dims=back)


@op(composite=True, method=False)
def index(input, indices):
    """input[indices], with a tensor or None for each dimension; a mask covers as many dimensions as it has."""
    if any(isinstance(i, Tensor) and i.dtype.name not in INTEGERS or is_mask(i) for i in indices):
        input, indices = prepared(input, parse(input, tuple(slice(None) if i is None else i for i in indices)))
    indices = list(indices) + [None] * (input.dim() - len(indices))
    return index_rows(input, tuple(indices))


def is_mask(entry) -> bool:
    return isinstance(entry, Tensor) and entry.dtype in (bool_, uint8)


def expands(shape, target) -> bool:
    """True if a shape broadcasts to another one."""
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
    if not expands(tuple(values.shape), target):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of "
            f"shape {list(target)}")
    if values.dtype is not input.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {type_name(input.dtype)} for the "
            f"destination and {type_name(values.dtype)} for the source.")
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
    values = values.to(input.dtype) if is_fill(indices, values) else values
    x, found = prepared(input, parse(input, tuple(i if i is not None else slice(None) for i in indices)))
    return put_rows(x, tuple(found), values, accumulate)


def is_fill(entries, value) -> bool:
    """True if one number is written at one mask."""
    given = [entry for entry in entries if isinstance(entry, Tensor)]
    return len(given) == 1 and is_mask(given[0]) and not any(type(n) is not int or n != 1
                                                             for n in value._rush_meta.shape)


def refuse_read(target, entries, value, indices):
    """OverlapError if the values or indices share storage with the target; one number for a mask is read first."""
    refuse_shared("index_put_", target, *(() if is_fill(entries, value) else (value,)),
                  *(i for i in indices if not is_mask(i)))


@op(composite=True, inplace=True)
def index_put_(input, indices, values, accumulate=False):
    """In place: input[indices] = values (or +=)."""
    refuse_read(input, indices, values, indices)
    changed = index_put(input, indices, values, accumulate)
    return write_changes("index_put_", input, changed) if is_expanded(input._rush_meta) else input.copy_(changed)


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
            target.copy_(value if value._rush_meta.shape == target._rush_meta.shape else value.expand(target.shape))
        else:
            target.fill_(as_scalar(value, self))
        return
    if not isinstance(value, Tensor):
        value = OPS["_filled"](value, (), self.dtype) if type(value) in (
            int, float) and self.dtype.is_floating_point else make(value, dtype=self.dtype)
    value = value.to(self.dtype) if is_fill(entries, value) else value
    if len(entries) == 1 and is_fill(entries, value):
        mask = entries[0].to(bool_)
        if mask.shape == self.shape[:mask.dim()]:  # no positions have to be found
            self.masked_fill_(mask.reshape((*mask.shape, *(1,) * (self.dim() - mask.dim()))), value.reshape(()))
            return
    x, indices = prepared(self, entries)
    while value.dim() > indexed_rank(x, indices) and value.size(0) == 1:
        value = value.squeeze(0)
    refuse_read(x, entries, value, indices)
    changed = put_rows(x, tuple(indices), value, False)
    if is_expanded(x._rush_meta):
        write_changes("index_put_", x, changed)
    else:
        x.copy_(changed)


def indexed_rank(x, indices) -> int:
    """Number of dimensions of ``x[indices]``."""
    tensors = [i for i in indices if i is not None]
    return x.dim() - len(tensors) + max(i.dim() for i in tensors)


def as_scalar(value, target):
    if isinstance(value, (int, float, bool, complex)):
        return value
    if value is None or np.ndim(value):
        raise TypeError(
            f"can't assign a {type(value).__name__} to a torch.{type_name(target.dtype)}Tensor: make it a tensor first")
    return make(value, dtype=target.dtype)


@op(composite=True, dynamic=True, out_exact=True)
def nonzero(input, *, as_tuple=False):
    """Indices of nonzero elements: [n, dims] int64, or a tuple of vectors."""
    flags = in_memory(input.detach() if input.dtype is bool_ else input.detach() != 0)
    if not input.dim():
        found = places(flags.reshape(1), 1, int64)
        return found if as_tuple else found[0].reshape(-1, 1)[:, :0]
    return places(flags, int(as_tuple), int64)


def in_memory(x):
    """Return a tensor's elements in row-major order.  NotImplementedError for a tensor without elements."""
    if without_data(x):
        raise NotImplementedError("nonzero indices are data-dependent, and meta tensors have no data")
    x = x.contiguous()
    return x.concrete() if x._rush_storage is None else x


@rule(nonzero)
def unmeasured(some, input, *, as_tuple=False):
    count = some()
    return tuple(Meta.of((count,), int64, input.device)
                 for _ in range(max(input.dim(), 1))) if as_tuple else Meta.of((count, input.dim()), int64,
                                                                               input.device)


@op(composite=True)
def nonzero_static(input, *, size, fill_value=-1):
    """Indices of the first ``size`` nonzero elements, padded with ``fill_value``: [size, dims] int64."""
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    found = nonzero(input)[:size]
    out = found.new_full((size, found.size(1)), fill_value)
    out[:found.size(0)] = found
    return out
