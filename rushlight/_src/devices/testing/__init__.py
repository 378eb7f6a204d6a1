"""A device for tests: memory of the process that host code cannot access, and programs that the CPU runs.

Each device has a range of protected addresses.  Access is allowed during a copy or a program, to the device that it
runs on, and to another one only during a copy between the two.  Code that reads a tensor as if it were on the CPU
faults.  A stream does its copies when something waits for them, never before: code that forgets to wait reads old
data.

    from rushlight._src.devices import testing
    testing.activate("fake")
"""
from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
import time

from ...core.errors import OutOfMemoryError
from ...core.forking import guarded
from ...core.native.memory import copy_bytes, run_program
from ...core.platform import here
from ...core.platform.base import PAGE
from ...core.random import Generator
from ..base import Pinned, Properties, Provider, Streams, register

ROOM = 1 << 33  # bytes of addresses a device has; the system gives memory for those that are touched
GRAIN = 256


class Board:
    """One device: its memory, by blocks of a size in grains, and its streams."""

    def __init__(self, kind: str, index: int):
        self.start = here.room(ROOM)
        if not self.start:
            raise OutOfMemoryError("no range of addresses for a testing device")
        self.end, self.free, self.lock, self.users = self.start, {}, guarded("devices", threading.RLock()), 0
        self.allocated = self.most = 0
        self.queues = Queues()
        self.generator = Generator.__new__(Generator)
        self.generator._place(67280421310721, 0)

    @contextlib.contextmanager
    def open(self):
        """A block in which the memory can be touched."""
        with self.lock:
            self.users += 1
            if self.users == 1:
                self.protect(True)
        try:
            yield
        finally:
            with self.lock:
                self.users -= 1
                if not self.users:
                    self.protect(False)

    def protect(self, allowed: bool):
        if self.end > self.start:
            here.forbid(self.start, self.end - self.start + PAGE - 1 & -PAGE, allowed)

    def take(self, nbytes: int) -> int:
        """The address of a block."""
        grains = max(nbytes + GRAIN - 1 & -GRAIN, GRAIN)
        with self.lock:
            blocks = self.free.get(grains)
            if not blocks and self.end + grains > self.start + ROOM:
                raise OutOfMemoryError(f"a testing device has no {nbytes} bytes left",
                                       "at most what the device has left",
                                       "delete tensors that are no longer needed")
            self.allocated += grains
            self.most = max(self.most, self.allocated)
            if blocks:
                return blocks.pop()
            at, self.end = self.end, self.end + grains
            if self.users:
                self.protect(True)
            return at

    def give(self, address: int, nbytes: int):
        grains = max(nbytes + GRAIN - 1 & -GRAIN, GRAIN)
        with self.lock:
            self.allocated -= grains
            self.free.setdefault(grains, []).append(address)


class Queues(Streams):
    """Streams as lists of what is still to be done, which waiting does."""

    def __init__(self):
        self.waiting, self.numbers, self.own = {0: []}, itertools.count(1), threading.local()

    def new(self, priority):
        number = next(self.numbers)
        self.waiting[number] = []
        return number

    def current(self):
        return getattr(self.own, "stream", 0)

    def enter(self, stream):
        self.own.stream = stream

    def give(self, work):
        """Enters work on the current stream."""
        self.waiting[self.current()].append(work)

    def done(self, stream):
        return not self.waiting[stream]

    def synchronize(self, stream):
        queue = self.waiting[stream]
        while queue:
            queue.pop(0)()

    def mark(self, stream):
        event = Mark(stream)
        self.waiting[stream].append(event.pass_by)
        return event

    def wait(self, stream, event):
        self.waiting[stream].append(lambda: self.reach(event))

    def passed(self, event):
        return event.at is not None

    def reach(self, event):
        queue = self.waiting[event.stream]
        while event.at is None:
            queue.pop(0)()

    def elapsed(self, first, last):
        return (last.at - first.at) * 1e3


class Mark:
    """An event in the work of a stream."""

    def __init__(self, stream: int):
        self.stream, self.at = stream, None

    def pass_by(self):
        self.at = time.perf_counter()


class Testing(Provider):
    """Some devices of one type."""

    def __init__(self, count: int):
        self.boards, self.number, self.own, self.fallen_back = None, count, threading.local(), []

    def board(self, index: int) -> Board:
        if self.boards is None:
            self.boards = [Board(self.type, k) for k in range(self.number)]
            for k, board in enumerate(self.boards):
                from ...core.devices import device
                board.generator.device = device(self.type, k)
        return self.boards[index]

    def count(self):
        return self.number

    def properties(self, index):
        return Properties(f"testing device {index}", ROOM, 2)

    def capabilities(self, index):
        return frozenset(("streams", "peer", "pinned"))

    def current(self):
        return getattr(self.own, "index", 0)

    def set_current(self, index):
        self.own.index = index

    def allocate(self, index, nbytes):
        return self.board(index).take(nbytes)

    def free(self, index, address, nbytes):
        board = self.board(index)
        if any(board.queues.waiting.values()):  # work that was given before may still use it
            board.queues.give(lambda: board.give(address, nbytes))
        else:
            board.give(address, nbytes)

    def statistics(self, index):
        board = self.board(index)
        return {"allocated": board.allocated, "most_allocated": board.most, "reserved": board.end - board.start,
                "most_reserved": board.end - board.start}

    def reset_statistics(self, index):
        board = self.board(index)
        board.most = board.allocated

    def pinned(self, nbytes):
        memory = ctypes.create_string_buffer(nbytes + 64)
        return Pinned(ctypes.addressof(memory) + 63 & -64, memory)

    def copying(self, boards, target, source, nbytes, non_blocking):
        queues = self.board(boards[0]).queues

        def work():
            with contextlib.ExitStack() as stack:
                for k in boards:
                    stack.enter_context(self.board(k).open())
                copy_bytes(target, source, nbytes)

        queues.give(work)
        if not non_blocking:
            queues.synchronize(queues.current())

    def upload(self, index, target, source, nbytes, non_blocking):
        self.copying((index,), target, source, nbytes, non_blocking)

    download = upload

    def copy(self, index, target, source, nbytes):
        self.copying((index,), target, source, nbytes, False)

    def peer(self, target_index, target, source_index, source, nbytes, non_blocking):
        self.board(source_index).queues.synchronize(self.board(source_index).queues.current())
        self.copying((target_index, source_index), target, source, nbytes, non_blocking)

    def streams(self, index):
        return self.board(index).queues

    def synchronize(self, index):
        queues = self.board(index).queues
        for stream in list(queues.waiting):
            queues.synchronize(stream)

    def run(self, index, code, values):
        board = self.board(index)
        board.queues.synchronize(board.queues.current())
        with board.open():
            run_program(code, values)

    def generator(self, index):
        return self.board(index).generator

    def fallback(self, operator):
        self.fallen_back.append(operator)


def activate(name="", count=2) -> Testing:
    """Makes a type of testing devices known under a name (that of ``rename_privateuse1_backend`` unless it is given);
    its provider."""
    made = Testing(count)
    register(made, name)
    return made
