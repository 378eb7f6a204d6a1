"""Searches of masks: operators whose result size depends on data, run without a plan for each size."""
from __future__ import annotations

from .allocator import UNCOUNTED, allocate
from .language import cast, filled, i64, native, new_tuple, tuple_set
from .memory import copy_bytes, load_i16, load_i32, load_i64, load_u8, stack, store_i16, store_i32, store_i64, store_u8
from .objects import Tensor, mine, state, wrap

ONES = 0x0101010101010101
LOW = 0x7F7F7F7F7F7F7F7F


@native
def count_true(mask: i64, count: i64) -> i64:
    """How many of ``count`` bytes are not 0: memory that is looked at as truth values may hold any."""
    found = 0
    k = 0
    while k < count and (mask + k) & 7 != 0:
        found += 1 if load_u8(mask + k, 0) != 0 else 0
        k += 1
    while k + 8 <= count:
        word = load_i64(mask + k, 0)
        found += (((((word & LOW) + LOW) | word) >> 7 & ONES) * ONES >> 56) & 255
        k += 8
    while k < count:
        found += 1 if load_u8(mask + k, 0) != 0 else 0
        k += 1
    return found


@native
def made(shape: tuple, strides: tuple, itemsize: i64, nbytes: i64, dtype: object, device: object) -> Tensor:
    """A fresh tensor, with room for one element more than it has."""
    key = (shape, strides, dtype, device)
    meta = state.metas.get(key)
    if meta is None:
        meta = state.meta(key)
    storage = allocate(nbytes + itemsize)
    storage.nbytes = nbytes
    if mine.inference != 0:
        storage.version = UNCOUNTED
    return wrap(storage, 0, meta, itemsize)


@native
def places(mask: Tensor, apart: i64, dtype: object) -> object:
    """The indices at which a dense mask holds, in order, as integers of 8 bytes: [n, dims], or where ``apart`` is set a
    vector for each dimension."""
    sizes = cast(tuple, mask._rush_meta.shape)
    device = mask._rush_meta.device
    rank = len(sizes)
    numel: i64 = mask._rush_meta.numel
    start = mask._rush_storage.address + mask._rush_offset
    found = count_true(start, numel)
    vectors = new_tuple(rank if apart != 0 else 1)
    out = stack(rank + 1)
    for d in range(len(vectors)):
        if apart != 0:
            tensor = made((found,), (1,), 8, found * 8, dtype, device)
            store_i64(out, d, tensor._rush_storage.address)
        else:
            tensor = made((found, rank), (rank, 1), 8, found * rank * 8, dtype, device)
            for k in range(rank):
                store_i64(out, k, tensor._rush_storage.address + 8 * k)
        tuple_set(vectors, d, tensor)
    if found != 0 and rank == 1:
        vector_places(start, numel, load_i64(out, 0))
    elif found != 0 and rank > 1:
        table_places(start, sizes, numel, out, 1 if apart != 0 else rank)
    results = filled(vectors)
    return results if apart != 0 else results[0]


@native
def vector_places(mask: i64, count: i64, out: i64) -> None:
    """Writes where bytes are not 0; each is written and kept only if it counts, as branches would be guessed wrong."""
    for k in range(count):
        store_i64(out, 0, k)
        out += 8 if load_u8(mask, k) != 0 else 0


@native
def table_places(mask: i64, sizes: tuple, numel: i64, out: i64, step: i64) -> None:
    """Write the indices of the nonzero bytes: those of dimension d at the d-th address of ``out``, with stride
    ``step``."""
    last = len(sizes) - 1
    width: i64 = sizes[last]
    index = stack(last + 1)
    written = 0
    row = 0
    while row < numel:
        for k in range(width):
            if load_u8(mask, row + k) != 0:
                for d in range(last):
                    store_i64(load_i64(out, d), written, load_i64(index, d))
                store_i64(load_i64(out, last), written, k)
                written += step
        row += width
        d = last - 1
        while d >= 0:
            size: i64 = sizes[d]
            at = load_i64(index, d) + 1
            store_i64(index, d, at if at < size else 0)
            if at < size:
                break
            d -= 1


@native
def chosen(values: Tensor, mask: Tensor) -> object:
    """The rows of a dense tensor at which a dense mask of its first dimensions holds: [n, *rest]."""
    masked = len(cast(tuple, mask._rush_meta.shape))
    sizes = cast(tuple, values._rush_meta.shape)
    count: i64 = mask._rush_meta.numel
    start = mask._rush_storage.address + mask._rush_offset
    found = count_true(start, count)
    shape = new_tuple(len(sizes) - masked + 1)
    strides = new_tuple(len(sizes) - masked + 1)
    step = 1
    d = len(sizes)
    while d > masked:
        d -= 1
        size: i64 = sizes[d]
        tuple_set(shape, d - masked + 1, size)
        tuple_set(strides, d - masked + 1, step)
        step *= size if size != 0 else 1
    tuple_set(shape, 0, found)
    tuple_set(strides, 0, step)
    width = 0 if values._rush_meta.numel == 0 else step * values.itemsize
    result = made(filled(shape), filled(strides), values.itemsize, found * width, values._rush_meta.dtype,
                  values._rush_meta.device)
    if found * width != 0:
        gather_rows(start, count, values._rush_storage.address + values._rush_offset * values.itemsize, width,
                    result._rush_storage.address)
    return result


@native
def gather_rows(mask: i64, count: i64, source: i64, width: i64, out: i64) -> None:
    """Copies those rows of ``width`` bytes whose mask is not 0; narrow ones are all written, and kept if they count."""
    if width == 4:
        for k in range(count):
            store_i32(out, 0, load_i32(source, k))
            out += 4 if load_u8(mask, k) != 0 else 0
    elif width == 8:
        for k in range(count):
            store_i64(out, 0, load_i64(source, k))
            out += 8 if load_u8(mask, k) != 0 else 0
    elif width == 2:
        for k in range(count):
            store_i16(out, 0, load_i16(source, k))
            out += 2 if load_u8(mask, k) != 0 else 0
    elif width == 1:
        for k in range(count):
            store_u8(out, 0, load_u8(source, k))
            out += 1 if load_u8(mask, k) != 0 else 0
    else:
        for k in range(count):
            if load_u8(mask, k) != 0:
                copy_bytes(out, source + k * width, width)
                out += width
