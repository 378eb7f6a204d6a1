"""Segments of a GPU's memory and their sources: the driver, ranges of virtual addresses, functions of the program."""

from __future__ import annotations

import collections
import ctypes
import os

from ...core.advice import warn
from ...core.errors import OutOfMemoryError
from ...core.native import Queue
from ...core.native import queues as native
from ...core.native.memory import load_i64
from .expandable import Ranges
from .virtual import VirtualMemory


class Segment:
    """Memory with its blocks by address, all within the first ``used`` bytes.  ``source``: where it is from; ``idle``:
    how often it was found free when more memory was requested."""

    __slots__ = ("address", "size", "used", "blocks", "queue", "source", "idle")

    def __init__(self, address: int, size: int, queue: Queue, source):
        self.address, self.size, self.used, self.blocks, self.queue = address, size, 0, {}, queue
        self.source, self.idle = source, 0


def listed(queue: Queue, index: int) -> list:
    """The addresses of the free blocks of a class."""
    place = queue.bins + index * native.BIN * 8
    count = load_i64(place, 1)
    return list((ctypes.c_int64 * count).from_address(load_i64(place, 0))) if count else []


class Driven:
    """Segments that the driver gives one by one.  ``whole``: each block has one of its own."""

    def __init__(self, memory, whole=False):
        self.memory, self.whole = memory, whole

    def divides(self, size: int) -> bool:
        """True if segments of ``size`` bytes hold several blocks."""
        return not self.whole

    def enter(self, queue, size: int) -> int:
        """The address of a new segment.  OutOfMemoryError where there is no more."""
        self.memory.allowed(size)
        address = self.given(queue, size)
        self.memory.entered("segment_alloc", address, size, queue, True)
        return address

    def given(self, queue, size: int) -> int:
        return self.memory.board.enter(size)

    def leave(self, segment: Segment):
        """Gives a segment back."""
        self.taken(segment.address, segment.size, segment.queue)
        self.memory.left("segment_free", segment.address, segment.size, segment.queue, True)

    def taken(self, address: int, size: int, queue):
        self.memory.board.leave(address)


class Functions:
    """Two functions of a library that give and take memory: ``void *(ssize_t size, int device, stream)`` and
    ``void (void *address, ssize_t size, int device, stream)``, as ``CUDAPluggableAllocator`` has them."""

    def __init__(self, give: int, take: int, library):
        self.library = library  # it stays loaded
        pointer, size, index = ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int
        self.give = ctypes.CFUNCTYPE(pointer, size, index, pointer)(give)
        self.take = ctypes.CFUNCTYPE(None, pointer, size, index, pointer)(take)

    def serves(self, board) -> bool:
        """Whether blocks come from it now."""
        return True

    def given(self, board, queue, size: int) -> int:
        """Return the address of ``size`` bytes.  OutOfMemoryError if the function returns none."""
        with board.driver.at(board.index):
            address = self.give(size, board.index, queue.stream)
        if not address:
            raise OutOfMemoryError(f"the program's own allocator gave no memory for {size} bytes", "",
                                   "see what its function does")
        return address

    def taken(self, board, queue, address: int, size: int):
        with board.driver.at(board.index):
            self.take(address, size, board.index, queue.stream)

    def block(self, memory, queue, nbytes: int) -> "OwnBlock":
        """Return a block that the function allocates: nothing is cached, and 0 bytes need no call."""
        address = self.given(memory.board, queue, nbytes) if nbytes else 0
        memory.taken(nbytes)
        memory.note("alloc", address, nbytes, queue, nbytes)
        return OwnBlock(self, memory, queue, address, nbytes)


class Uncached(Functions):
    """Allocate each block by the driver, and free it there once the device's work is done.  While a stream is captured,
    which forbids waiting, blocks come from segments."""

    def __init__(self):
        self.late = collections.deque()  # blocks that were released while a stream was captured

    def serves(self, board) -> bool:
        return not board.recordings

    def given(self, board, queue, size):
        return board.enter(max(size, 1))

    def taken(self, board, queue, address, size):
        self.late.append((board, address))
        if not board.recordings:
            self.settle()

    def settle(self):
        """Free released blocks, except those of a device with a stream under capture."""
        for _ in range(len(self.late)):
            try:
                board, address = self.late.popleft()
            except IndexError:  # another thread frees the rest
                return
            if board.recordings:
                self.late.append((board, address))
                continue
            board.finish()
            board.leave(address)


class OwnBlock:
    """The owner of a storage whose memory the program's own functions gave, and take back with it."""

    def __init__(self, functions: Functions, memory, queue, address: int, size: int):
        self.functions, self.memory, self.queue, self.address, self.size = functions, memory, queue, address, size
        self.process = os.getpid()

    def __del__(self):
        if self.process != os.getpid():  # what a forked process inherits is not its own
            return
        self.memory.note("free_requested", self.address, self.size, self.queue)
        self.memory.uncounted(self.size)
        if self.size:
            self.functions.taken(self.memory.board, self.queue, self.address, self.size)
        self.memory.note("free_completed", self.address, self.size, self.queue)


class Owned(Driven):
    """Segments of a pool that functions of the program's own give."""

    def __init__(self, memory, functions: Functions, whole: bool):
        super().__init__(memory, whole)
        self.functions = functions

    def given(self, queue, size):
        return self.functions.given(self.memory.board, queue, size)

    def taken(self, address, size, queue):
        self.functions.taken(self.memory.board, queue, address, size)


def expandable(memory):
    """Return the expandable segments of a Memory; None, with a warning, if the driver has no virtual memory."""
    try:
        return Ranges(memory, VirtualMemory(memory.board.driver, memory.board.index))
    except NotImplementedError as reason:
        warn(f"expandable_segments is not supported here: {reason}")
        return None
