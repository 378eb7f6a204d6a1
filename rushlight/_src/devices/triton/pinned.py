"""Memory of the host that a driver has pinned: kept for later, since pinning takes long, and given again once all
copies that may still read or write it are done."""

from __future__ import annotations

import os
import threading

from ...core.forking import guarded
from .events import Mark

LEAST = 4096  # bytes of a block; larger ones have twice as many each


class PinnedMemory:
    """A block, which goes back with the last who knows it."""

    def __init__(self, blocks: "PinnedBlocks", address: int, size: int):
        self.blocks, self.address, self.size, self.process = blocks, address, size, os.getpid()

    def __del__(self):
        if self.process == os.getpid():
            self.blocks.give(self.address, self.size)


class PinnedBlocks:
    """The pinned memory of a driver's process."""

    def __init__(self, driver):
        self.driver, self.free, self.waiting, self.used = driver, {}, [], {}
        self.lock = guarded("devices", threading.RLock())

    def take(self, nbytes: int) -> PinnedMemory:
        """A block with room for so many bytes."""
        size = LEAST << max(0, (nbytes - 1).bit_length() - LEAST.bit_length() + 1)
        with self.lock:
            self.returned()
            kept = self.free.get(size)
            if kept:
                return PinnedMemory(self, kept.pop(), size)
            with self.driver.relaxed():
                return PinnedMemory(self, self.driver.made("pin", size, 0), size)

    def copied(self, board):
        """A copy was begun that the host does not wait for: a block that is let go of must wait for it."""
        self.used[board.index, board.stream] = board

    def give(self, address: int, size: int):
        with self.lock:
            if self.used:
                self.waiting.append(([], tuple(self.used.items()), address, size))
                self.returned()
            else:
                self.free.setdefault(size, []).append(address)

    def returned(self):
        """Takes back blocks whose copies are done."""
        if any(board.recordings for board in self.used.values()):  # nothing may be asked while a stream is recorded
            return
        rest = []
        for marks, used, address, size in self.waiting:
            if not marks:
                marks.extend(Mark(board, stream) for (_, stream), board in used)
            if all(mark.passed() for mark in marks):
                self.free.setdefault(size, []).append(address)
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
        """Unpins what nobody has."""
        with self.lock, self.driver.relaxed():
            self.returned()
            for addresses in self.free.values():
                while addresses:
                    self.driver.call("unpin", addresses.pop())
