"""Caching allocator of a device: blocks by size, with small ones cut from slabs."""

from __future__ import annotations

import threading

from ...core.forking import guarded

GRAIN = 256  # bytes of memory are given in steps of these
SLAB = 1 << 20  # bytes of a block that holds small ones
SMALL = 1 << 15  # bytes of the largest of these


class Blocks:
    """A device's memory.  A subclass has ``enter(size)``, which allocates, ``leave(address)``, which frees, and
    ``order``, the queue that works on memory taken now: a block is reused by work of the same queue, which comes after
    all that used it before."""

    def __init__(self):
        self.lock, self.free, self.slabs = guarded("devices", threading.RLock()), {}, {}
        self.orders = {}  # by the address of a block that is taken, or kept: the queue it belongs to, but for the first
        self.allocated = self.most = self.reserved = self.most_reserved = 0

    def order(self) -> int:
        return 0

    def rounded(self, nbytes: int) -> int:
        """Return the bytes of the block for a request of ``nbytes``."""
        return max(nbytes + GRAIN - 1 & -GRAIN, GRAIN)

    def take(self, nbytes: int) -> int:
        """The address of a block."""
        size = self.rounded(nbytes)
        with self.lock:
            order = self.order()
            kept = self.free.get((order, size))
            address = kept.pop() if kept else self.fresh(order, size)
            self.allocated += size
            self.most = max(self.most, self.allocated)
            return address

    def fresh(self, order: int, size: int) -> int:
        """Return the address of a new block; small ones share a slab."""
        if size > SMALL:
            address = self.own(size)
        else:
            at, end = self.slabs.get(order, (0, 0))
            if end - at < size:
                at = self.own(SLAB)
                end = at + SLAB
            self.slabs[order], address = (at + size, end), at
        if order:
            self.orders[address] = order
        return address

    def own(self, size: int) -> int:
        """Memory of its own."""
        address = self.enter(size)
        self.reserved += size
        self.most_reserved = max(self.most_reserved, self.reserved)
        return address

    def give(self, address: int, nbytes: int):
        """Takes a block back; its queue keeps work in order, so that it may be taken again at once."""
        size = self.rounded(nbytes)
        with self.lock:
            self.allocated -= size
            self.free.setdefault((self.orders.get(address, 0), size), []).append(address)

    def trim(self):
        """Free unused large blocks; small ones stay."""
        with self.lock:
            for order, size in [key for key in self.free if key[1] > SMALL]:
                for address in self.free.pop((order, size)):
                    self.orders.pop(address, None)
                    self.leave(address)
                    self.reserved -= size

    def statistics(self) -> dict:
        """Bytes by name."""
        return {
            "allocated": self.allocated,
            "most_allocated": self.most,
            "reserved": self.reserved,
            "most_reserved": self.most_reserved,
        }

    def reset_statistics(self):
        self.most, self.most_reserved = self.allocated, self.reserved
