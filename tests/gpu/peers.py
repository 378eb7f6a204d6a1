"""Ranks of one process that a stand-in for NVIDIA's collectives connects: what it is asked is noted, and done."""
from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import itertools
import threading

import numpy as np

from . import nccl_stub, stub

TYPES = (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32, np.float64, np.uint16)
BFLOAT16, PREMULTIPLIED = 9, 5
REDUCTIONS = (np.add, np.multiply, np.maximum, np.minimum, np.add)  # the fourth number is an average
PATIENCE = 600  # seconds: bounds a hang
WRONG, FAILED = 5, 6  # statuses: invalid usage, a remote error
STAYS = "ncclSend", "ncclRecv"
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64))
HOST = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
FIELDS = {  # arguments by name, after which come the communicator and the stream
    "ncclAllReduce": "source target count dtype op", "ncclBroadcast": "source target count dtype root",
    "ncclReduce": "source target count dtype op root", "ncclAllGather": "source target count dtype",
    "ncclReduceScatter": "source target count dtype op", "ncclSend": "source count dtype peer",
    "ncclRecv": "target count dtype peer"}


@functools.cache
def image() -> bytes:
    return nccl_stub.image()


class Comm:
    """One rank's handle."""

    def __init__(self, world, rank: int):
        self.world, self.rank, self.error, self.live, self.aborted = world, rank, 0, True, False
        self.issued = 0


class World:
    """The ranks of a communicator: what they have brought to each collective, and messages on their way."""

    def __init__(self, size: int):
        self.size, self.comms, self.brought = size, {}, collections.defaultdict(dict)
        self.mail, self.splits, self.done = collections.defaultdict(collections.deque), {}, set()


class Asked:
    """One call of a collective."""

    def __init__(self, name, fields, comm, stream):
        self.name, self.comm, self.stream = name, comm, stream
        self.__dict__.update(fields)

    @property
    def alike(self) -> tuple:
        """What is the same in all ranks."""
        return self.name, self.count, self.dtype, getattr(self, "root", None)

    def array(self, address: int, count: int | None = None) -> np.ndarray:
        dtype = np.dtype(TYPES[self.dtype])
        nbytes = dtype.itemsize * (self.count if count is None else count)
        return np.frombuffer((ctypes.c_char * nbytes).from_address(address), dtype) if nbytes else np.empty(0, dtype)


