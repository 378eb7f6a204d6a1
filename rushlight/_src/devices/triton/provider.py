"""GPUs of NVIDIA and AMD as the framework uses them, under PyTorch's name for both, "cuda"."""

from __future__ import annotations

import functools
import os
import threading

from ...core.forking import guarded
from ..base import Pinned, Properties, Streams
from ..shared.provider import BoardProvider
from . import driver as drivers
from .board import Board
from .target import Blocks


class Queue(Streams):
    """The streams of a board; a number is the driver's handle, 0 the first stream's."""

    def __init__(self, board: Board):
        self.board, self.driver = board, board.driver

    def new(self, priority):
        self.driver.use(self.board.index)
        return self.driver.made("stream", 1, priority)  # 1: it does not wait for the first stream

    def current(self):
        return self.board.stream

    def enter(self, stream):
        self.board.stream = stream

    def done(self, stream):
        self.driver.use(self.board.index)
        return self.driver.done("stream_done", stream)

    def synchronize(self, stream):
        self.driver.use(self.board.index)
        self.driver.call("stream_wait", stream)

    def mark(self, stream):
        return Mark(self.board, stream)

    def wait(self, stream, event):
        self.driver.use(self.board.index)
        self.driver.call("event_before", stream, event.handle, 0)

    def passed(self, event):
        return self.driver.done("event_done", event.handle)

    def reach(self, event):
        self.driver.call("event_wait", event.handle)

    def elapsed(self, first, last):
        return self.driver.elapsed(first.handle, last.handle)


class Mark:
    """An event, which goes back to the driver with the last who knows it."""

    def __init__(self, board: Board, stream: int):
        self.driver, self.process = board.driver, os.getpid()
        self.driver.use(board.index)
        self.handle = self.driver.made("event", 0)
        self.driver.call("event_mark", self.handle, stream)

    def __del__(self):
        if self.process == os.getpid() and hasattr(self, "handle"):
            self.driver.entries["event_free"](self.handle)


class PinnedMemory:
    """Memory of the host that a driver has pinned."""

    def __init__(self, driver, nbytes: int):
        self.driver, self.process, self.address = driver, os.getpid(), driver.made("pin", max(nbytes, 1), 0)

    def __del__(self):
        if self.process == os.getpid() and hasattr(self, "address"):
            self.driver.entries["unpin"](self.address)


class GPUs(BoardProvider):
    """The devices of one driver; programs are Triton's."""

    dlpack, queue = 2, Queue

    def __init__(self, driver, kind="cuda"):
        super().__init__(kind)
        self.driver, self.boards, self.lock = driver, {}, guarded("devices", threading.RLock())
        if driver.vendor.kind == "hip":
            self.dlpack = 10

    def board(self, index: int) -> Board:
        if self.process != os.getpid():
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
                               "must use the 'spawn' start method")
        with self.lock:
            if index not in self.boards:
                self.boards[index] = Board(self.driver, index)
            return self.boards[index]

    # --- which devices there are ---
    @functools.cached_property
    def number(self) -> int:
        return self.driver.count()

    def count(self):
        return self.number

    @functools.cache
    def properties(self, index):
        return Properties(self.driver.name(index), self.driver.total(index), self.driver.units(index))

    def capability(self, index: int) -> tuple:
        """(major, minor) of a GPU's architecture: (9, 0) of "sm_90", (9, 4) of "gfx942"."""
        name = self.driver.architecture(index)
        digits = name[3:] if name.startswith("sm_") else name[3:-1]
        return int(digits[:-1]), int(digits[-1], 16)

    def capabilities(self, index):
        return frozenset(("streams", "pinned"))

    def refuse(self, index):
        raise RuntimeError("CUDA error: invalid device ordinal")

    # --- memory ---
    def memory(self, index):
        self.driver.use(index)
        return self.driver.memory()

    def pinned(self, nbytes):
        self.driver.use(self.current())
        memory = PinnedMemory(self.driver, nbytes)
        return Pinned(memory.address, memory)

    # --- programs ---
    def target(self):
        if self.compiler is None:
            names = sorted({self.driver.architecture(index) for index in range(self.count())})
            self.compiler = Blocks(self.type, " ".join(names))
        return self.compiler


@functools.cache
def alias(kind: str):
    """The Provider of this machine's GPUs; None where no driver has one."""
    driver = drivers.found()
    return GPUs(driver, kind) if driver is not None else None
