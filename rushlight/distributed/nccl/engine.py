"""An NCCL communicator: collectives between the GPUs of a group, on a stream of its own."""
from __future__ import annotations

import collections
import contextlib
import ctypes
import logging
import threading
import time

import numpy as np

from ..._src.core.dtypes import BY_NAME
from ..._src.core.native import Tensor
from ..._src.core.narrow import narrow
from ..engine import Engine, Region
from ..reduction import BITWISE, Premultiplied, RedOpType
from ..regions import REAL
from ..stores import DistBackendError, DistStoreError, PrefixStore
from .flights import PAUSE, Flight, StreamWork
from .library import IN_PROGRESS, KINDS, NO_COLOR, NUMBERS, Config, UniqueId, library
from .watchdog import Watchdog

log = logging.getLogger(__name__)
BYTE = NUMBERS["uint8"]
TRUTH = {"sum": "max", "product": "min"}  # equivalents for bool
FLOATS = "float16", "bfloat16", "float32", "float64"
ON_DEVICE, ON_HOST = 0, 1  # memory of the factor of a premultiplied sum


class NCCLEngine(Engine):
    """The ranks of a group on one device each.  ``where``: this rank's.

    Methods enqueue work on the communicator's stream and return; ``issue`` runs them between events that order them
    with the caller's stream.  The communicator is made with the first collective, or by ``connect``.
    """

    queued = True

    def __init__(self, where, store, rank: int, size: int, seconds: float, options=None):
        self.where, self.store, self.rank, self.size, self.timeout = where, store, rank, size, seconds
        self.provider, self.index, self.options = where.provider, where.index, options
        self.streams, self.library = self.provider.streams(self.index), library(self.provider.vendor())
        self.comm, self.stream, self.aside, self.broken, self.closing = None, None, None, None, False
        self.order = threading.Lock()  # for taking from ``flying``, or ending the communicator
        self.guard, self.flying, self.issued, self.finished = threading.RLock(), collections.deque(), 0, 0
        self.pairs, self.watchdog, self.byte, self.name = {}, None, None, ""

    # --- the communicator ---------------------------------------------------------------------------------------------
    def connect(self):
        """Make the communicator, with all ranks.  DistBackendError that names ranks that do not come."""
        with self.guard:
            if self.comm is not None or self.broken is not None:
                return
            if self.provider.recording(self.index):
                raise RuntimeError("an NCCL communicator cannot be made while a CUDA graph is recorded: run a "
                                   "collective of the group once before, or give init_process_group a device_id")
            if self.rank == 0:
                self.store.set("id", self.library.unique_id())
            self.meet()
            out, given = ctypes.c_void_p(), self.store.get("id")
            unique = UniqueId.from_buffer_copy(given)
            with self.provider.at(self.index):
                if self.config() is None:
                    self.library.call("ncclCommInitRank", ctypes.byref(out), self.size, unique, self.rank)
                else:
                    self.library.call("ncclCommInitRankConfig", ctypes.byref(out), self.size, unique, self.rank,
                                      ctypes.byref(self.config()))
            self.started(out.value)

    def config(self) -> Config | None:
        """Return the library's configuration from the user's options; None if there is none."""
        given = getattr(self.options, "config", None)
        asked = {} if given is None else given.asked()
        if not asked:
            return None
        if "ncclCommInitRankConfig" not in self.library.entries:
            raise RuntimeError(f"NCCL {self.library.version} takes no configuration, but {sorted(asked)} were given")
        return Config(**asked)

    def started(self, comm: int):
        priority = -1 if getattr(self.options, "is_high_priority_stream", False) else 0
        self.comm, self.stream = comm, self.streams.new(priority)
        self.settled()
        self.watchdog = Watchdog(self)

    def meet(self):
        """All ranks are about to make the communicator: a call of the library that waits for all has no limit."""
        self.store.set(f"here {self.rank}", "yes")
        try:
            for rank in range(self.size):
                self.store.get(f"here {rank}")
        except DistStoreError as error:
            missing = [rank for rank in range(self.size) if not self.store.check([f"here {rank}"])]
            raise DistBackendError(f"NCCL communicator of {self.where}: {self.called(missing)} did not come to make it "
                                   f"within {self.timeout:g} s") from error

    def split(self, color: int | None, key: int, store, size: int, seconds: float, options=None):
        """Split the group by one call of the library in all ranks; return the engine of this rank's part, or None if
        ``color`` is None."""
        self.connect()
        made = None if color is None else NCCLEngine(self.where, store, key, size, seconds, options)
        out, config = ctypes.c_void_p(), made.config() if made is not None else None
        with self.guard, self.provider.at(self.index):
            self.library.call("ncclCommSplit", self.comm, NO_COLOR if color is None else color, key, ctypes.byref(out),
                              None if config is None else ctypes.byref(config))
        if made is not None:
            made.started(out.value)
        return made

    @property
    def splits(self) -> bool:
        return "ncclCommSplit" in self.library.entries

    def pair(self, source: int, target: int, tag: int):
        """The engine for messages of one tag from one rank to another: a communicator of the two, so that messages wait
        neither for collectives nor for those of other tags or the other way."""
        with self.guard:
            found = self.pairs.get((source, target, tag))
            if found is None:
                found = self.pairs[source, target, tag] = NCCLEngine(
                    self.where, PrefixStore(f"pair {source} {target} {tag}", self.store), int(self.rank == target), 2,
                    self.timeout, self.options)
                found.ranks, found.name = [self.ranks[source], self.ranks[target]], self.name
            return found

    # --- collectives on the stream ------------------------------------------------------------------------------------
    def issue(self, jobs: list, blocking: bool = False) -> StreamWork:
        """Enqueue jobs on the stream, in one NCCL group, after the work already on the caller's stream."""
        self.check()
        self.connect()
        streams = self.streams
        with self.guard, self.provider.at(self.index):
            origin, recorded = streams.current(), self.provider.recording(self.index)
            streams.wait(self.stream, streams.mark(origin))
            streams.enter(self.stream)
            try:
                self.run(jobs)
                self.issued += 1
                flight = Flight(self, jobs, origin, self.issued, recorded)
            except BaseException as error:
                for job in jobs:
                    if job.entry:
                        job.entry.failed(str(error))
                raise
            finally:
                streams.enter(origin)
            if not recorded:
                self.watchdog.note(flight)
        return StreamWork(flight, [tensor for job in jobs for tensor in job.result], blocking)

    def run(self, jobs: list):
        """Gives the communicator's stream, which is the thread's now, jobs."""
        for job in jobs:
            if job.entry:
                job.entry.started()
        with self.grouped() if len(jobs) > 1 else contextlib.nullcontext():
            for job in jobs:
                job.run()
        for job in jobs:
            job.bring_back()

    def beside(self) -> int:
        """Return the stream of work that follows collectives without a wait (``StreamFuture.then``)."""
        with self.guard:
            if self.aside is None:
                self.aside = self.streams.new(0)
            return self.aside

    def check(self):
        """Raise the communicator's error, if any."""
        if self.broken is not None:
            raise DistBackendError(str(self.broken))
        if self.closing:
            raise RuntimeError("the process group has been destroyed")

    @contextlib.contextmanager
    def grouped(self):
        """A block whose collectives are one NCCL group: all of them run concurrently."""
        self.library.call("ncclGroupStart")
        try:
            yield
        finally:
            if self.library.call("ncclGroupEnd") == IN_PROGRESS:
                self.settled()

    def call(self, entry: str, *given):
        if self.library.call(entry, *given, self.comm, self.stream) == IN_PROGRESS:
            self.settled()

    def settled(self):
        """Wait until the library has completed a nonblocking call (``config``).  DistBackendError if it failed."""
        end, out = time.monotonic() + self.timeout, ctypes.c_int(IN_PROGRESS)
        while True:
            self.library.call("ncclCommGetAsyncError", self.comm, ctypes.byref(out))
            if out.value != IN_PROGRESS:
                break
            if time.monotonic() >= end:
                raise DistBackendError(f"NCCL has not done in {self.timeout:g} s what it has begun")
            time.sleep(PAUSE)
        if out.value:
            raise DistBackendError(f"NCCL error: {self.library.words(out.value)}")

    # --- reductions ---------------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def operator(self, memory: Region, kind: str, scale):
        """Return the library's number of a reduction; ``scale``: the factor of "premul_sum".  ValueError and TypeError
        for reductions that the library lacks."""
        if memory.name not in NUMBERS:
            raise TypeError(f"Input tensor data type is not supported for NCCL process group: {memory.name}")
        if kind not in (*KINDS, "premul_sum"):
            raise ValueError(f"Cannot use ReduceOp.{kind.upper()} with NCCL")
        if kind != "premul_sum":
            yield KINDS[TRUTH.get(kind, kind) if memory.name == "bool" else kind]
            return
        out = ctypes.c_int()
        place = scale.data_ptr() if isinstance(scale, Tensor) else ctypes.byref(scalar(memory.name, float(scale)))
        self.library.call("ncclRedOpCreatePreMulSum", ctypes.byref(out), place, NUMBERS[memory.name],
                          ON_DEVICE if isinstance(scale, Tensor) else ON_HOST, self.comm)
        try:
            yield out.value
        finally:
            self.library.call("ncclRedOpDestroy", out.value, self.comm)

    def check_reduction(self, tensor, op):
        """Return (kind, scale) of a reduction.  ValueError and TypeError for reductions that the library lacks."""
        name = REAL.get(tensor.dtype.name, (tensor.dtype.name,))[0]
        if op in BITWISE:
            raise ValueError(f"Cannot use ReduceOp.{op.name} with NCCL")
        if name not in NUMBERS:
            raise TypeError(f"Input tensor data type is not supported for NCCL process group: {tensor.dtype}")
        if isinstance(op, Premultiplied):
            if name not in FLOATS:
                raise ValueError("PreMulSum Data type must be half, float, bfloat16 or double")
            factor = op.factor
            if isinstance(factor, Tensor):
                dtype = tensor.real.dtype if tensor.is_complex() else tensor.dtype
                factor = factor.detach().to(device=self.where, dtype=dtype).contiguous()
            return "premul_sum", factor
        if op is RedOpType.AVG and name == "bool":
            raise TypeError("Cannot use ReduceOp.AVG with Bool")
        return op.name.lower(), 1.0

    def all_reduce(self, memory, kind, scale):
        self.reduce_into(memory.address, memory, kind, scale)

    def reduce_into(self, source: int, memory: Region, kind, scale):
        with self.operator(memory, kind, scale) as number:
            self.call("ncclAllReduce", source, memory.address, count(memory), NUMBERS[memory.name], number)

    def reduce_chain(self, chain, kind, scale):
        with self.grouped():
            for source, target in zip(chain.sources, chain.targets):
                self.reduce_into(source.address, target, kind, scale)

    def reduce(self, memory, kind, scale, root):
        self.reduce_to(memory, memory, kind, scale, root)

    def reduce_to(self, source, target, kind, scale, root):
        with self.operator(source, kind, scale) as number:
            self.call("ncclReduce", source.address, target.address, count(source), NUMBERS[source.name], number, root)

    def reduce_scatter(self, target, sources, kind, scale):
        with self.grouped():  # also if they are contiguous: in other ranks they may not be
            for rank, source in enumerate(sources):
                self.reduce_to(source, target, kind, scale, rank)

    def reduce_scatter_whole(self, target, source, kind, scale):
        with self.operator(target, kind, scale) as number:
            self.call("ncclReduceScatter", source.address, target.address, count(target), NUMBERS[target.name], number)

    # --- copies: bytes, whatever they stand for -----------------------------------------------------------------------
    def broadcast(self, memory, root):
        self.broadcast_into(memory.address, memory, root)

    def broadcast_into(self, source: int, memory: Region, root: int):
        self.call("ncclBroadcast", source, memory.address, memory.nbytes, BYTE, root)

    def all_gather(self, targets, memory):
        with self.grouped():  # also if they are contiguous: in other ranks they may not be
            for rank, target in enumerate(targets):
                self.call("ncclBroadcast", memory.address, target.address, target.nbytes, BYTE, rank)

    def gather_whole(self, target, memory):
        self.call("ncclAllGather", memory.address, target.address, memory.nbytes, BYTE)

    def gather(self, targets, memory, root):
        with self.grouped():
            self.to(root, memory)
            for rank, target in enumerate(targets or ()):
                self.of(rank, target)

    def scatter(self, target, sources, root):
        with self.grouped():
            for rank, source in enumerate(sources or ()):
                self.to(rank, source)
            self.of(root, target)

    def all_to_all(self, targets, sources):
        with self.grouped():
            for rank, (target, source) in enumerate(zip(targets, sources)):
                self.to(rank, source)
                self.of(rank, target)

    def to(self, rank: int, memory: Region):
        if memory.nbytes:
            self.call("ncclSend", memory.address, memory.nbytes, BYTE, rank)

    def of(self, rank: int, memory: Region):
        if memory.nbytes:
            self.call("ncclRecv", memory.address, memory.nbytes, BYTE, rank)

    def send(self, memory, peer, tag):
        self.to(peer, memory)

    def receive(self, memory, peer, tag):
        self.of(peer, memory)
        return peer

    def barrier(self):
        if self.byte is None:
            self.byte = self.provider.storage(self.index, 1)
        self.call("ncclAllReduce", self.byte.address, self.byte.address, 1, BYTE, KINDS["max"])

    # --- the end ------------------------------------------------------------------------------------------------------
    def failed(self, error: BaseException):
        """End the communicator for good: running work fails, and waits for the device raise the error.  Errors on the
        way are logged: this raises nothing."""
        with self.order:
            if self.broken is not None:
                return
            self.broken = error
            comm, self.comm = self.comm, None
            lost = list(self.flying)
            self.flying.clear()
        held = [flight.kept for flight in lost]  # memory that the library uses until the communicator has ended
        for flight in lost:
            self.despite(flight.failed, error)
        if any(flight.awaited for flight in lost):  # a stream relies on these: no later wait could raise the error
            self.despite(self.provider.report, self.index, error)
        for pair in list(self.pairs.values()):
            self.despite(pair.failed, error)
        if comm is not None:
            self.despite(self.give_up, comm)
        held.clear()

    def despite(self, act, *given):
        """Run one step of ending a communicator; log its error, if any, so that the others run."""
        try:
            act(*given)
        except Exception as reason:  # noqa: BLE001 - what is under way has failed all the same
            log.warning("rank %d on %s could not end its communicator: %s: %s", self.rank, self.where,
                        type(reason).__name__, reason)

    def give_up(self, comm: int):
        with self.provider.at(self.index):
            self.library.call("ncclCommAbort", comm)

    def close(self):
        """Wait for running work, and free the communicator."""
        self.closing = True
        if self.watchdog is not None:
            self.settle()
            self.watchdog.end()
        for pair in self.pairs.values():
            pair.close()
        with self.order:
            comm, self.comm = self.comm, None
        if comm is not None:
            with self.provider.at(self.index):
                if "ncclCommFinalize" in self.library.entries:
                    self.library.call("ncclCommFinalize", comm)
                self.library.call("ncclCommDestroy", comm)

    def settle(self):
        """Wait until nothing is running, or the communicator is broken."""
        while self.flying:
            self.watchdog.collect()
            time.sleep(PAUSE if self.flying else 0)

    def abort(self):
        if self.watchdog is not None:
            self.watchdog.end()
        self.failed(DistBackendError("the process group has been aborted"))


def count(memory: Region) -> int:
    return memory.nbytes // memory.itemsize


def scalar(name: str, value: float):
    """Return a Python number as a C value of a dtype."""
    array = np.asarray(narrow(np.asarray(value), BY_NAME[name])).astype(BY_NAME[name].numpy)
    return (ctypes.c_char * array.itemsize).from_buffer_copy(array.tobytes())
