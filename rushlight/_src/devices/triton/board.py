"""One GPU: its memory, machine code, streams, and programs as launches one after another."""

from __future__ import annotations

import array
import ctypes
import threading

import numpy as np

from ...compiler.launch import CONSTANT, decode
from ...core import dtypes
from ...core.errors import OutOfMemoryError
from ...core.native.memory import copy_bytes
from ..shared.code import taken_apart
from ..shared.host import HostStep
from ..shared.memory import Blocks
from .binaries import Variant, binary
from .step import modules

FAR = 1 << 31  # bytes of a block from which on positions have 64 bits
STEP = 1 << 21  # large blocks have multiples of so many bytes, so that one fits many sizes
LARGE = 1 << 20
TAIL = 2  # arguments that Triton adds: memory of its own, and of its profiler


class Board(Blocks):
    """A device of a Driver."""

    def __init__(self, driver, index: int):
        super().__init__()
        self.driver, self.index, self.programs, self.kernels, self.tables = driver, index, {}, {}, {}
        self.far, self.own_thread = 0, threading.local()
        self.architecture = driver.architecture(index)
        self.flag = self.take(8)

    # --- memory --------------------------------------------------
    def rounded(self, nbytes: int) -> int:
        return nbytes + STEP - 1 & -STEP if nbytes > LARGE else super().rounded(nbytes)

    def order(self) -> int:
        return self.stream

    @property
    def stream(self) -> int:
        """The calling thread's stream; 0: the first."""
        return getattr(self.own_thread, "stream", 0)

    @stream.setter
    def stream(self, stream: int):
        self.own_thread.stream = stream

    def take(self, nbytes: int) -> int:
        self.far += nbytes >= FAR
        return super().take(nbytes)

    def give(self, address: int, nbytes: int):
        self.far -= nbytes >= FAR
        super().give(address, nbytes)

    def enter(self, size: int) -> int:
        self.driver.use(self.index)
        try:
            return self.driver.made("allocate", size)
        except OutOfMemoryError:  # there may be enough among the blocks that are kept
            self.trim()
            return self.driver.made("allocate", size)

    def leave(self, address: int):
        self.driver.use(self.index)
        self.driver.call("free", address)

    def trim(self):
        self.wait()
        super().trim()

    # --- order of work --------------------------------------------------
    def wait(self):
        """Returns when all streams have done what they were given."""
        self.driver.use(self.index)
        self.driver.call("synchronize")

    def settle(self):
        """Returns when the thread's stream has done what it was given."""
        self.driver.call("stream_wait", self.stream)

    # --- copies --------------------------------------------------
    def upload(self, target: int, source: int, nbytes: int, non_blocking=False):
        self.moved("upload", target, source, nbytes, non_blocking)

    def download(self, target: int, source: int, nbytes: int, non_blocking=False):
        self.moved("download", target, source, nbytes, non_blocking)

    def moved(self, entry: str, target: int, source: int, nbytes: int, non_blocking: bool):
        if nbytes:
            self.driver.use(self.index)
            self.driver.call(entry, target, source, nbytes, self.stream)
            if not non_blocking:
                self.settle()

    def copy(self, target: int, source: int, nbytes: int) -> bool:
        self.moved("copy", target, source, nbytes, True)
        return True

    # --- programs --------------------------------------------------
    def kernel(self, number: int, variant: Variant) -> tuple:
        """(the handle of a kernel, its Binary)."""
        found = self.kernels.get((number, variant))
        if found is None:
            made = binary(modules.made[number], variant, self.architecture)
            found = self.kernels[number, variant] = self.driver.kernel(made), made
        return found

    def table(self, values: tuple, name: str) -> int:
        """The address of constants."""
        if (values, name) not in self.tables:
            held = np.array(values, getattr(dtypes, name).numpy)
            address = self.tables[values, name] = self.take(held.nbytes)
            self.upload(address, held.ctypes.data, held.nbytes)
        return self.tables[values, name]

    def run(self, code: int, values: int):
        """Gives the thread's stream a program; what its flag says is there when this returns."""
        self.driver.use(self.index)
        program = taken_apart(self.programs, code, lambda words: DecodedProgram(self, words))
        given = (ctypes.c_int64 * program.count).from_address(values)[:] if program.count else []
        program.run(self, given)


class DecodedLaunch:
    """A launch with memory for its arguments."""

    def __init__(self, board: Board, launch):
        self.launch, self.module = launch, modules.made[launch.kernel]
        module, slots = self.module, list(launch.slots)
        self.flag = slots.pop() if module.flag else None
        middle = len(module.pointers)
        fixed = [board.table(*one) for one in module.tables] + ([board.flag] if module.flag else []) + [launch.extent]
        self.slots = [*slots[:middle], *((CONSTANT, number) for number in fixed), *slots[middle:]]
        first = middle + len(fixed)
        self.asked = [*range(first), *range(first + module.numbers, len(self.slots))]  # may be known as multiples of 16
        self.values = (ctypes.c_int64 * (len(self.slots) + TAIL))()
        base = ctypes.addressof(self.values)
        self.pointers = (ctypes.c_void_p * len(self.values))(*(base + 8 * k for k in range(len(self.values))))
        self.programs = module.programs(launch.extent, launch.grain)
        self.ready = None

    def run(self, board: Board, given):
        """Gives the stream the launch."""
        found = [number if value == CONSTANT else given[value] + number for value, number in self.slots]
        self.values[:len(found)] = found
        wide = board.far > 0 or self.launch.extent >= FAR
        variant = Variant(self.launch.grain, wide, tuple(k for k in self.asked if not found[k] & 15))
        if self.ready is None or self.ready[0] != variant:
            self.ready = variant, *board.kernel(self.launch.kernel, variant)
        _, handle, made = self.ready
        board.driver.call("launch", handle, self.programs, 1, 1, made.threads, 1, 1, made.shared, board.stream,
                          self.pointers, None)


class DecodedProgram:
    """A program taken apart: its launches, and the steps of the host between them."""

    def __init__(self, board: Board, words: bytes):
        self.words, self.parts, self.flag, self.count = words, [], None, 0
        for launch in decode(array.array("q", words)):
            self.count = max(self.count, 1 + max((value for value, _ in launch.slots), default=-1))
            if launch.kernel < 0:
                self.parts.append((HostStep.known[launch.kernel], launch))
            elif launch.extent > 0:
                self.parts.append((None, DecodedLaunch(board, launch)))
                if self.parts[-1][1].flag is not None:
                    self.flag = self.parts[-1][1].flag

    def run(self, board: Board, given):
        if self.flag is not None:
            board.driver.call("fill", board.flag, 0, 8, board.stream)
        for step, launch in self.parts:
            if step is None:
                launch.run(board, given)
            else:
                step.run(board, [n if value == CONSTANT else given[value] + n for value, n in launch.slots])
        if self.flag is not None:
            word = ctypes.c_int64()
            board.download(ctypes.addressof(word), board.flag, 8)
            if word.value:
                value, number = self.flag
                copy_bytes(number if value == CONSTANT else given[value] + number, ctypes.addressof(word), 8)
