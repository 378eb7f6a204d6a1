"""Pinned host memory: cached, since pinning is slow, and reused once all copies that may still read or write it are
done."""

from __future__ import annotations

import collections
import contextlib
import os
import threading
import time

from ...core.forking import guarded
from .events import Mark

LEAST = 4096  # bytes of a block; larger ones have twice as many each


class Level:
    """How much there is of something, the most there was, and how much came and went."""

    def __init__(self):
        self.current = self.peak = self.allocated = self.freed = 0

    def come(self, by: int):
        self.current += by
        self.allocated += by
        self.peak = max(self.peak, self.current)

    def go(self, by: int):
        self.current -= by
        self.freed += by


class Spent:
    """How long calls took, in microseconds."""

    def __init__(self):
        self.total = self.max = self.min = self.count = 0

    def add(self, seconds: float):
        taken = round(1e6 * seconds)
        self.min = min(self.min, taken) if self.count else taken
        self.total, self.max, self.count = self.total + taken, max(self.max, taken), self.count + 1

    @property
    def avg(self) -> float:
        return self.total / self.count if self.count else 0.0


class PinnedFigures:
    """Counters of pinned memory: blocks of the driver, and blocks that are in use or still being copied."""

    def __init__(self):
        self.blocks, self.nbytes, self.active, self.active_bytes = (Level() for _ in range(4))
        self.pinning, self.unpinning = Spent(), Spent()

    def levels(self) -> dict:
        return {"allocations": self.blocks, "allocated_bytes": self.nbytes, "active_requests": self.active,
                "active_bytes": self.active_bytes}

    def table(self) -> dict:
        """By PyTorch's names."""
        found = {f"{name}.{kind}": getattr(level, kind) for name, level in self.levels().items()
                 for kind in ("current", "peak", "allocated", "freed")}
        times = {"host_alloc_time": self.pinning, "host_free_time": self.unpinning}
        found |= {f"{name}.{kind}": getattr(spent, kind) for name, spent in times.items()
                  for kind in ("total", "max", "min", "count", "avg")}
        return found | {"num_host_alloc": self.blocks.allocated, "num_host_free": self.blocks.freed}


class PinnedMemory:
    """A pinned block, returned to the cache with its last reference."""

    def __init__(self, blocks: "PinnedBlocks", address: int, size: int):
        self.blocks, self.address, self.size, self.process = blocks, address, size, os.getpid()

    def __del__(self):
        if self.process == os.getpid():
            self.blocks.give(self.address, self.size)


class PinnedBlocks:
    """The pinned memory of a driver's process."""

    def __init__(self, driver):
        self.driver, self.free, self.waiting, self.used = driver, {}, [], {}
        self.fallen = collections.deque()  # (address, bytes) of released blocks that are not processed yet
        self.lock, self.counted = guarded("devices", threading.RLock()), PinnedFigures()
        self.changing = 0  # blocks of ``changes`` that are under way

    def take(self, nbytes: int) -> PinnedMemory:
        """Return a block of at least ``nbytes`` bytes."""
        size = LEAST << max(0, (nbytes - 1).bit_length() - LEAST.bit_length() + 1)
        with self.changes():
            self.returned()
            kept = self.free.get(size)
            address = kept.pop() if kept else self.pinned(size)
            self.counted.active.come(1)
            self.counted.active_bytes.come(size)
            return PinnedMemory(self, address, size)

    def pinned(self, size: int) -> int:
        """The address of a block that the driver pins."""
        start = time.perf_counter()
        with self.driver.relaxed():
            address = self.driver.made("pin", size, 0)
        self.counted.pinning.add(time.perf_counter() - start)
        self.counted.blocks.come(1)
        self.counted.nbytes.come(size)
        return address

    def copied(self, board):
        """Note a non-blocking copy: blocks released later must wait for it."""
        with self.lock:
            self.used[board.index, board.stream] = board

    def give(self, address: int, size: int):
        """Take a block back.  A release may interrupt any code, also of this class: if the lock is held, it is only
        noted."""
        self.fallen.append((address, size))
        if self.lock.acquire(blocking=False):
            try:
                if not self.changing:
                    self.returned()
            finally:
                self.lock.release()

    @contextlib.contextmanager
    def changes(self):
        """Context manager in which neither other threads nor concurrent releases change the lists."""
        with self.lock:
            self.changing += 1
            try:
                yield
            finally:
                self.changing -= 1

    def keep(self, address: int, size: int):
        """A block that nothing uses any more."""
        self.free.setdefault(size, []).append(address)
        self.counted.active.go(1)
        self.counted.active_bytes.go(size)

    def returned(self):
        """Takes back blocks whose copies are done."""
        with self.changes():
            while self.fallen:
                address, size = self.fallen.popleft()
                if self.used:
                    self.waiting.append(([], tuple(self.used.items()), address, size))
                else:
                    self.keep(address, size)
            self.looked_at()

    def looked_at(self):
        if any(board.recordings for board in self.used.values()):  # events must not be queried during capture
            return
        rest = []
        for marks, used, address, size in self.waiting:
            if not marks:
                marks.extend(Mark(board, stream) for (_, stream), board in used)
            if all(mark.passed() for mark in marks):
                self.keep(address, size)
            else:
                rest.append((marks, used, address, size))
        self.waiting = rest
        if not rest and all(self.idle(board, stream) for (_, stream), board in self.used.items()):
            self.used.clear()  # nothing is on its way

    def idle(self, board, stream: int) -> bool:
        """Whether a stream has done what it was given."""
        with self.driver.at(board.index):
            return self.driver.done("stream_done", stream)

    def trim(self):
        """Unpin the blocks that are not in use."""
        with self.changes(), self.driver.relaxed():
            self.returned()
            for size, addresses in self.free.items():
                while addresses:
                    self.unpin(addresses.pop(), size)

    def unpin(self, address: int, size: int):
        """Gives a block back to the driver."""
        start = time.perf_counter()
        self.driver.call("unpin", address)
        self.counted.unpinning.add(time.perf_counter() - start)
        self.counted.blocks.go(1)
        self.counted.nbytes.go(size)

    # --- statistics -----------------------------------------------------------------------------------------
    def figures(self) -> dict:
        """``torch.cuda.host_memory_stats``."""
        with self.lock:
            return self.counted.table()

    def reset_peaks(self):
        with self.lock:
            for level in self.counted.levels().values():
                level.peak = level.current

    def reset_sums(self):
        """Reset the counters of allocations and frees, and the times."""
        with self.lock:
            for level in self.counted.levels().values():
                level.allocated = level.freed = 0
            self.counted.pinning, self.counted.unpinning = Spent(), Spent()
