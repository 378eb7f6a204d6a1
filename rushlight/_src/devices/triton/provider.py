"""GPUs of NVIDIA and AMD as the framework uses them, under PyTorch's name for both, "cuda"."""

from __future__ import annotations

import collections
import functools
import os
import threading

from ...core.devices import device
from ...core.forking import guarded
from ...core.log import logger
from ...core.random import stream_of
from ..base import Pinned, Properties, Provider, Streams
from . import driver as drivers
from .board import Board
from .target import Blocks

log = logger("kernels")


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


class GPUs(Provider):
    """The devices of one driver.

    Programs are Triton's; what has no kernel there is computed by the host between two copies, and counted in
    ``fallen_back`` (operators whose results' sizes depend on data) or by ``HostStep.runs`` (primitives).
    """

    dlpack = 2

    def __init__(self, driver, kind="cuda"):
        self.type, self.driver, self.own, self.compiler = kind, driver, threading.local(), None
        self.boards, self.queues, self.lock = {}, {}, guarded("devices", threading.RLock())
        self.fallen_back, self.process = collections.Counter(), os.getpid()
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

    def fingerprint(self, index):
        return f"{super().fingerprint(index)} {self.target().fingerprint()}"

    def current(self):
        return getattr(self.own, "index", 0)

    def set_current(self, index):
        if not 0 <= index < self.count():
            raise RuntimeError("CUDA error: invalid device ordinal")
        self.own.index = index

    # --- memory ---
    def allocate(self, index, nbytes):
        return self.board(index).take(nbytes)

    def free(self, index, address, nbytes):
        if self.process == os.getpid():  # what a forked process inherits is not its own
            self.board(index).give(address, nbytes)

    def trim(self, index):
        self.board(index).wait()
        self.board(index).trim()

    def statistics(self, index):
        return self.board(index).statistics()

    def reset_statistics(self, index):
        self.board(index).reset_statistics()

    def memory(self, index):
        self.driver.use(index)
        return self.driver.memory()

    def pinned(self, nbytes):
        self.driver.use(self.current())
        memory = PinnedMemory(self.driver, nbytes)
        return Pinned(memory.address, memory)

    # --- copies ---
    def upload(self, index, target, source, nbytes, non_blocking):
        self.board(index).upload(target, source, nbytes, non_blocking)

    def download(self, index, target, source, nbytes, non_blocking):
        self.board(index).download(target, source, nbytes, non_blocking)

    def copy(self, index, target, source, nbytes):
        self.board(index).copy(target, source, nbytes)

    # --- order of work ---
    def streams(self, index):
        if index not in self.queues:
            self.queues[index] = Queue(self.board(index))
        return self.queues[index]

    def synchronize(self, index):
        self.board(index).wait()

    # --- programs ---
    def target(self):
        if self.compiler is None:
            names = sorted({self.driver.architecture(index) for index in range(self.count())})
            self.compiler = Blocks(self.type, " ".join(names))
        return self.compiler

    def run(self, index, code, values):
        self.board(index).run(code, values)

    def generator(self, index):
        return stream_of(device(self.type, index))

    def fallback(self, operator):
        self.fallen_back[operator] += 1
        log.debug("on the host: %s", operator)


@functools.cache
def alias(kind: str):
    """The Provider of this machine's GPUs; None where no driver has one."""
    driver = drivers.found()
    return GPUs(driver, kind) if driver is not None else None
