"""GPUs of NVIDIA and AMD as the framework uses them, under PyTorch's name for both, "cuda"."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import weakref

from ...core.advice import warn
from ...core.cached import cached_property
from ...core.forking import guarded
from ...core.native import mine
from ...core.native.remote import kept_storage
from ...core.settings import settings
from ..base import Pinned, Streams
from ..shared.provider import BoardProvider
from . import driver as drivers
from . import report
from .board import Board
from .choices import choices
from .events import Mark
from .pinned import PinnedBlocks
from .properties import properties_of
from .recorded import RecordedProgram
from .segments import Uncached
from .sensors import sensors
from .target import Blocks
from .vendor.libraries import Libraries

STREAMS = 32  # of a priority


class Queue(Streams):
    """The streams of a device; a number is the driver's handle, 0 for the first stream."""

    def __init__(self, board: Board):
        self.board, self.driver, self.made = board, board.driver, {}

    def new(self, priority):
        """One of STREAMS of a priority, in turns: streams live as long as the process, as in PyTorch."""
        lowest, highest = self.priorities()
        priority = max(highest, min(lowest, priority))
        with self.board.lock:
            made = self.made.setdefault(priority, [])
            if len(made) < STREAMS:
                with self.driver.at(self.board.index):
                    made.append(self.driver.made("stream", 1, priority))  # 1: it does not wait for the first stream
            else:
                made.append(made.pop(0))
            return made[-1]

    def priority(self, stream):
        """Return the priority that a stream was created with; 0 for the first one and those of other libraries."""
        return next((priority for priority, made in self.made.items() if stream in made), 0)

    def priorities(self):
        with self.driver.at(self.board.index):
            return self.driver.priorities()

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
        return event.passed()

    def reach(self, event):
        event.reach()
        self.board.check()

    def elapsed(self, first, last):
        with self.driver.at(self.board.index):
            return self.driver.elapsed(first.handle, last.handle)


class GPUs(BoardProvider):
    """The devices of one driver; programs are Triton's.  ``libraries``: the vendor's, instead of those that are
    found."""

    dlpack, queue, has_array_interface = 2, Queue, True

    def __init__(self, driver, kind="cuda", libraries=None):
        super().__init__(kind)
        self.driver, self.boards, self.lock = driver, {}, guarded("devices", threading.RLock())
        self.pins, self.functions, self.caching = PinnedBlocks(driver), None, True
        self.libraries = libraries or Libraries(driver.vendor.kind)
        for reason in choices.follow(settings.allocator or settings.allocator_cuda or settings.allocator_hip):
            warn(f"PYTORCH_CUDA_ALLOC_CONF is not followed in {reason}")
        if driver.vendor.kind == "hip":
            self.dlpack = 10

    def board(self, index: int) -> Board:
        if self.process != os.getpid():
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
                               "must use the 'spawn' start method")
        with self.lock:
            if index not in self.boards:
                self.boards[index] = made = Board(self.driver, index, self.type, self.libraries)
                made.memory.foreign = self.source
            return self.boards[index]

    @property
    def source(self):
        """Return the functions that allocate each block; None: blocks are cached and cut from segments."""
        return self.functions or (None if self.caching else Uncached())

    def cache(self, wanted: bool):
        """Enable or disable caching of freed blocks."""
        with self.lock:
            self.caching = wanted
            for board in self.boards.values():
                board.memory.come_from(self.source)

    @cached_property
    def sensors(self):
        """Return the sensors of the devices.  RuntimeError if there are none."""
        return sensors(self.driver.vendor.kind)

    # --- which devices there are ---
    @cached_property
    def number(self) -> int:
        return self.driver.count()

    def count(self):
        return self.number

    @functools.cache
    def properties(self, index):
        return properties_of(self.driver, index, self.capability(index))

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
        queue = mine.queue  # None in a forked process
        if queue is not None and queue.board is self.boards.get(index):
            kept = kept_storage(queue, nbytes)
            if kept is not None:
                return kept
        return self.board(index).storage(nbytes)

    def figures(self, index) -> dict:
        """``torch.cuda.memory_stats``."""
        memory = self.board(index).memory
        with memory.changes():
            return report.statistics(memory)

    def snapshot(self, index) -> list:
        """``torch.cuda.memory_snapshot``."""
        board = self.board(index)
        with board.memory.changes():
            return report.snapshot(board.memory, index, board.pool_names())

    def summary(self, index, abbreviated=False) -> str:
        """``torch.cuda.memory_summary``."""
        return report.summary(self.figures(index), index, abbreviated)

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

    def trim_host(self):
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

    def at(self, index):
        self.board(index)
        return self.driver.at(index)

    def vendor(self):
        return self.driver.vendor.kind

    def recording(self, index):
        return self.board(index).recording is not None

    @contextlib.contextmanager
    def watching(self, index):
        with self.driver.relaxed():
            yield not self.board(index).recordings

    def report(self, index, error):
        self.board(index).reported.append(error)

    # --- programs ---
    def target(self):
        if self.compiler is None:
            names = sorted({self.driver.architecture(index) for index in range(self.count())})
            self.compiler = Blocks(self.type, " ".join(names), self.libraries)
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
        self.board(self.current()).failed(status)

    def generator(self, index):
        return self.board(index).generator()


@functools.cache
def alias(kind: str):
    """The Provider of this machine's GPUs; None where no driver has one."""
    driver = drivers.found()
    return GPUs(driver, kind) if driver is not None else None
