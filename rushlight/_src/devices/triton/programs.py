"""Programs decoded for a device: launches as the int64 records that machine code reads, and host steps between them."""

from __future__ import annotations

import array
import ctypes

from ...compiler.launch import CONSTANT, decode
from ...core.native.memory import load_i64
from ..shared.host import HostStep
from . import runner
from .binaries import Packaged, Variant
from .memory import FAR
from .step import Module, modules
from .vendor.blas import Product
from .vendor.calls import ProductCall
from .vendor.dnn import Asked, DnnCall

ALIGNMENT = 15  # bits of an argument that the compiler took for 0


class DecodedLaunch:
    """A launch with the parts that do not depend on values."""

    def __init__(self, board, launch, flag: int):
        self.launch, made = launch, modules.made[launch.kernel]
        self.settled = made.variant if isinstance(made, Packaged) else None
        module, slots = made.module if self.settled else made, list(launch.slots)
        if module.flag:
            slots.pop()
        middle = len(module.pointers)
        fixed = [board.table(*one) for one in module.tables] + ([flag] if module.flag else []) + [launch.extent]
        self.slots = [*slots[:middle], *((CONSTANT, number) for number in fixed), *slots[middle:]]
        first = middle + len(fixed)
        # may be known as multiples of 16
        self.asked = {*range(first), *range(first + module.numbers, len(self.slots))}
        self.module, self.programs = module, module.programs(launch.extent, launch.grain)

    def records(self, board, given, wide: bool) -> list:
        """Return the record of the launch.  The compiler may assume only alignment that all values had until now."""
        found = [number if value == CONSTANT else load_i64(given, value) + number for value, number in self.slots]
        variant = self.variant(found, wide)
        handle, made = board.kernel(self.launch.kernel, variant)
        count = len(self.slots)
        length = runner.HEAD + 3 * count + 2 * (count + runner.TAIL)
        head = [handle, self.programs, made.threads, made.shared, count, length]
        slots = [word for k, (value, number) in enumerate(self.slots)
                 for word in (value, number, ALIGNMENT if k in self.asked else 0)]
        return [head + slots + [0] * (2 * (count + runner.TAIL))]

    def variant(self, found: list, wide: bool) -> Variant:
        """Return the machine code for these arguments.  RuntimeError if a packaged kernel does not support them."""
        self.asked = {k for k in self.asked if not found[k] & ALIGNMENT}
        if self.settled is None:
            return Variant(self.launch.grain, wide or self.launch.extent >= FAR, tuple(sorted(self.asked)))
        if not self.asked >= set(self.settled.aligned):
            raise RuntimeError("a packaged kernel takes addresses that are multiples of 16")
        self.asked = set(self.settled.aligned)
        return self.settled


def decoded(board, launch, flag: int):
    """Decode a launch of a module, or a call of a library."""
    made = modules.made[launch.kernel]
    if not isinstance(made, (Asked, Product)):
        return DecodedLaunch(board, launch, flag)
    call, find = (DnnCall, board.libraries.dnn) if isinstance(made, Asked) else (ProductCall, board.libraries.blas)
    library = find(board)
    if library is None:
        raise RuntimeError("a program was planned with a library that is not there any more")
    return call(library, launch, made, lambda one, module: DecodedLaunch(
        board, one._replace(kernel=modules.number(Module(*module))), flag))


class Launches:
    """Consecutive launches, as ``runner`` reads them."""

    def __init__(self, launches: list):
        self.launches, self.block = launches, None
        self.blocks: dict = {}  # their words: those that there were, which plans may still know

    def prepare(self, board, given: int):
        """Write the records for values such as those at ``given``, or reuse equal ones."""
        wide = board.memory.words[0] > 0
        parts = [part for one in self.launches for part in one.records(board, given, wide)]
        words = [0, int(wide), len(parts), *(word for part in parts for word in part)]
        key = tuple(words)
        if key in self.blocks:
            self.block = self.blocks[key]
            return
        block = (ctypes.c_int64 * len(words))(*words)
        at = ctypes.addressof(block) + 8 * runner.BODY
        for part in parts:
            count = part[runner.SLOTS]
            arguments = at + 8 * (runner.HEAD + 3 * count)
            places = (ctypes.c_int64 * (count + runner.TAIL)).from_address(arguments + 8 * (count + runner.TAIL))
            places[:] = [arguments + 8 * k for k in range(count + runner.TAIL)]
            at += 8 * part[runner.LENGTH]
        self.block = self.blocks[key] = block  # whole: other threads may give it at once

    @property
    def address(self) -> int:
        return ctypes.addressof(self.block)

    def arguments(self) -> tuple:
        """(all arguments that the one launch was given last, (function, programs, threads, shared memory))."""
        count = self.block[runner.BODY + runner.SLOTS]
        first = runner.BODY + runner.HEAD + 3 * count
        return self.block[first:first + count + runner.TAIL], tuple(self.block[runner.BODY:runner.BODY + runner.SLOTS])

    def run(self, board, given: int):
        """Submit the launches to the thread's stream; one by one if a capture must see them."""
        if board.recording is None:
            self.give(board, given)
        else:
            for one in self.launches:
                single = Launches([one])
                single.give(board, given)
                board.recording.launched(single)

    def give(self, board, given: int):
        queue = board.queue
        with board.lock:  # the words, their status among them, are those of all threads
            status = runner.UNPREPARED
            if self.block is not None:
                status = self.attempt(board, given, queue)
            while status == runner.UNPREPARED:  # other alignments, or memory far away
                self.prepare(board, given)
                status = self.attempt(board, given, queue)
        if status:
            board.failed(status)

    def attempt(self, board, given: int, queue) -> int:
        """Return the driver's status of the launches; UNPREPARED if the records are not for these values."""
        board.runner(given, ctypes.addressof(self.block), queue.words, 0)
        return self.block[runner.STATUS]


class DecodedProgram:
    """A decoded program."""

    def __init__(self, board, words: bytes):
        self.words, self.parts, self.plan = words, [], None
        launches = list(decode(array.array("q", words)))
        flagged = any(one.kernel > 0 and modules.made[one.kernel].flag for one in launches)
        self.flag = board.new_flag(self) if flagged else 0
        run: list = []
        for launch in launches:
            if launch.kernel < 0:
                self.parts += [Launches(run)] * bool(run) + [(HostStep.known[launch.kernel], launch)]
                run = []
            elif launch.extent > 0:
                run.append(decoded(board, launch, self.flag))
        if run or not self.parts:
            self.parts.append(Launches(run))

    def run(self, board, given: int):
        for part in self.parts:
            if isinstance(part, Launches):
                part.run(board, given)
            else:
                step, launch = part
                step.run(board, [n if value == CONSTANT else load_i64(given, value) + n for value, n in launch.slots])

    @property
    def recordable(self) -> bool:
        """True if a driver runs all of it."""
        return all(isinstance(part, Launches) for part in self.parts)

    @property
    def ready(self) -> int:
        """Return the address of its records; 0 if it has host steps."""
        one = self.parts[0]
        return one.address if len(self.parts) == 1 and isinstance(one, Launches) and one.block is not None else 0
