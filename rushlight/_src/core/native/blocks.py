"""Memory for large blocks: segments of the system's memory, divided on request; adjacent free blocks are merged.

Blocks come in whole pages. A cache line before each stores its size, whether it is free, and its neighbors; free ones
are chained by size. A request takes the smallest block among the first that fit, from its low end, so that untouched
pages stay untouched. Free memory that was touched counts as cached. It is returned to the system when a request finds
no memory although much is cached: because the memory is fragmented, or because the program needs less than before.
"""
from __future__ import annotations

from .language import exclusive, i64, native
from .memory import allocate_pages, discard_pages, fill_bytes, free_pages, load_i64, store_i64

HEADER = 64  # bytes before a block
PAGE = 4096
# words of a header; BEFORE: the size of the block that ends here; END: of the segment
SIZE, USED, BEFORE, END, NEXT, PREVIOUS, CACHED = 0, 1, 2, 3, 4, 5, 6
BINS = 512  # lists of free blocks, eight for each doubling of their size
TRIED = 8  # blocks looked at in the first list that may have one
SEGMENT = 67108864  # the first segment; later ones double
LARGEST = 1073741824  # but none grows beyond this on its own
SLACK = 33554432  # bytes that may always stay cached


@native
class Heap:
    """The lists of free blocks and their statistics."""

    heads: i64  # address of BINS list heads
    live: i64  # bytes of blocks in use
    cached: i64  # bytes of free blocks that were touched
    peak: i64  # the most bytes in use since memory last went back
    reserved: i64  # bytes of all segments
    spare: object  # (): frees memory that can be recreated; called before an allocation fails
    refuse: object  # (nbytes): raises the error for an allocation that the system cannot serve


heap = Heap()
heap.heads = allocate_pages(BINS * 8)
fill_bytes(heap.heads, 0, BINS * 8)


@native
def block_bytes(nbytes: i64) -> i64:
    """The size of a block with room for this many bytes."""
    return (nbytes + HEADER + PAGE - 1) // PAGE * PAGE


@native
def bin_of(size: i64) -> i64:
    """The list for free blocks of this size: all blocks on later lists are larger."""
    scaled = (size - 1) >> 8  # 8 .. 15 once shifted down to its four leading bits
    doublings = 0
    while scaled >= 16:
        scaled = scaled >> 1
        doublings += 1
    return doublings * 8 + scaled - 8


@native
def link(block: i64) -> None:
    """Enters a free block into the list for its size."""
    index = bin_of(load_i64(block, SIZE))
    following = load_i64(heap.heads, index)
    store_i64(block, USED, 0)
    store_i64(block, NEXT, following)
    store_i64(block, PREVIOUS, 0)
    if following != 0:
        store_i64(following, PREVIOUS, block)
    store_i64(heap.heads, index, block)


@native
def unlink(block: i64) -> None:
    """Takes a free block out of its list."""
    before = load_i64(block, PREVIOUS)
    following = load_i64(block, NEXT)
    if before != 0:
        store_i64(before, NEXT, following)
    else:
        store_i64(heap.heads, bin_of(load_i64(block, SIZE)), following)
    if following != 0:
        store_i64(following, PREVIOUS, before)


@native
def find(size: i64) -> i64:
    """A free block of at least this size; 0 if there is none."""
    index = bin_of(size)
    found = 0
    block = load_i64(heap.heads, index)
    tried = 0
    while block != 0 and tried < TRIED:
        own = load_i64(block, SIZE)
        if own >= size:
            if found == 0 or own < load_i64(found, SIZE):
                found = block
        block = load_i64(block, NEXT)
        tried += 1
    while found == 0 and index + 1 < BINS:
        index += 1
        found = load_i64(heap.heads, index)
    return found


@native
def begin(block: i64, size: i64, before: i64, end: i64) -> None:
    """Writes the header of a block in use."""
    store_i64(block, SIZE, size)
    store_i64(block, USED, 1)
    store_i64(block, BEFORE, before)
    store_i64(block, END, end)
    store_i64(block, CACHED, 0)