class Peers:
    """The library, loaded from ``folder``; its streams are those of ``driver``, a ``Recorded``."""

    def __init__(self, folder, driver):
        path = folder / "libnccl.so.2"
        path.write_bytes(image())
        self.path, self.driver, self.changed = path, driver, threading.Condition()
        self.library = ctypes.CDLL(str(path))
        self.library.stub_place.restype = ctypes.POINTER(ctypes.c_void_p)
        self.kept = CALLBACK(self.called), HOST(self.performed)
        self.library.stub_place()[0] = ctypes.cast(self.kept[0], ctypes.c_void_p).value
        self.notes, self.failure, self.comms, self.worlds = [], None, {}, {}
        self.numbers, self.own, self.groups, self.factors = itertools.count(1), threading.local(), {}, {}
        self.faults: dict = {}

    # --- entries ------------------------------------------------------------------------------------------------------
    def called(self, number, words) -> int:
        name = nccl_stub.NAMES[number]
        try:
            if name in self.faults:
                return self.faults[name]
            if name in FIELDS:
                return self.collective(name, words)
            return getattr(self, name)(words) or 0
        except BaseException as reason:  # noqa: BLE001 - it cannot cross the library
            self.failure = reason
            return 3

    def note(self, name, *given):
        self.notes.append((name, *given))

    def asked(self, *names) -> list:
        return [note for note in self.notes if not names or note[0] in names]

    def ncclGetVersion(self, words):
        ctypes.c_int.from_address(words[0]).value = 22304

    def ncclGetUniqueId(self, words):
        ctypes.memmove(words[0], next(self.numbers).to_bytes(8, "little") + b"\xff" * 120, 128)

    def ncclCommInitRank(self, words):
        size, identity, rank = words[1], bytes(ctypes.string_at(ctypes.addressof(words.contents) + 16, 128)), words[18]
        assert identity[8:] == b"\xff" * 120, "the identity has not come as a structure by value"
        self.note("ncclCommInitRank", size, rank, int.from_bytes(identity[:8], "little"))
        self.joined(words[0], self.worlds, identity, size, rank)

    ncclCommInitRankConfig = ncclCommInitRank

    def joined(self, out, worlds, key, size, rank):
        """Writes the handle of a rank once all have come."""
        with self.changed:
            world = worlds.setdefault(key, World(size))
            comm = world.comms[rank] = Comm(world, rank)
            handle = next(self.numbers)
            self.comms[handle] = comm
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: len(world.comms) == size, PATIENCE), "a rank has not come"
        ctypes.c_void_p.from_address(out).value = handle
        return comm

    def ncclCommSplit(self, words):
        comm, color, key = self.comms[words[0]], words[1], words[2]
        self.note("ncclCommSplit", comm.rank, color, key)
        comm.issued += 1
        with self.changed:
            told = comm.world.splits.setdefault(comm.issued, {})
            told[comm.rank] = color, key
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: len(told) == comm.world.size, PATIENCE), "a rank has not come"
        if color < 0:
            ctypes.c_void_p.from_address(words[3]).value = None
            return
        order = sorted((key, rank) for rank, (one, key) in told.items() if one == color)
        self.joined(words[3], self.worlds, (id(comm.world), comm.issued, color), len(order),
                    order.index((key, comm.rank)))

    def leave(self, name, words):
        comm = self.comms[words[0]]
        self.note(name, comm.rank)
        with self.changed:
            comm.live = comm.live and name == "ncclCommFinalize"
            comm.aborted |= name == "ncclCommAbort"
            self.changed.notify_all()

    def ncclCommFinalize(self, words):
        self.leave("ncclCommFinalize", words)

    def ncclCommDestroy(self, words):
        self.leave("ncclCommDestroy", words)

    def ncclCommAbort(self, words):
        self.leave("ncclCommAbort", words)

    def ncclCommGetAsyncError(self, words):
        ctypes.c_int.from_address(words[1]).value = self.comms[words[0]].error

    def ncclRedOpCreatePreMulSum(self, words):
        number, array = next(self.numbers) + 100, Asked("", {"dtype": words[2]}, None, 0).array(words[1], 1)
        self.factors[number] = widened(array.copy(), words[2])
        self.note("ncclRedOpCreatePreMulSum", float(self.factors[number][0]), words[2], words[3])
        ctypes.c_int.from_address(words[0]).value = number

    def ncclRedOpDestroy(self, words):
        self.note("ncclRedOpDestroy", words[0])

    def ncclGroupStart(self, words):
        self.own.depth = getattr(self.own, "depth", 0) + 1
        self.own.waiting = getattr(self.own, "waiting", [])
        self.note("ncclGroupStart")

    def ncclGroupEnd(self, words):
        self.own.depth -= 1
        self.note("ncclGroupEnd")
        if not self.own.depth:
            waiting, self.own.waiting = self.own.waiting, []
            self.submit(waiting)

    # --- on streams ---------------------------------------------------------------------------------------------------
    def collective(self, name, words):
        names = FIELDS[name].split()
        fields = dict(zip(names, words[:len(names)]))
        comm, stream = self.comms[words[len(names)]], words[len(names) + 1]
        assert comm.live, f"{name} on a communicator that is gone"
        self.note(name, comm.rank, stream, fields["count"], fields["dtype"],
                  *(fields[k] for k in ("op", "root", "peer") if k in fields))
        asked = Asked(name, fields, comm, stream)
        if getattr(self.own, "depth", 0):
            self.own.waiting.append(asked)
        else:
            self.submit([asked])
        return 0

    def submit(self, asked: list):
        for stream in dict.fromkeys(one.stream for one in asked):
            number = next(self.numbers)
            self.groups[number] = [one for one in asked if one.stream == stream]
            place = ctypes.cast(self.kept[1], ctypes.c_void_p).value
            self.driver.library.cuLaunchHostFunc(ctypes.c_void_p(stream), ctypes.c_void_p(place),
                                                 ctypes.c_void_p(number))

    def performed(self, number):
        try:
            asked = self.groups[number]
            for one in asked:
                if one.name == "ncclSend":
                    self.send(one)
            for one in asked:
                if one.name not in STAYS:
                    self.together(one)
            for one in asked:
                if one.name == "ncclRecv":
                    self.receive(one)
        except BaseException as reason:  # noqa: BLE001 - it cannot cross the library
            self.failure = reason

    def send(self, one):
        with self.changed:
            one.comm.world.mail[one.comm.rank, one.peer].append(one.array(one.source).tobytes())
            self.changed.notify_all()

    def receive(self, one):
        mail = one.comm.world.mail[one.peer, one.comm.rank]
        with self.changed:
            assert self.changed.wait_for(lambda: mail or one.comm.aborted, PATIENCE), "a message has not come"
            if one.comm.aborted:
                return
            data = mail.popleft()
        assert len(data) == one.array(one.target).nbytes, "a message of another size"
        ctypes.memmove(one.target, data, len(data))

    def together(self, one):
        """Waits for all ranks; the last one computes."""
        comm = one.comm
        with self.changed:
            comm.issued += 1
            number, world = comm.issued, comm.world
            brought = world.brought[number]
            brought[comm.rank] = one
            if len(brought) == world.size:
                if len({each.alike for each in brought.values()}) > 1:
                    for each in world.comms.values():
                        each.error = WRONG
                else:
                    compute(brought, world.size, self.factors)
                world.done.add(number)
                self.changed.notify_all()
            arrived = self.changed.wait_for(lambda: number in world.done or comm.aborted, PATIENCE)
            assert arrived, f"{one.name}: a rank has not come"

    # --- faults -------------------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def failing(self, name: str, status: int):
        """A block in which an entry gives a status and does nothing."""
        self.faults[name] = status
        try:
            yield
        finally:
            del self.faults[name]

    def break_rank(self, rank: int, status: int = FAILED):
        """The library notices an error in the communicators of a rank."""
        for comm in self.comms.values():
            if comm.rank == rank and comm.live:
                comm.error = status

    def end(self):
        """Abort all communicators: an exchange that is still on a stream runs when its event is destroyed, by the
        garbage collection of a later test, and would wait for ranks that no longer exist."""
        with self.changed:
            for comm in self.comms.values():
                comm.aborted = True
            self.changed.notify_all()

    def left(self) -> int:
        """Communicators that nobody has given back."""
        return sum(comm.live for comm in self.comms.values())


