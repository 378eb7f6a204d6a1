"""Provider of WebGPU devices: memory, copies, and programs, over the devices of ``board.py``.

There is one queue for each device, so work is done in submission order; the host continues meanwhile, and waits when it
reads.
"""

from __future__ import annotations

import os
import threading
import time

from ...core.dtypes import ALL
from ...core.errors import NoDeviceError
from ...core.forking import guarded
from ...core.platform import here
from ..base import Properties, Streams
from ..shared.provider import BoardProvider
from .board import BINDINGS, SHARED, Board, adapters
from .target import Shaders

HOST_MEMORY = here.bytes_of_memory()


class Boards:
    """The devices of this process, each opened at first use, under all device types that share them."""

    lock = guarded("devices", threading.RLock())
    found: list | None = None
    made: dict = {}
    process = os.getpid()

    @classmethod
    def adapters(cls) -> list:
        """Return the adapters, software ones only if there are no others.  RuntimeError without wgpu."""
        with cls.lock:
            if cls.found is None:
                found = sorted(adapters(), key=lambda a: a.info["adapter_type"] != "DiscreteGPU")
                cls.found = [a for a in found if a.info["adapter_type"] != "CPU"] or found
            return cls.found

    @classmethod
    def at(cls, number: int) -> Board:
        """Return the device of an adapter's number."""
        if cls.process != os.getpid():
            raise RuntimeError(
                "Cannot use WebGPU in a forked process: the driver's threads are not there. To use WebGPU with "
                "multiprocessing, use the 'spawn' start method"
            )
        with cls.lock:
            if number not in cls.made:
                cls.made[number] = Board(cls.adapters()[number])
            return cls.made[number]

    @classmethod
    def renew(cls, number: int) -> Board:
        """Replace a lost device; buffer numbers continue, so that stale addresses are recognized."""
        with cls.lock:
            old = cls.at(number)
            if old.lost:
                cls.found = None
                cls.made[number] = Board(cls.adapters()[number], first=old.next)
            return cls.made[number]


class Queue(Streams):
    """The only queue of a device, under any number of streams.  WebGPU does not report progress, so queries wait."""

    def __init__(self, board: Board):
        self.board, self.own, self.count = board, threading.local(), 0

    def new(self, priority):
        self.count += 1
        return self.count

    def current(self):
        return getattr(self.own, "stream", 0)

    def enter(self, stream):
        self.own.stream = stream

    def done(self, stream):
        self.board.wait()
        return True

    def synchronize(self, stream):
        self.board.wait()

    def mark(self, stream):
        return Mark(self.board)

    def passed(self, event):
        return True

    def reach(self, event):
        event.reach()

    def elapsed(self, first, last):
        first.reach()
        last.reach()
        return (last.at - first.at) * 1e3


class Mark:
    """An event.  The queue has no timestamps: recording waits for all work before, and takes the host's time."""

    def __init__(self, board: Board):
        board.wait()
        self.at = time.perf_counter()

    def reach(self):
        """Return at once: recording has waited."""


class WebGPU(BoardProvider):
    """The adapters that wgpu finds, or those that ``chosen`` takes, under one name; programs are WGSL."""

    dlpack, queue = 15, Queue

    def __init__(self, kind="webgpu", chosen=lambda adapter: True):
        super().__init__(kind)
        self.chosen = chosen

    # --- which devices there are ---
    def numbers(self) -> list:
        """The numbers of the adapters.  RuntimeError without wgpu."""
        return [k for k, adapter in enumerate(Boards.adapters()) if self.chosen(adapter)]

    def board(self, index: int) -> Board:
        return Boards.at(self.numbers()[index])

    def count(self):
        try:
            return len(self.numbers())
        except RuntimeError:
            return 0

    def placed(self, where):
        try:
            found = self.numbers()
        except RuntimeError as reason:
            raise NoDeviceError(
                f"device '{where}' is not available: {reason}",
                "'cpu', or a machine with the extra",
                "pip install rushlight[webgpu]",
            ) from None
        if not found:
            raise NoDeviceError(
                f"device '{where}' is not available: wgpu finds no adapter of Vulkan, Metal or Direct3D",
                "a machine with a driver for its GPU",
                "on Linux, the package mesa-vulkan-drivers has a software driver, which uses the CPU",
            )
        return super().placed(where)

    def properties(self, index):
        adapter = Boards.adapters()[self.numbers()[index]]
        return Properties(adapter.info["device"], self.total(adapter), 1)

    def total(self, adapter) -> int:
        """Return the bytes of memory.  WebGPU does not report them: the host's if it is shared, else those of the
        largest buffer."""
        shared = adapter.info["adapter_type"] in ("CPU", "IntegratedGPU")
        return HOST_MEMORY if shared else adapter.limits["max-buffer-size"]

    def dtypes(self, index):
        missing = {"i64": ("int64",), "f64": ("float64",)}
        without = [name for kind, names in missing.items() if kind not in self.board(index).features for name in names]
        return frozenset(dtype for dtype in ALL if dtype.has_kernels and dtype.name not in without)

    def recover(self, index):
        Boards.renew(self.numbers()[index])
        self.queues.pop(index, None)

    # --- programs ---
    def target(self):
        if self.compiler is None:  # for all devices of the type: what each of them can
            boards = [self.board(index) for index in range(self.count())]
            self.compiler = Shaders(frozenset.intersection(*(board.features for board in boards)),
                                    min(board.limits[BINDINGS] for board in boards), self.type,
                                    min(board.limits[SHARED] for board in boards))
        return self.compiler


provider = WebGPU()
