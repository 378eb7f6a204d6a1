"""Programs whose launches are captured once and replayed as one graph (``mode="reduce-overhead"``).

A graph has fixed memory for everything that varies: inputs at other addresses are copied there, and results stay there
while they are referenced.  So a program has several graphs, and one whose results are free is replayed.  If there is
none, or if scalar arguments differ, the program runs launch by launch.
"""

from __future__ import annotations

import ctypes
import weakref

from ...core.errors import OutOfMemoryError
from ...core.log import logger
from ...core.native import UNCOUNTED, Plan, Storage, Tensor, mine
from ...core.native.memory import store_i64
from ...core.native.objects import wrap
from ...core.tensor import address, empty_of, flat
from ..shared.host import span
from .events import Mark
from .graphs import Pool, Recording
from .memory import Held

log = logger("kernels")
MOST = 4  # recordings of a program


class Instance:
    """One captured graph.  ``fixed``: the values of a call's arguments that it was captured for, by index; ``copied``:
    (index of an argument, address, bytes) of inputs to copy to the graph's memory; ``results``: (storage, meta);
    ``keep``: all other memory that it uses."""

    def __init__(self, recording: Recording, fixed: dict, copied: list, results: list, keep):
        self.recording, self.copied, self.results, self.keep = recording, copied, results, keep
        self.places, self.fixed = tuple(fixed), tuple(fixed.values())
        self.lent, self.streams, self.marks = lambda: None, set(), []

    def suits(self, words: list) -> bool:
        """True if it computes a call with these arguments, and its results are free."""
        return tuple(map(words.__getitem__, self.places)) == self.fixed and self.lent() is None


class RecordedProgram:
    """A plan's program with its captured graphs."""

    def __init__(self, board, program):
        self.board, self.program, self.instances, self.pool, self.stream = board, program, [], None, None
        self.most = MOST
        self.known: dict = {}  # by index of an argument: its value if the same in all calls, else None

    def run(self, plan: Plan, args, values: int, used: int):
        """Return the fresh results; None if the program must run launch by launch."""
        board = self.board
        if board.recording is not None:
            return None
        stream = board.stream
        if self.stream is None:
            self.stream = stream
        if stream != self.stream:  # recordings share memory for temporaries: they run one after another
            return None
        words = (ctypes.c_int64 * used).from_address(values)[:] if used else []
        for one in self.instances:
            if one.suits(words):
                return self.replayed(plan, one, words)
        tensors = self.tensors(args, words)
        if tensors is None or any(x.device is not plan.place for x in tensors.values()):
            return None
        first = not self.known and used
        self.known = {k: word if self.known.get(k, word) == word else None for k, word in enumerate(words)}
        if first:  # what varies is not known yet
            return None
        # a number that varies would be recorded as it is now
        if len(self.instances) >= self.most or any(self.known[k] is None and k not in tensors for k in self.known):
            return None
        try:
            self.instances.append(self.record(plan, tensors, words))
        except OutOfMemoryError as reason:  # without a recording's own memory the program may still run
            log.debug("%s is not recorded again: %s", plan.op.name, reason)
            self.most = len(self.instances)
            return None
        return self.replayed(plan, self.instances[-1], words)

    def tensors(self, args, words: list):
        """The tensors of a call by the place of their word; None where they are not among the words."""
        rest = (x for x in flat(args) if isinstance(x, Tensor))
        found, waiting = {}, next(rest, None)
        for k, word in enumerate(words):
            if waiting is not None and word == address(waiting):
                found[k] = waiting
                waiting = next(rest, None)
        return found if waiting is None else None

    def record(self, plan, tensors: dict, words: list) -> Instance:
        """Capture a graph for calls like this one; it copies tensors whose addresses vary."""
        board, used = self.board, len(words)
        self.pool = self.pool or Pool(board)
        outer = board.stream
        if board.recorder is None:
            board.recorder = board.driver.made("stream", 1, 0)
        written = {k for number, k in enumerate(tensors) if number in plan.written}
        recording, begun, whole = Recording(board, self.pool), False, False
        try:
            board.enter_stream(board.recorder)
            recording.begin("thread_local")
            begun = True
            given = (ctypes.c_int64 * (used + len(plan.outputs) + len(plan.temporaries) + 4))(*words)
            copied, keep = [], []
            for k, x in tensors.items():
                if self.known[k] is None and k not in written:
                    low, high = span(x._rush_meta)
                    keep.append(board.storage(high - low))
                    given[k] = keep[-1].address - low
                    copied.append((k, low, keep[-1].address, high - low))
            results = [empty_of(meta)._rush_storage for meta in plan.outputs]
            rooms = [board.storage(nbytes) for nbytes in plan.temporaries]
            for at, storage in enumerate((*results, *rooms), used):
                given[at] = storage.address
            at = used + len(results) + len(rooms)
            if plan.random:
                given[at], given[at + 1] = recording.random.reserve(plan.random)
                at += 2
            values = ctypes.addressof(given)
            store_i64(values, at, values + 8 * (at + 1))
            self.program.run(board, values)
            keep += rooms  # no later recording may have its results there
            whole = True
        finally:
            try:
                if whole:
                    recording.end()
                elif begun:
                    recording.abandon()
            finally:
                board.enter_stream(outer)
        own = {k for k, *_ in copied}
        fixed = {k: word for k, word in enumerate(words) if k not in own}
        return Instance(recording, fixed, copied, list(zip(results, plan.outputs)), keep)

    def replayed(self, plan, one: Instance, words: list) -> tuple:
        """Copy the inputs that are elsewhere, replay a graph, and lend its results."""
        board, streams = self.board, one.streams - {self.stream}
        one.streams.clear()
        one.marks = [Mark(board, stream) for stream in streams]  # they may still use what it gave before
        for mark in one.marks:
            board.driver.call("event_before", board.stream, mark.handle, 0)
        for k, low, address, nbytes in one.copied:
            board.copy(address, words[k] + low, nbytes)
        seed, first = one.recording.replay()
        if plan.random:
            mine.seed, mine.drawn = seed, first
        held, made = Held([storage for storage, _ in one.results], one.streams), []
        for storage, meta in one.results:
            lent = Storage()
            lent.address, lent.nbytes, lent.owner = storage.address, storage.nbytes, held
            if mine.inference:
                lent.version = UNCOUNTED
            made.append(wrap(lent, 0, meta, meta.itemsize))
        one.lent = weakref.ref(held)
        return tuple(made)
