"""GPUs of NVIDIA and AMD as the framework uses them, under PyTorch's name for both, "cuda"."""

from __future__ import annotations

import functools
import os
import threading
import weakref

from ...core.forking import guarded
from ...core.settings import settings
from ..base import Pinned, Properties, Streams
from ..shared.provider import BoardProvider
from . import driver as drivers
from . import report
from .board import Board
from .events import Mark
from .pinned import PinnedBlocks
from .recorded import RecordedProgram
from .target import Blocks

STREAMS = 32  # of a priority


class Queue(Streams):
    """The streams of a board; a number is the driver's handle, 0 the first stream's."""

    def __init__(self, board: Board):
        self.board, self.driver, self.made = board, board.driver, {}

    def new(self, priority):
        """One of STREAMS of a priority, in turns: streams live as long as the process, as in PyTorch."""
        with self.board.lock:
            made = self.made.setdefault(priority, [])
            if len(made) < STREAMS:
                with self.driver.at(self.board.index):
                    made.append(self.driver.made("stream", 1, priority))  # 1: it does not wait for the first stream
            else:
                made.append(made.pop(0))
            return made[-1]

    def current(self):
        return self.board.stream

    def enter(self, stream):
        self.board.enter_stream(stream)

    def done(self, stream):
        with self.driver.at(self.board.index):
            return self.driver.done("stream_done", stream)

    def synchronize(self, stream):
        with self.driver.at(self.board.index):
            self.driver.call("stream_wait", stream)
        self.board.check()

    def mark(self, stream):
        return Mark(self.board, stream)

    def wait(self, stream, event):
        with self.driver.at(self.board.index):
            self.driver.call("event_before", stream, event.handle, 0)

    def passed(self, event):
        return self.driver.done("event_done", event.handle)

    def reach(self, event):
        self.driver.call("event_wait", event.handle)
        self.board.check()

    def elapsed(self, first, last):
        return self.driver.elapsed(first.handle, last.handle)


class GPUs(BoardProvider):
    """The devices of one driver; programs are Triton's."""

    dlpack, queue, has_array_interface = 2, Queue, True

    def __init__(self, driver, kind="cuda"):
        super().__init__(kind)
        self.driver, self.boards, self.lock = driver, {}, guarded("devices", threading.RLock())
        self.pins = PinnedBlocks(driver)
        if driver.vendor.kind == "hip":
            self.dlpack = 10

    def board(self, index: int) -> Board:
        if self.process != os.getpid():
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
                               "must use the 'spawn' start method")
        with self.lock:
            if index not in self.boards:
                self.boards[index] = Board(self.driver, index, self.type)
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
        return frozenset(("streams", "pinned", "peer"))

    def refuse(self, index):
        raise RuntimeError("CUDA error: invalid device ordinal")

    # --- memory ---
    def storage(self, index, nbytes):
        return self.board(index).storage(nbytes)

    def figures(self, index) -> dict:
        """``torch.cuda.memory_stats``."""
        return report.statistics(self.board(index).memory)

    def snapshot(self, index) -> list:
        """``torch.cuda.memory_snapshot``."""
        board = self.board(index)
        return report.snapshot(board.memory, index, board.pool_names())

    def summary(self, index) -> str:
        """``torch.cuda.memory_summary``."""
        return report.summary(self.figures(index), index)

    def memory(self, index):
        with self.driver.at(index):
            return self.driver.memory()

    def pinned(self, nbytes):
        with self.driver.at(self.current()):
            memory = self.pins.take(nbytes)
        return Pinned(memory.address, memory)

    def upload(self, index, target, source, nbytes, non_blocking):
        super().upload(index, target, source, nbytes, non_blocking)
        if non_blocking:
            self.pins.copied(self.board(index))

    def download(self, index, target, source, nbytes, non_blocking):
        super().download(index, target, source, nbytes, non_blocking)
        if non_blocking:
            self.pins.copied(self.board(index))

    def used_by(self, index, storage, stream):
        self.board(index).memory.use(storage, stream)

    def trim(self, index):
        super().trim(index)
        self.pins.trim()

    # --- copies ---
    def peer(self, target_index, target, source_index, source, nbytes, non_blocking):
        board, other = self.board(source_index), self.board(target_index)
        if nbytes:
            ready = Mark(other, other.stream)  # the target's block may be in use by work that it was given before
            self.streams(source_index).wait(board.stream, ready)
            self.driver.peer_copy(target_index, target, source_index, source, nbytes, board.stream)
            done = Mark(board, board.stream)
            self.streams(target_index).wait(other.stream, done)
            if not non_blocking:
                self.streams(target_index).synchronize(other.stream)

    # --- other libraries ---
    def device_of(self, address):
        with self.driver.at(self.current()):
            return self.driver.device_of(address)

    def hand_over(self, index, stream):
        board = self.board(index)
        if stream != board.stream:
            self.streams(index).wait(stream, Mark(board, board.stream))

    def take_over(self, index, stream):
        board = self.board(index)
        if stream != board.stream:
            self.streams(index).wait(board.stream, Mark(board, stream))

    # --- programs ---
    def target(self):
        if self.compiler is None:
            names = sorted({self.driver.architecture(index) for index in range(self.count())})
            self.compiler = Blocks(self.type, " ".join(names))
        return self.compiler

    def prepare(self, index, plan):
        board = self.board(index)
        program = board.programs[plan.code]
        program.plan = weakref.ref(plan)
        plan.board = board
        if not isinstance(plan.prepared, RecordedProgram):
            wanted = settings.launch_graphs or (plan.op.traits.get("settings") or {}).get("launch_graphs")
            # AMD's graphs cannot be given other random numbers
            able = program.recordable and (self.driver.vendor.kind == "cuda" or not plan.random)
            plan.prepared = RecordedProgram(board, program) if wanted and able else program
        elif plan.prepared.program is not program:
            plan.prepared = RecordedProgram(board, program)
        through = board.blocking or isinstance(plan.prepared, RecordedProgram)
        plan.ready = 0 if through else program.ready

    def replayed(self, plan, args, values, used):
        if isinstance(plan.prepared, RecordedProgram) and plan.board is self.board(plan.place.index):
            return plan.prepared.run(plan, args, values, used)
        return None

    def launch_failed(self, status):
        self.driver.failed(self.driver.vendor.names["launch"], status)

    def generator(self, index):
        return self.board(index).generator()


@functools.cache
def alias(kind: str):
    """The Provider of this machine's GPUs; None where no driver has one."""
    driver = drivers.found()
    return GPUs(driver, kind) if driver is not None else None
