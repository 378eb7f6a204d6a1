"""Memory for storages: free lists by size for small blocks, the heap for large ones.

Blocks up to 64 KB come in 64 size classes, are cut from slabs and recycled so that they stay in cache: multiples of 64
bytes up to 1 KB, above that eight sizes for each doubling, so that programs with ever new tensor sizes share free
blocks. Free blocks are chained through their first eight bytes.
"""
from __future__ import annotations

from .blocks import cut, give, heap, take, trim
from .language import cast, exclusive, i64, native
from .memory import allocate_pages, fill_bytes, load_i64, store_i64
from .queues import KIND, Queue, give_block

GRAIN = 64
FINE = 16  # grains up to which each number of them is a size
SMALL = 65536
SLAB = 1048576
CLASSES = 1025
LARGE = 1025  # the kind of a storage in the heap
UNCOUNTED = -(1 << 62)  # the version at which storages of inference tensors begin: below 0 ever after


@native
class Slabs:
    """The free lists of small blocks."""

    heads: i64  # address of CLASSES list heads


slabs = Slabs()
slabs.heads = allocate_pages(CLASSES * 8)
fill_bytes(slabs.heads, 0, CLASSES * 8)


@native
def carve(index: i64) -> i64:
    """Cuts a fresh slab into blocks of this class; returns one and lists the others."""
    size = index * GRAIN
    total = SLAB
    if size * 16 < SLAB:
        total = SMALL * 2
    first = 0
    try:
        first = allocate_pages(total)
    except MemoryError:
        if heap.spare is not None:
            heap.spare()
        trim()
    if first == 0:
        try:
            first = allocate_pages(total)
        except MemoryError:
            heap.refuse(total)
    at = first + size
    while at + size <= first + total:
        store_i64(at, 0, load_i64(slabs.heads, index))
        store_i64(slabs.heads, index, at)
        at += size
    return first


@native
@exclusive
def acquire(index: i64) -> i64:
    """The address of a small block of this class, contents undefined.  Raises as ``heap.refuse`` if the system has no
    more."""
    block = load_i64(slabs.heads, index)
    if block == 0:
        return carve(index)
    store_i64(slabs.heads, index, load_i64(block, 0))
    return block


@native
@exclusive
def release(block: i64, index: i64) -> None:
    """Takes a small block of this class back."""
    store_i64(block, 0, load_i64(slabs.heads, index))
    store_i64(slabs.heads, index, block)


@native(freelist=1024, acyclic=True, weakref=True)
class Storage:
    """Bytes with a version counter.  ``owner`` keeps foreign memory alive; without one the allocator takes the bytes
    back."""

    address: i64
    nbytes: i64
    # the class of a small block, or LARGE; from KIND on that of a block of the owner, a Queue; 0 when the memory is the
    # owner's
    kind: i64
    version: i64  # counts the writes; below 0 for inference tensors
    counted: object  # the storage whose version counts them instead, once one of its tensors was given other memory
    mark: i64  # the last call that looked for this storage among its arguments
    writes: i64  # counts all writes to the memory, before and after each, whatever tensors they go through
    shown: i64  # 1 if its address was exposed, so that the memory may be written without being counted
    is_fixed: i64  # 1 if it keeps its size, because others alias the memory
    packs: object  # state of packed copies of its contents (``weights.Packed``)
    lent: list  # weak references to nodes that get copies of their saved values in it before it is written, or None
    owner: object

    def finalize(self):
        if self.kind == LARGE:
            give(self.address)
        elif self.kind >= KIND:
            give_block(cast(Queue, self.owner), self.kind - KIND, self.address)
        elif self.kind != 0:
            release(self.address, self.kind)


@native
def coarse(index: i64) -> i64:
    """The smallest size class, in grains, that holds ``index`` grains; there are eight classes per doubling."""
    step = 2
    while index > FINE * step:
        step = step << 1
    return (index + step - 1) // step * step


@native
def provide(storage: Storage) -> None:
    """Gives a storage memory for its bytes, contents undefined.  Raises as ``heap.refuse`` if the system has no
    more."""
    nbytes = storage.nbytes
    if nbytes > SMALL:
        storage.address = take(nbytes)
        storage.kind = LARGE
    else:
        index = 1
        if nbytes > 0:
            index = (nbytes + GRAIN - 1) // GRAIN
            if index > FINE:
                index = coarse(index)
        storage.address = acquire(index)
        storage.kind = index


@native
def allocate(nbytes: i64) -> Storage:
    """A fresh storage of ``nbytes`` bytes, contents undefined.  Raises as ``heap.refuse`` if the system has no more."""
    storage = Storage()
    storage.nbytes = nbytes
    provide(storage)
    return storage


@native
def divide(whole: Storage, piece: Storage, rest: i64) -> i64:
    """Transfer the memory of ``piece`` to it and free the memory before it. ``rest``: the address from which on
    ``whole`` is not divided yet; returns the next such address."""
    whole.kind = 0
    piece.kind = LARGE
    return cut(rest, piece.address, piece.nbytes)
