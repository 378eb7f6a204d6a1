"""Index tensors with integers and slices without a plan: only the storage offset depends on the indices, so each
``x[i]`` is computed directly."""
from __future__ import annotations

from .language import cast, filled, i64, native, new_tuple, tuple_set
from .objects import Tensor, mine, part_of, state
from .history import joins, made_at

REST = Ellipsis


@native
def part(tensor: object, index: object) -> object:
    """``tensor[index]`` for integers, slices, None and an ellipsis, if nothing is recorded; None if the slow path must
    handle it."""
    kind = type(tensor)
    own = mine
    if len(own.stack) + len(own.modes) != 0 or (kind is not state.tensor and kind is not state.parameter):
        return None
    whole = cast(Tensor, tensor)
    if own.grad != 0 and (whole._rush_needs_grad != 0 or (whole._base is not None and joins(whole))):
        return None
    entries = cast(tuple, index) if type(index) is tuple else cast(tuple, (index,))
    rank = len(cast(tuple, whole._rush_meta.shape))
    used = 0
    kept = 0
    rests = 0
    for k in range(len(entries)):
        kind = type(entries[k])
        if kind is int:
            used += 1
        elif kind is slice:
            used += 1
            kept += 1
        elif entries[k] is None:
            kept += 1
        elif entries[k] is REST:
            rests += 1
        else:
            return None
    if used > rank or rests > 1:
        return None
    try:
        return stepped(whole, entries, rank - used, new_tuple(kept + rank - used), new_tuple(kept + rank - used))
    except (OverflowError, TypeError):  # numbers that no tensor has
        return None


@native
def stepped(tensor: Tensor, entries: tuple, rest: i64, shape: tuple, strides: tuple) -> object:
    """The part that ``entries`` select, in which an ellipsis or the end covers ``rest`` dimensions; fills ``shape`` and
    ``strides``."""
    meta = tensor._rush_meta
    sizes = cast(tuple, meta.shape)
    steps = cast(tuple, meta.strides)
    offset = 0
    dim = 0
    made = 0
    for k in range(len(entries) + 1):
        entry: object = REST if k == len(entries) else entries[k]
        if entry is None:
            tuple_set(shape, made, 1)
            tuple_set(strides, made, inserted(sizes, steps, dim))
            made += 1
        elif entry is REST:
            for _ in range(rest):
                tuple_set(shape, made, sizes[dim])
                tuple_set(strides, made, steps[dim])
                made += 1
                dim += 1
            rest = 0
        else:
            size: i64 = sizes[dim]
            step: i64 = steps[dim]
            dim += 1
            if type(entry) is int:
                at: i64 = entry
                if at < 0:
                    at += size
                if at < 0 or at >= size:
                    return None
                offset += at * step
            else:
                if entry.step is not None and type(entry.step) is not int:
                    return None
                every: i64 = 1 if entry.step is None else entry.step
                if every <= 0:
                    return None
                first = place(entry.start, 0, size)
                count = (place(entry.stop, size, size) - first + every - 1) // every
                offset += first * step
                tuple_set(shape, made, count if count > 0 else 0)
                tuple_set(strides, made, step * every)
                made += 1
    turned: i64 = meta.turned
    key: object = (filled(shape), filled(strides), meta.dtype, meta.device)
    if turned != 0:
        key = (filled(shape), filled(strides), meta.dtype, meta.device, turned)
    known = state.metas.get(key)
    if known is None:
        known = state.meta(key)
    result = part_of(tensor, tensor._rush_offset + offset, known, tensor.itemsize)
    result._base = tensor if tensor._base is None else tensor._base
    result._rush_seen = made_at(tensor)
    return result


@native
def place(given: object, otherwise: i64, size: i64) -> i64:
    """A bound of a slice in a dimension of ``size`` elements."""
    if given is None:
        return otherwise
    if type(given) is not int:
        raise TypeError("a number that is no int")
    at: i64 = given
    if at < 0:
        at += size
        return at if at > 0 else 0
    return at if at < size else size


@native
def inserted(sizes: tuple, steps: tuple, dim: i64) -> object:
    """The stride of a new dimension of size 1 before ``dim``."""
    if dim == len(sizes):
        return 1
    size: i64 = sizes[dim]
    step: i64 = steps[dim]
    return size * step