def widened(array, dtype):
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype == BFLOAT16 else (
        array.astype(np.float32) if array.dtype == np.float16 else array)


def narrowed(array, dtype):
    if dtype == BFLOAT16:
        from rushlight._src.core.dtypes import bfloat16
        from rushlight._src.core.narrow import narrow
        return narrow(array, bfloat16).astype(np.uint16)
    return array.astype(TYPES[dtype])


def compute(brought: dict, size: int, factors: dict):
    """What a collective of all ranks leaves in their memory."""
    ones = [brought[rank] for rank in range(size)]
    name, first = ones[0].name, ones[0]
    if name == "ncclBroadcast":
        data = ones[first.root].array(ones[first.root].source).copy()
        for one in ones:
            one.array(one.target)[:] = data
    elif name == "ncclAllGather":
        data = np.concatenate([one.array(one.source) for one in ones])
        for one in ones:
            one.array(one.target, size * one.count)[:] = data
    else:
        count = first.count * (size if name == "ncclReduceScatter" else 1)
        with np.errstate(all="ignore"):
            data = reduced([one.array(one.source, count) for one in ones], ones, size, factors)
        for rank, one in enumerate(ones):
            if name == "ncclReduceScatter":
                one.array(one.target)[:] = data[rank * one.count:(rank + 1) * one.count]
            elif name == "ncclAllReduce" or rank == first.root:
                one.array(one.target)[:] = data


def reduced(arrays, ones, size, factors):
    dtype, op = ones[0].dtype, ones[0].op
    wide = [widened(a.copy(), dtype) for a in arrays]
    if op > PREMULTIPLIED:
        wide = [a * factors[one.op][0] for a, one in zip(wide, ones)]
        op = 0
    total = functools.reduce(REDUCTIONS[op], wide)
    if op == 4:
        total = total / size if total.dtype.kind == "f" else total // size
    return narrowed(total, dtype)


def connected(monkeypatch, folder, driver) -> Peers:
    """The library, as the one that is found."""
    from rushlight.distributed.nccl import library
    made = Peers(folder, driver)
    monkeypatch.setenv("NCCL_LIB_DIR", str(folder))
    library.library.cache_clear()
    assert isinstance(stub.NAMES, list)
    return made
