"""Programs whose launches are recorded once and given again as one (``mode="reduce-overhead"``).

A recording has memory of its own for what varies: inputs that lie elsewhere are copied there, and results stay there
while somebody has them.  So there are several recordings: one whose results nobody has runs; where there is none, the
program runs launch by launch, as it does when numbers among its arguments are others.
"""

from __future__ import annotations

import ctypes
import weakref

from ...core.native import Plan, Storage, Tensor, mine
from ...core.native.memory import load_i64, store_i64
from ...core.native.objects import wrap
from ...core.tensor import empty_of
from ..shared.host import span
from .graphs import Pool, Recording

MOST = 4  # recordings of a program


def flat(values):
    for v in values:
        if type(v) in (list, tuple):
            yield from flat(v)
        else:
            yield v


def address_of(tensor: Tensor) -> int:
    return tensor._storage.address + tensor._offset * tensor.itemsize


class Held:
    """Keeps the memory of a result; a recording asks whether it lives."""

    __slots__ = ("storage", "__weakref__")

    def __init__(self, storage: Storage):
        self.storage = storage


class Instance:
    """One recording: addresses of its inputs (``static``: whether they are copies of its own), its results' storages,
    its numbers, and what of the results somebody has."""

    def __init__(self, recording: Recording, inputs: list, static: list, results: list, numbers: list, keep):
        self.recording, self.inputs, self.static, self.results, self.keep = recording, inputs, static, results, keep
        self.numbers, self.lent = numbers, []

    def suits(self, tensors, numbers) -> bool:
        return self.numbers == numbers and all(static or address_of(x) == place for (_, x), place, static
                                               in zip(tensors, self.inputs, self.static))

    @property
    def free(self) -> bool:
        return all(one() is None for one in self.lent)


class RecordedProgram:
    """A plan's program with its recordings."""

    def __init__(self, board, program):
        self.board, self.program, self.instances, self.pool, self.stream = board, program, [], None, None
        self.places: dict = {}  # by value: the address of its tensor in all calls so far; None where it varies
        self.refused = 0  # calls that no recording suits

    def run(self, plan: Plan, args, values: int, used: int):
        """The fresh results; None where the program has to run launch by launch."""
        board = self.board
        if board.recording is not None:
            return None
        tensors, numbers = self.taken_apart(plan, args, values, used)
        if tensors is None:
            return None
        stream = board.stream
        if self.stream is None:
            self.stream = stream
        if stream != self.stream:  # recordings share memory for temporaries: they run one after another
            return None
        first = not self.places
        for k, x in tensors:
            self.places[k] = address_of(x) if self.places.get(k, address_of(x)) == address_of(x) else None
        if first:  # what varies is not known yet
            return None
        found = next((one for one in self.instances if one.suits(tensors, numbers) and one.free), None)
        if found is None:
            if len(self.instances) >= MOST:
                self.refused += 1
                return None
            found = self.record(plan, tensors, numbers, used)
            self.instances.append(found)
        return self.replayed(plan, found, tensors)

    def taken_apart(self, plan, args, values: int, used: int):
        """([(which value, tensor)], [(which value, number)]) of a call; (None, None) where a tensor lies elsewhere."""
        tensors, numbers, at = [], [], iter(range(used))
        given = [x for x in flat(args) if isinstance(x, Tensor)]
        rest = iter(given)
        waiting = next(rest, None)
        for k in at:
            word = load_i64(values, k)
            if waiting is not None and word == address_of(waiting):
                if waiting.device is not plan.place:
                    return None, None
                tensors.append((k, waiting))
                waiting = next(rest, None)
            else:
                numbers.append((k, word))
        return (tensors, numbers) if waiting is None else (None, None)

    def record(self, plan, tensors, numbers, used: int) -> Instance:
        """A recording for arguments such as these."""
        board, inputs, static, keep = self.board, [], [], []
        self.pool = self.pool or Pool(board)
        outer = board.queue
        if board.recorder is None:
            board.recorder = board.driver.made("stream", 1, 0)
        board.enter_queue(board.queue_of(board.recorder))
        recording = Recording(board, self.pool)
        recording.begin("thread_local")
        try:
            count = used + len(plan.outputs) + len(plan.temporaries) + 4
            words = (ctypes.c_int64 * count)()
            values = ctypes.addressof(words)
            for k, word in numbers:
                words[k] = word
            for number, (k, x) in enumerate(tensors):
                copied = number not in plan.written and self.places[k] is None
                if copied:
                    low, high = span(x._meta)
                    storage = board.storage(high - low)
                    keep.append(storage)
                    words[k] = storage.address - low
                else:
                    words[k] = address_of(x)
                inputs.append(words[k])
                static.append(copied)
            results = [empty_of(meta)._storage for meta in plan.outputs]
            at = used
            for storage in results:
                words[at] = storage.address
                at += 1
            rooms = [board.storage(nbytes) for nbytes in plan.temporaries]
            for storage in rooms:
                words[at] = storage.address
                at += 1
            if plan.random:
                words[at], words[at + 1] = recording.random.reserve(plan.random)
                at += 2
            store_i64(values, at, values + 8 * (at + 1))
            self.program.run(board, values)
            del rooms
        finally:
            try:
                recording.end()
            finally:
                board.enter_queue(outer)
        return Instance(recording, inputs, static, results, numbers, keep)

    def replayed(self, plan, one: Instance, tensors) -> tuple:
        """Copies what lies elsewhere, runs a recording, and lends its results."""
        board = self.board
        for (_, x), place, static in zip(tensors, one.inputs, one.static):
            if static:
                low, high = span(x._meta)
                board.copy(place + low, address_of(x) + low, high - low)
        seed, first = one.recording.replay()
        if plan.random:
            mine.seed, mine.drawn = seed, first
        made, one.lent = [], []
        for storage, meta in zip(one.results, plan.outputs):
            held = Held(storage)
            lent = Storage()
            lent.address, lent.nbytes, lent.owner = storage.address, storage.nbytes, held
            one.lent.append(weakref.ref(held))
            made.append(wrap(lent, 0, meta, meta.itemsize))
        return tuple(made)
