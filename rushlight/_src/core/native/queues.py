"""Queues of a device's work, with the memory that they reuse.

A block belongs to the queue that allocated it: work queued later runs after all previous users of the block. Blocks
come in size classes as on the host (``allocator.py``), in grains of 256 bytes. The device's memory cannot be written
from the host, so the lists of free blocks are in host memory.
"""
from __future__ import annotations

from .language import exclusive, i64, native
from .memory import allocate_pages, copy_bytes, fill_bytes, free_pages, load_i64, store_i64

GRAIN = 256
FINE = 16  # grains up to which each number of them is a class; above eight sizes for each doubling
CLASSES = 192
MOST = 67108864  # bytes of the largest block that has a class; the host looks for larger ones
KIND = 2048  # the kinds of storages whose owner is the queue of their block: from here on by class
BIN = 5  # words of a class: where free blocks are listed, how many there are and may be, the bytes of each, and the
# class that is taken instead
# words of a device's counters
(FAR, ALLOCATED, MOST_ALLOCATED, TAKEN, GIVEN, BYTES_TAKEN, BYTES_GIVEN, RESERVED, MOST_RESERVED, MOST_BLOCKS, SEGMENTS,
 SEGMENTS_MADE, BYTES_RESERVED, COUNTERS) = range(14)


@native
class Queue:
    """A stream of a device with its free blocks."""

    place: object  # the device
    board: object  # the device that allocates its memory
    stream: i64  # the driver's handle
    words: i64  # inputs of ``runner``: the stream, the driver's launch, the device's counters
    runner: i64  # void (values, program, words, 0): gives the stream a program's launches
    bins: i64  # BIN words for each class
    counts: i64  # the device's counters
    random: i64  # seed and position of the device's random stream
    noted: i64  # 1 if all memory is requested from the device, and returned blocks are also listed as of class 0


@native
def class_of(nbytes: i64) -> i64:
    """The class of the smallest blocks that hold ``nbytes`` bytes."""
    grains = (nbytes + GRAIN - 1) // GRAIN
    if grains <= FINE:
        return 1 if grains < 1 else grains
    step = 2
    index = FINE
    while grains > FINE * step:
        step = step << 1
        index += 8
    return index + (grains + step - 1) // step - 8


@native
def size_of(index: i64) -> i64:
    """The bytes of a block of a class."""
    if index <= FINE:
        return index * GRAIN
    return ((index - FINE - 1) % 8 + 9) * (GRAIN * 2 << (index - FINE - 1) // 8)


@native
def empty_bins() -> i64:
    """The address of bins without blocks."""
    bins = allocate_pages(CLASSES * BIN * 8)
    fill_bytes(bins, 0, CLASSES * BIN * 8)
    for index in range(1, CLASSES):
        store_i64(bins, index * BIN + 3, size_of(index))
        store_i64(bins, index * BIN + 4, index)
    return bins


@native
def class_on(queue: Queue, nbytes: i64) -> i64:
    """The class of the blocks that a queue takes for ``nbytes`` bytes."""
    return load_i64(queue.bins, class_of(nbytes) * BIN + 4)


@native
def count_in(counts: i64, size: i64) -> None:
    """Counts a block that was taken."""
    allocated = load_i64(counts, ALLOCATED) + size
    store_i64(counts, ALLOCATED, allocated)
    if allocated > load_i64(counts, MOST_ALLOCATED):
        store_i64(counts, MOST_ALLOCATED, allocated)
    taken = load_i64(counts, TAKEN) + 1
    store_i64(counts, TAKEN, taken)
    if taken - load_i64(counts, GIVEN) > load_i64(counts, MOST_BLOCKS):
        store_i64(counts, MOST_BLOCKS, taken - load_i64(counts, GIVEN))
    store_i64(counts, BYTES_TAKEN, load_i64(counts, BYTES_TAKEN) + size)


@native
def count_out(counts: i64, size: i64) -> None:
    """Count a block that was released."""
    store_i64(counts, ALLOCATED, load_i64(counts, ALLOCATED) - size)
    store_i64(counts, GIVEN, load_i64(counts, GIVEN) + 1)
    store_i64(counts, BYTES_GIVEN, load_i64(counts, BYTES_GIVEN) + size)


@native
@exclusive
def take_block(queue: Queue, index: i64) -> i64:
    """The address of a free block of a class; 0 where there is none."""
    place = queue.bins + index * BIN * 8
    left = load_i64(place, 1) - 1
    if left < 0:
        return 0
    store_i64(place, 1, left)
    count_in(queue.counts, load_i64(place, 3))
    return load_i64(load_i64(place, 0), left)


@native
@exclusive
def unlist_block(queue: Queue, index: i64, address: i64) -> bool:
    """Takes a block, which stays free, off the list of its class; False where it is not there any more."""
    place = queue.bins + index * BIN * 8
    listed = load_i64(place, 0)
    count = load_i64(place, 1)
    for k in range(count):
        if load_i64(listed, k) == address:
            store_i64(listed, k, load_i64(listed, count - 1))
            store_i64(place, 1, count - 1)
            return True
    return False


@native
@exclusive
def list_block(queue: Queue, index: i64, address: i64) -> None:
    """Lists a block as free."""
    place = queue.bins + index * BIN * 8
    count = load_i64(place, 1)
    room = load_i64(place, 2)
    if count == room:
        more = room * 2
        if more == 0:
            more = 64
        held = allocate_pages(more * 8)
        if room != 0:
            copy_bytes(held, load_i64(place, 0), room * 8)
            free_pages(load_i64(place, 0), room * 8)
        store_i64(place, 0, held)
        store_i64(place, 2, more)
    store_i64(load_i64(place, 0), count, address)
    store_i64(place, 1, count + 1)


@native
def give_block(queue: Queue, index: i64, address: i64) -> None:
    """Takes a block back from its storage."""
    count_out(queue.counts, load_i64(queue.bins, index * BIN + 3))
    list_block(queue, index, address)
    if queue.noted != 0:
        list_block(queue, 0, address)
