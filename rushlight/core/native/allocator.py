"""Memory for storages: free lists by size class, recycled so that pages stay warm.

Blocks up to 64 KB come in multiples of 64 bytes and are cut from slabs.  Larger ones come in eight sizes per doubling, each
block mapped on its own, and go back to the system when much more is held than was ever in use at once since then.  Free blocks are
chained through their first eight bytes.
"""
from __future__ import annotations

from .language import exclusive, i64, native
from .memory import allocate_pages, fill_bytes, free_pages, load_i64, store_i64

GRAIN = 64
SMALL = 65536
SLAB = 1048576
CLASSES = 2048
SLACK = 67108864  # bytes of large blocks that may always lie cached


@native
class Pool:
    """The free lists and what is in them."""

    heads: i64  # address of CLASSES list heads
    live: i64  # bytes of large blocks in use
    cached: i64  # bytes of large blocks on free lists
    peak: i64  # the most bytes of large blocks in use since blocks last went back
    small: i64  # bytes of small blocks in use
    refuse: object  # (nbytes): raises what callers get where the system has no more memory


pool = Pool()
pool.heads = allocate_pages(CLASSES * 8)
fill_bytes(pool.heads, 0, CLASSES * 8)


@native
def size_class(nbytes: i64) -> i64:
    """The free list that serves this size."""
    if nbytes <= SMALL:
        if nbytes <= 0:
            return 1
        return (nbytes + GRAIN - 1) // GRAIN
    scaled = (nbytes - 1) >> 13  # 8 .. 15 once shifted down to its four leading bits
    doublings = 0
    while scaled >= 16:
        scaled = scaled >> 1
        doublings += 1
    return 1024 + doublings * 8 + (scaled - 7)


@native
def class_bytes(index: i64) -> i64:
    """The bytes of each block on this free list."""
    if index <= 1024:
        return index * GRAIN
    step = index - 1025
    return (8 + step % 8 + 1) << (13 + step // 8)


@native
def carve(index: i64) -> i64:
    """Cuts a fresh slab into blocks of this class; returns one and lists the others."""
    size = class_bytes(index)
    total = SLAB
    if size * 16 < SLAB:
        total = SMALL * 2
    first = pages(total)
    at = first + size
    while at + size <= first + total:
        store_i64(at, 0, load_i64(pool.heads, index))
        store_i64(pool.heads, index, at)
        at += size
    return first


@native
def trim() -> None:
    """Gives every cached large block back to the system."""
    index = 1025
    while index < CLASSES:
        block = load_i64(pool.heads, index)
        while block != 0:
            following = load_i64(block, 0)
            free_pages(block, class_bytes(index))
            block = following
        store_i64(pool.heads, index, 0)
        index += 1
    pool.cached = 0


@native
def pages(nbytes: i64) -> i64:
    """Fresh memory from the system; where it has no more, what is cached goes back first."""
    try:
        return allocate_pages(nbytes)
    except MemoryError:
        trim()
    try:
        return allocate_pages(nbytes)
    except MemoryError:
        pool.refuse(nbytes)
    return 0


@native
@exclusive
def acquire(index: i64) -> i64:
    """The address of a block of this class, contents undefined.  Raises as ``pool.refuse`` if the system has no more."""
    block = load_i64(pool.heads, index)
    if block != 0:
        store_i64(pool.heads, index, load_i64(block, 0))
    elif index <= 1024:
        return carve(index)
    if index > 1024:
        size = class_bytes(index)
        if block != 0:
            pool.cached -= size
        else:
            if pool.cached + pool.live + size > SLACK + pool.peak + pool.peak // 8:
                trim()
                pool.peak = pool.live
            block = pages(size)
        pool.live += size
        if pool.live > pool.peak:
            pool.peak = pool.live
    return block


@native
@exclusive
def release(block: i64, index: i64) -> None:
    """Takes a block of this class back."""
    store_i64(block, 0, load_i64(pool.heads, index))
    store_i64(pool.heads, index, block)
    if index > 1024:
        size = class_bytes(index)
        pool.live -= size
        pool.cached += size


@native(freelist=1024, acyclic=True)
class Storage:
    """Bytes with a version counter.  ``owner`` keeps foreign memory alive; without one the allocator takes the bytes back."""

    address: i64
    nbytes: i64
    kind: i64  # the size class of the block; 0 when the memory is the owner's
    version: i64
    mark: i64  # the last call that looked for this storage among its arguments
    owner: object

    def finalize(self):
        if self.kind != 0:
            release(self.address, self.kind)


@native
def allocate(nbytes: i64) -> Storage:
    """A fresh storage of ``nbytes`` bytes, contents undefined.  Raises as ``pool.refuse`` if the system has no more."""
    index = size_class(nbytes)
    storage = Storage()
    storage.address = acquire(index)
    storage.nbytes = nbytes
    storage.kind = index
    return storage