@native
def split(block: i64, size: i64) -> i64:
    """Cuts a block that is on no list after ``size`` bytes; the address of the rest, which is in use."""
    rest = block + size
    length = load_i64(block, SIZE) - size
    end = load_i64(block, END)
    begin(rest, length, size, end)
    store_i64(block, SIZE, size)
    if rest + length < end:
        store_i64(rest + length, BEFORE, length)
    return rest


@native
def extend(size: i64) -> i64:
    """A block that is a new segment.  Raises as ``heap.refuse`` if the system has no more memory."""
    length = max(heap.reserved, SEGMENT)
    length = min(length, LARGEST)
    length = max(length, size)
    block = 0
    try:
        block = allocate_pages(length)
    except MemoryError:
        length = size
    if block == 0:
        try:
            block = allocate_pages(length)
        except MemoryError:
            if heap.spare is not None:
                heap.spare()
            trim()
    if block == 0:
        try:
            block = allocate_pages(length)
        except MemoryError:
            heap.refuse(size)
    heap.reserved += length
    begin(block, length, 0, block + length)
    return block


@native
@exclusive
def take(nbytes: i64) -> i64:
    """The address of ``nbytes`` bytes, contents undefined.  Raises as ``heap.refuse`` if the system has no more."""
    size = block_bytes(nbytes)
    block = find(size)
    fresh = size
    if block != 0:
        cached = load_i64(block, CACHED)
        fresh = size - min(size, cached)
    if fresh > 0 and heap.cached + heap.live + fresh > SLACK + heap.peak + heap.peak // 8:
        trim()
        heap.peak = heap.live
        block = find(size)
    if block == 0:
        block = extend(size)
    else:
        unlink(block)
    cached = load_i64(block, CACHED)
    store_i64(block, CACHED, 0)
    heap.cached -= min(size, cached)
    if load_i64(block, SIZE) > size:
        rest = split(block, size)
        left = cached - size
        store_i64(rest, CACHED, max(left, 0))
        link(rest)
    store_i64(block, USED, 1)
    heap.live += size
    heap.peak = max(heap.peak, heap.live)
    return block + HEADER


@native
def free_block(block: i64) -> None:
    """Takes a block in use back, and joins it with free neighbours."""
    size = load_i64(block, SIZE)
    heap.live -= size
    heap.cached += size
    cached = size
    end = load_i64(block, END)
    following = block + size
    if following < end:
        if load_i64(following, USED) == 0:
            unlink(following)
            cached += load_i64(following, CACHED)
            size += load_i64(following, SIZE)
    before = load_i64(block, BEFORE)
    if before != 0:
        if load_i64(block - before, USED) == 0:
            block -= before
            unlink(block)
            cached += load_i64(block, CACHED)
            size += load_i64(block, SIZE)
    store_i64(block, SIZE, size)
    store_i64(block, CACHED, cached)
    if block + size < end:
        store_i64(block + size, BEFORE, size)
    link(block)


@native
@exclusive
def give(address: i64) -> None:
    """Release a block that ``take`` returned."""
    free_block(address - HEADER)


@native
@exclusive
def cut(address: i64, at: i64, nbytes: i64) -> i64:
    """Cut ``nbytes`` bytes at the address ``at`` out of the block at ``address``: frees the memory before it and
    returns the address of the memory after it, 0 if there is none. ``at`` is a multiple of a page after ``address``."""
    block = address - HEADER
    start = at - HEADER
    if start > block:
        rest = split(block, start - block)
        free_block(block)
        block = rest
    size = block_bytes(nbytes)
    if load_i64(block, SIZE) == size:
        return 0
    return split(block, size) + HEADER


@native
@exclusive
def trim() -> None:
    """Gives all memory that is free back to the system."""
    for index in range(BINS):
        block = load_i64(heap.heads, index)
        while block != 0:
            following = load_i64(block, NEXT)
            size = load_i64(block, SIZE)
            if load_i64(block, BEFORE) == 0 and block + size == load_i64(block, END):
                unlink(block)
                heap.reserved -= size
                free_pages(block, size)
            elif load_i64(block, CACHED) > 0 and size > PAGE:
                store_i64(block, CACHED, 0)
                discard_pages(block + PAGE, size - PAGE)
            block = following
    heap.cached = 0
