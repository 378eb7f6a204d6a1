"""Process groups: collectives and messages of tensors, over an engine that moves the bytes."""
from __future__ import annotations

import contextlib
import ctypes
import datetime
import struct
import sys
import threading

from .._src.core.native import Tensor, counter
from .._src.core.devices import device
from .._src.core.options import accept_only
from .._src.core.settings import settings
from .backends import HOST, by_device
from .carriers import Carriers
from .chains import Chain
from .counting import COUNTERS, count
from .engine import Engine, Region
from .group_calls import GroupCalls
from .nccl.flights import Job
from .recorder import NAMES, entered, watched
from .reduction import Premultiplied, RedOpType, check_op
from .regions import bring_back, dense, reducible, region, touched
from .stores import DEFAULT_TIMEOUT, Store
from .works import Line, Work, limits

MONITOR = -(1 << 40)  # tag of the messages of monitored_barrier


class Options:
    """Options of a new group: the name of its backend and a timeout."""

    def __init__(self, backend: str = "gloo", timeout=DEFAULT_TIMEOUT):
        self.backend, self._timeout = backend, timeout
        self.global_ranks_in_group, self.group_name = [], ""


class ProcessGroup(GroupCalls, Carriers):
    """Processes that communicate tensors.  Ranks in its methods are ranks of the group; ``ranks`` has their ranks in
    the world.

    ``torch.distributed`` has functions with checks over its methods; those that PyTorch's groups have are in
    ``group_calls.py``.
    """

    Options = Options

    def __init__(self, backend, store: Store | None, rank: int, size: int, name: str = "", desc: str = "undefined",
                 ranks=None, timeout=DEFAULT_TIMEOUT, make=None, text: str | None = None, device_options=None):
        self._backend, self._store, self._rank, self._size = backend, store, rank, size
        self.group_name, self.group_desc, self.ranks = name, desc, list(ranks if ranks is not None else range(size))
        self.options, self.device_options, self.backend_text = Options(str(backend), timeout), device_options, text
        self.devices, self.boards = {HOST: backend} if text is None else by_device(text), {}
        self.on_host = HOST in self.devices
        if not self.on_host:
            make = self.through
        self.make, self.engine_, self.guard = make, None, threading.RLock()
        self.line, self.lines, self.sequence, self.bound_device_id = Line(f"group {name}"), {}, 0, None
        self.coalescing, self.recorded, self.kinds = None, settings.flight_buffer > 0, {}
        self.uploads = self.last_upload = None  # the group in which threads write checkpoints, and the last Future
        if size > 1 and self.on_host:
            self.engine  # noqa: B018 - all ranks meet here

    # --- who is here --------------------------------------------------------------------------------------------------
    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def name(self) -> str:
        return str(self._backend)

    def get_group_store(self):
        return self._store

    @property
    def timeout(self) -> datetime.timedelta:
        return self.options._timeout

    def set_timeout(self, timeout: datetime.timedelta):
        """Set the time limit of future collectives."""
        self.options._timeout = timeout
        for engine in (self.engine, *self.boards.values()):
            engine.timeout = timeout.total_seconds()

    def _set_default_timeout(self, timeout: datetime.timedelta):
        self.set_timeout(timeout)

    def _set_group_name(self, name: str):
        self.group_name = name

    def _set_group_desc(self, desc: str):
        self.group_desc = desc

    def _get_backend(self, device=None):
        return self

    def _get_backend_name(self) -> str:
        return str(self._backend)

    def _get_sequence_number_for_group(self) -> int:
        return self.sequence

    def _set_sequence_number_for_group(self):
        self.sequence = 0

    @property
    def _device_types(self) -> list:
        return [device(kind) for kind in self.devices]

    @property
    def engine(self) -> Engine:
        if self.engine_ is not None:
            return self.engine_
        with self.guard:
            if self.engine_ is None:
                self.engine_ = self.make(self._store, self._rank, self._size, self.options._timeout.total_seconds())
                self.engine_.ranks = self.ranks
            return self.engine_

    def through(self, store, rank, size, seconds):
        """Return the engine for host memory in a group that has device engines alone."""
        from .nccl.through import HostThrough
        return HostThrough(self.own_engine, rank, size, seconds)

    def __repr__(self):
        return (f"<torch.distributed.ProcessGroup {self.group_name!r}: rank {self._rank} of {self._size}, "
                f"{self._backend}>")

    # --- how collectives run ------------------------------------------------------------------------------------------
    def exchange(self, run, result, async_op: bool, line: Line | None = None, alike=None, peer: int | None = None,
                 engine: Engine | None = None, back=()):
        """Have the engine run an operation: at once, or as a Work.  ``alike``: the tensors that have one shape in all
        ranks (None: the results); ``peer``: the other side of a message; ``engine``: the one that ``run`` calls, if it
        may be a device's; ``back``: (tensor, dense copy) pairs that are copied once it is done."""
        self.sequence += line is None
        if COUNTERS:
            count(sys._getframe(1).f_code.co_name)
        for tensor in result:
            touched(tensor)
        limit = getattr(limits, "timeout", None)
        if engine is not None and engine.queued:
            accept_only("collectives of devices", "set_timeout() of the group", timeout=(limit, None))
            frame = sys._getframe(1)
            entry = entered(self, result if alike is None else alike, line is not None, peer, frame,
                            str(self.devices[engine.where.type])) if self.recorded else None
            name = NAMES.get(frame.f_code.co_name, frame.f_code.co_name)
            return self.given_to(engine, Job(run, back, result, entry, name), async_op)
        if back:
            run = brought(run, back)
        if limit is not None:
            run = self.limited(run, limit)
        if self.recorded:
            run = watched(self, run, result if alike is None else alike, line is not None, peer)
        line = line or self.line
        if self.coalescing is not None:
            self.coalescing.append(line.submit(Work(result, run)))
            return None
        if async_op:
            return line.submit(Work(result, run))
        line.call(run)
        return None

    def given_to(self, engine, job, async_op: bool, blocking: bool = False):
        """Gives a stream a job: with others at the end of a coalescing block, else now."""
        if self.coalescing is not None:
            self.coalescing.later(engine, job)
            return None
        flight = engine.issue([job], blocking)
        if async_op:
            return flight
        flight.wait()
        return None

    def line_of(self, kind: str, peer) -> Line:
        with self.guard:
            return self.lines.setdefault((kind, peer), Line(f"group {self.group_name} {kind} {peer}"))

    @contextlib.contextmanager
    def within(self, timeout):
        """A block in which the engine waits so long."""
        before = self.engine.timeout
        self.engine.timeout = before if timeout is None else timeout.total_seconds()
        try:
            yield
        finally:
            self.engine.timeout = before

    def limited(self, run, timeout):
        """Return a function that runs a collective within a timeout."""
        def run_limited():
            with self.within(timeout):
                return run()
        return run_limited

    def reduction(self, engine, op, *tensors):
        """Return (kind, scale) of a reduction for an engine.  RuntimeError if it does not support such tensors."""
        if engine.queued:
            for tensor in tensors:
                check_op(tensor, op, engine)
            return engine.check_reduction(tensors[0], op)
        known = type(op) is RedOpType and self.kinds.get((op, tensors[0].dtype)) if len(tensors) == 1 else None
        if known:
            return known
        found = self.checked_reduction(op, *tensors)
        if type(op) is RedOpType:
            self.kinds[op, tensors[0].dtype] = found
        return found

    def checked_reduction(self, op, *tensors):
        for tensor in tensors:
            check_op(tensor, op)
        if isinstance(op, Premultiplied):
            return "sum", 1.0
        if op is RedOpType.AVG and not (tensors[0].is_floating_point() or tensors[0].is_complex()):
            raise RuntimeError("result type Float can't be cast to the desired output type "
                               + str(tensors[0].dtype).removeprefix("torch.").capitalize())
        return op.name.lower(), 1.0 / self._size

    def scaled(self, engine, tensor, op):
        """Return a dense tensor to reduce, multiplied by the reduction's factor if it has one and the engine does not
        apply it."""
        multiplied = isinstance(op, Premultiplied) and not engine.queued
        return dense(tensor.detach() * op.factor if multiplied else tensor, not engine.queued)

    # --- collectives --------------------------------------------------------------------------------------------------
    def all_reduce(self, tensors, op=RedOpType.SUM, async_op=False, sources=None):
        """Reduce each tensor over the group, in place; with ``sources``, reduce these (of the same shapes and dtypes)
        into it.  Several tensors of one dtype go as one collective."""
        engine = self.engine_of(*tensors, *(sources or ()))
        kind, scale = self.reduction(engine, op, *tensors)
        held = [dense(t, not engine.queued) for t in tensors]
        apart = sources is not None or isinstance(op, Premultiplied)
        given = [self.scaled(engine, t, op) for t in sources or tensors] if apart else list(held)
        dtypes = dict.fromkeys(h.dtype for h in held)
        chains = [Chain([reducible(g) for g in given if g.dtype is dtype],
                        [reducible(h) for h in held if h.dtype is dtype]) for dtype in dtypes]
        single = reducible(held[0]) if len(held) == 1 and given[0] is held[0] else None

        def run():
            if single is not None:
                engine.all_reduce(single, kind, scale)
            else:
                for chain in chains:
                    engine.reduce_chain(chain, kind, scale)
            if not engine.queued:
                given.clear()  # it lived for what the chains read
        return self.exchange(run, tensors, async_op, engine=engine, back=copies(tensors, held))

    def reduce_to(self, tensor, root, op=RedOpType.SUM, async_op=False):
        engine = self.engine_of(tensor)
        kind, scale = self.reduction(engine, op, tensor)
        held = self.scaled(engine, tensor, op)
        if self._rank != root and not engine.queued and held._rush_storage is tensor._rush_storage:
            held = held.detach().clone()  # the tensors of other ranks stay unchanged
        back = copies([tensor], [held]) if self._rank == root else ()
        return self.exchange(lambda: engine.reduce(reducible(held), kind, scale, root), [tensor], async_op,
                             engine=engine, back=back)

    def broadcast_from(self, tensors, root, async_op=False):
        engine = self.engine_of(*tensors)
        held = [dense(t, not engine.queued) for t in tensors]

        def run():
            if self._size > 1:
                with engine.grouped():
                    for memory in held:
                        engine.broadcast(region(memory), root)
        return self.exchange(run, list(tensors), async_op, engine=engine,
                             back=copies(tensors, held) if self._rank != root else ())

    def gather_to(self, targets, tensor, root=None, async_op=False):
        """Every rank's tensor into the list of targets: of all ranks, or of ``root`` (elsewhere None)."""
        engine = self.engine_of(tensor, *(targets or ()))
        source = dense(tensor, not engine.queued)
        held = None if targets is None else [dense(t, not engine.queued) for t in targets]

        def run():
            regions = None if held is None else [region(h) for h in held]
            if root is None:
                engine.all_gather(regions, region(source))
            else:
                engine.gather(regions, region(source), root)
        return self.exchange(run, list(targets or ()), async_op, None, [tensor], engine=engine,
                             back=copies(targets or (), held or ()))

    def gather_whole(self, output, tensor, async_op=False):
        """Every rank's tensor into one, one after the other."""
        engine = self.engine_of(tensor, output)
        source, held = dense(tensor, not engine.queued), dense(output, not engine.queued)
        return self.exchange(lambda: engine.gather_whole(region(held), region(source)), [output], async_op,
                             engine=engine, back=copies([output], [held]))

    def scatter_from(self, output, sources, root, async_op=False):
        engine = self.engine_of(output, *(sources or ()))
        held = dense(output, not engine.queued)
        given = None if sources is None else [dense(s, not engine.queued) for s in sources]
        return self.exchange(
            lambda: engine.scatter(region(held), None if given is None else [region(g) for g in given], root),
            [output], async_op, engine=engine, back=copies([output], [held]))

    def reduce_scattered(self, output, sources, op=RedOpType.SUM, async_op=False):
        """This rank's part of the reduction; ``sources``: a tensor for each rank, or one that holds all parts."""
        engine = self.engine_of(output, *([sources] if isinstance(sources, Tensor) else sources))
        kind, scale = self.reduction(engine, op, output)
        whole = self.scaled(engine, sources, op) if isinstance(sources, Tensor) else None
        given = None if whole is not None else [self.scaled(engine, s, op) for s in sources]
        held = dense(output, not engine.queued)
        # the output may be a part of the input
        alone = held if whole is None or held._rush_storage is not whole._rush_storage else held.detach().clone()
        first = reducible(alone)

        def run():
            if whole is None:
                engine.reduce_scatter(first, [reducible(g) for g in given], kind, scale)
            else:
                engine.reduce_scatter_whole(first, reducible(whole), kind, scale)
        return self.exchange(run, [output], async_op, engine=engine,
                             back=(*copies([held], [alone]), *copies([output], [held])))

    def all_to_all_of(self, outputs, inputs, async_op=False):
        engine = self.engine_of(*outputs, *inputs)
        held, given = ([dense(t, not engine.queued) for t in tensors] for tensors in (outputs, inputs))
        return self.exchange(
            lambda: engine.all_to_all([region(h) for h in held], [region(g) for g in given]),
            list(outputs), async_op, engine=engine, back=copies(outputs, held))

    def all_to_all_rows(self, output, input, output_splits, input_splits, async_op=False):
        """Rows of the input for each rank, into rows of the output; splits of None are equal parts."""
        engine = self.engine_of(output, input)
        held, given = dense(output, not engine.queued), dense(input, not engine.queued)
        return self.exchange(
            lambda: engine.all_to_all(rows(held, output_splits, self._size), rows(given, input_splits, self._size)),
            [output], async_op, engine=engine, back=copies([output], [held]))

    def meet(self, async_op=False, timeout=None, index: int | None = None):
        engine = self.own_engine(index)
        if engine is not None:
            return self.met(engine, async_op, timeout)

        def run():
            with self.within(timeout):
                self.engine.barrier()
        return self.exchange(run, [], async_op)

    def met(self, engine, async_op, timeout):
        """A barrier of devices: the host waits until all streams have reached it."""
        self.sequence += 1
        if COUNTERS:
            count("meet")
        entry = entered(self, [], False, None, sys._getframe(1), str(self.devices[engine.where.type])
                        ) if self.recorded else None
        flight = engine.issue([Job(engine.barrier, (), [], entry, "barrier")], True)
        return flight if async_op else flight.wait(timeout) and None

    # --- messages -----------------------------------------------------------------------------------------------------
    def send_to(self, tensor, peer, tag=0, async_op=False):
        engine = self.engine_of(tensor)
        source = dense(tensor, not engine.queued)
        engine, at = self.one_way(engine, self._rank, peer, tag)
        version = counter(tensor).version
        work = self.exchange(lambda: engine.send(region(source), at, tag), [tensor], async_op,
                             self.line_of("send", peer), None, peer, engine)
        counter(tensor).version = version  # it is read alone
        return work

    def receive_from(self, tensor, peer, tag=0, async_op=False):
        """Receive a message of ``peer`` (None: of any rank) into a tensor; a Work whose ``source`` is the sender."""
        engine = self.engine_of(tensor)
        held = dense(tensor, not engine.queued)
        engine, at = self.one_way(engine, peer, self._rank, tag)
        if engine.queued:
            work = self.exchange(lambda: engine.receive(region(held), at, tag), [tensor], True,
                                 self.line_of("recv", peer), None, peer, engine, copies([tensor], [held]))
            if work is not None:
                work.source = peer
                work.wait() if not async_op else None
            return work

        def run():
            source = engine.receive(region(held), peer, tag)
            bring_back(tensor, held)
            return source
        if COUNTERS:
            count("receive_from")
        touched(tensor)
        work = Work([tensor], watched(self, run, [tensor], True, peer) if self.recorded else run)
        line = self.line_of("recv", peer)
        if self.coalescing is not None or async_op:
            line.submit(work)
            if self.coalescing is not None:
                self.coalescing.append(work)
        else:
            line.run(work)
        return work

    def one_way(self, engine, source: int, target: int, tag: int) -> tuple:
        """Return (the engine for messages of a tag between two ranks, the other one's rank there).  RuntimeError for
        a message of any rank on a stream."""
        other = source if target == self._rank else target
        if other is None and engine.queued:
            raise RuntimeError("ProcessGroupNCCL does not support recvAnysource: name the rank that sends")
        if not engine.queued or self.coalescing is not None:
            return engine, other
        return engine.pair(source, target, tag), int(other == target)

    def monitored(self, timeout, wait_all_ranks: bool):
        """A barrier in which rank 0 names late ranks.  ValueError if no backend serves the host's memory."""
        if not self.on_host:
            raise ValueError("monitored_barrier is only implemented for GLOO backend.")
        limit = timeout or self.timeout
        byte = ctypes.create_string_buffer(1)
        memory, missing = Region(ctypes.addressof(byte), 1), []

        def run():
            with self.within(limit):
                if self._rank:
                    self.engine.send(memory, 0, MONITOR)
                    self.engine.receive(memory, 0, MONITOR)
                    if byte.raw != b"\0":
                        raise RuntimeError(
                            f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while "
                            "waiting for send/recv from rank 0. "
                            "Please check rank 0 logs for faulty rank.")
                    return
                for rank in range(1, self._size):
                    try:
                        self.engine.receive(memory, rank, MONITOR)
                    except RuntimeError:
                        missing.append(rank)
                        if not wait_all_ranks:
                            break
                byte.value = b"\1" if missing else b"\0"
                for rank in range(1, self._size):
                    if not missing or rank not in missing and rank < max(missing):
                        self.engine.send(memory, rank, MONITOR)
        self.exchange(run, [], False)
        if missing:
            whom = f"Rank {missing[0]}" if len(missing) == 1 else f"Ranks {', '.join(map(str, missing))}"
            raise RuntimeError(f"{whom} failed to pass monitoredBarrier in {int(limit.total_seconds() * 1000)} ms")

    # --- objects ------------------------------------------------------------------------------------------------------
    def gather_bytes(self, data: bytes, root=None) -> list | None:
        """Every rank's bytes, in all ranks or in ``root``."""
        found = []

        def run():
            sizes = self.gathered(struct.pack("<q", len(data)), 8)
            lengths = [struct.unpack("<q", size)[0] for size in sizes]
            most = max(max(lengths), 1)
            found.extend(piece[:length] for piece, length in zip(self.gathered(data, most), lengths))
        self.exchange(run, [], False)
        return found if root in (None, self._rank) else None

    def gathered(self, data: bytes, room: int) -> list:
        source, target = ctypes.create_string_buffer(data, room), ctypes.create_string_buffer(room * self._size)
        begin = ctypes.addressof(target)
        self.engine.all_gather([Region(begin + k * room, room) for k in range(self._size)],
                               Region(ctypes.addressof(source), room))
        return [target.raw[k * room:(k + 1) * room] for k in range(self._size)]

    def broadcast_bytes(self, data: bytes | None, root: int) -> bytes:
        """The bytes of ``root``, in all ranks."""
        found = []

        def run():
            length = ctypes.create_string_buffer(struct.pack("<q", len(data) if self._rank == root else 0), 8)
            self.engine.broadcast(Region(ctypes.addressof(length), 8), root)
            count, = struct.unpack("<q", length.raw)
            content = ctypes.create_string_buffer(data if self._rank == root else b"", max(count, 1))
            self.engine.broadcast(Region(ctypes.addressof(content), count), root)
            found.append(content.raw[:count])
        self.exchange(run, [], False)
        return found[0]

    def send_bytes(self, data: bytes, peer: int, tag: int = 0):
        length, content = ctypes.create_string_buffer(struct.pack("<q", len(data)),
                                                      8), ctypes.create_string_buffer(data, max(len(data), 1))

        def run():
            self.engine.send(Region(ctypes.addressof(length), 8), peer, tag)
            self.engine.send(Region(ctypes.addressof(content), len(data)), peer, tag)
        self.exchange(run, [], False, self.line_of("send", peer), None, peer)

    def receive_bytes(self, peer, tag: int = 0):
        """Return (bytes, their sender)."""
        found = []

        def run():
            length = ctypes.create_string_buffer(8)
            source = self.engine.receive(Region(ctypes.addressof(length), 8), peer, tag)
            count, = struct.unpack("<q", length.raw)
            content = ctypes.create_string_buffer(max(count, 1))
            self.engine.receive(Region(ctypes.addressof(content), count), source, tag)
            found.append((content.raw[:count], source))
        self.exchange(run, [], False, self.line_of("recv", peer), None, peer)
        return found[0]

    # --- the end ------------------------------------------------------------------------------------------------------
    def shutdown(self):
        """Wait for running operations, but not for messages that were never sent, and leave; all threads and memory
        are released."""
        self.end(lambda engine: engine.close())

    def abort(self):
        """Leave at once; running operations fail."""
        for engine in (self.engine_, *self.boards.values()):
            if engine is not None:
                engine.abort()
        self.boards.clear()
        self.end(lambda engine: None)

    def end(self, leave):
        receiving = [line for (kind, _), line in self.lines.items() if kind == "recv"]
        for line in (self.line, *(line for line in self.lines.values() if line not in receiving)):
            line.close()
        if self.engine_ is not None and receiving:
            self.engine_.stop_receiving()
        for line in receiving:
            line.close()
        engine, self.engine_ = self.engine_, None
        self.make = self.made_for = ended
        while self.boards:
            leave(self.boards.popitem()[1])
        if engine is not None:
            leave(engine)


def ended(*_):
    raise RuntimeError("the process group has been destroyed")


def copies(tensors, held) -> list:
    """Return (tensor, its dense copy) of each tensor that has one."""
    return [(tensor, memory) for tensor, memory in zip(tensors, held)
            if memory._rush_storage is not tensor._rush_storage]


def brought(run, back):
    """``run``, then copies back into tensors that were not dense."""
    def then():
        result = run()
        for tensor, memory in back:
            bring_back(tensor, memory)
        return result
    return then


def rows(tensor, splits, size: int) -> list:
    """The memory of a dense tensor by rows for each rank."""
    if not splits:
        return region(tensor).parts(size)
    whole = region(tensor)
    row = whole.nbytes // tensor.size(0) if tensor.dim() and tensor.size(0) else 0
    found, begin = [], 0
    for count in splits:
        found.append(whole.part(begin * row, count * row))
        begin += count
    return found
