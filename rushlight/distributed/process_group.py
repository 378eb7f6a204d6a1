"""A group of processes that exchange tensors, over an engine that carries the bytes."""
from __future__ import annotations

import contextlib
import ctypes
import datetime
import struct
import sys
import threading

from .._src.core.native import Tensor, counter
from .._src.core.settings import settings
from .chains import Chain
from .counting import COUNTERS, count
from .engine import Engine, Region
from .group_calls import GroupCalls
from .recorder import watched
from .reduction import Premultiplied, RedOpType, check_op
from .regions import bring_back, dense, parts, reducible, region, touched
from .stores import DEFAULT_TIMEOUT, Store
from .works import Line, Work

MONITOR = -(1 << 40)  # tag of the messages of monitored_barrier


class Options:
    """What a group is made with: a name of its backend and a timeout."""

    def __init__(self, backend: str = "gloo", timeout=DEFAULT_TIMEOUT):
        self.backend, self._timeout = backend, timeout
        self.global_ranks_in_group, self.group_name = [], ""


class ProcessGroup(GroupCalls):
    """Processes that exchange tensors.  Ranks of its methods are those within the group; ``ranks`` are theirs in the
    world.

    ``torch.distributed`` has functions with checks over its methods; those that PyTorch's groups have are in
    ``group_calls.py``.
    """

    Options = Options

    def __init__(self, backend, store: Store | None, rank: int, size: int, name: str = "", desc: str = "undefined",
                 ranks=None, timeout=DEFAULT_TIMEOUT, make=None):
        self._backend, self._store, self._rank, self._size = backend, store, rank, size
        self.group_name, self.group_desc, self.ranks = name, desc, list(ranks if ranks is not None else range(size))
        self.options = Options(str(backend), timeout)
        self.make, self.engine_, self.guard = make, None, threading.RLock()
        self.line, self.lines, self.sequence, self.bound_device_id = Line(f"group {name}"), {}, 0, None
        self.coalescing, self.recorded, self.kinds = None, settings.flight_buffer > 0, {}
        if size > 1:
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
        """How long exchanges may take from now on."""
        self.options._timeout = timeout
        self.engine.timeout = timeout.total_seconds()

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
        from .._src.core.devices import device
        return [device("cpu")]

    @property
    def engine(self) -> Engine:
        if self.engine_ is not None:
            return self.engine_
        with self.guard:
            if self.engine_ is None:
                self.engine_ = self.make(self._store, self._rank, self._size, self.options._timeout.total_seconds())
                self.engine_.ranks = self.ranks
            return self.engine_

    def __repr__(self):
        return (f"<torch.distributed.ProcessGroup {self.group_name!r}: rank {self._rank} of {self._size}, "
                f"{self._backend}>")

    # --- how exchanges run --------------------------------------------------------------------------------------------
    def exchange(self, run, result, async_op: bool, line: Line | None = None, alike=None, peer: int | None = None):
        """Has the engine do something: at once, or as a Work.  ``alike``: the tensors that have one shape in all ranks
        (None: the results); ``peer``: the other side of a message."""
        self.sequence += line is None
        if COUNTERS:
            count(sys._getframe(1).f_code.co_name)
        for tensor in result:
            touched(tensor)
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

    def reduction(self, op, *tensors):
        """(kind, scale) of a reduction for the kernels.  RuntimeError where it does not reduce such tensors."""
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

    def scaled(self, tensor, op):
        """A dense tensor of what is to be reduced, times the reduction's factor where it has one."""
        return dense(tensor.detach() * op.factor) if isinstance(op, Premultiplied) else dense(tensor)

    # --- collectives --------------------------------------------------------------------------------------------------
    def all_reduce(self, tensors, op=RedOpType.SUM, async_op=False, sources=None):
        """Reduces each tensor over the group, in place; or what ``sources`` hold, one of the same shape and dtype for
        each, into it.  Several of one dtype go as one exchange."""
        kind, scale = self.reduction(op, *tensors)
        held = [dense(t) for t in tensors]
        apart = sources is not None or isinstance(op, Premultiplied)
        given = [self.scaled(t, op) for t in sources or tensors] if apart else list(held)
        dtypes = dict.fromkeys(h.dtype for h in held)
        chains = [Chain([reducible(g) for g in given if g.dtype is dtype],
                        [reducible(h) for h in held if h.dtype is dtype]) for dtype in dtypes]
        single = reducible(held[0]) if len(held) == 1 and given[0] is held[0] else None

        def run():
            if single is not None:
                self.engine.all_reduce(single, kind, scale)
            else:
                for chain in chains:
                    self.engine.reduce_chain(chain, kind, scale)
            given.clear()  # it lived for what the chains read
            for tensor, source in zip(tensors, held):
                if source is not tensor:
                    bring_back(tensor, source)
        return self.exchange(run, tensors, async_op)

    def reduce_to(self, tensor, root, op=RedOpType.SUM, async_op=False):
        kind, scale = self.reduction(op, tensor)
        held = self.scaled(tensor, op)
        if self._rank != root:
            held = held.detach().clone() if held._storage is tensor._storage else held  # others keep what they had

        def run():
            self.engine.reduce(reducible(held), kind, scale, root)
            if self._rank == root:
                bring_back(tensor, held)
        return self.exchange(run, [tensor], async_op)

    def broadcast_from(self, tensors, root, async_op=False):
        held = [dense(t) for t in tensors]

        def run():
            for tensor, memory in zip(tensors, held):
                if self._size > 1:
                    self.engine.broadcast(region(memory), root)
                if self._rank != root:
                    bring_back(tensor, memory)
        return self.exchange(run, list(tensors), async_op)

    def gather_to(self, targets, tensor, root=None, async_op=False):
        """Every rank's tensor into the list of targets: of all ranks, or of ``root`` (elsewhere None)."""
        source, held = dense(tensor), None if targets is None else [dense(t) for t in targets]

        def run():
            regions = None if held is None else [region(h) for h in held]
            if root is None:
                self.engine.all_gather(regions, region(source))
            else:
                self.engine.gather(regions, region(source), root)
            for target, memory in zip(targets or (), held or ()):
                bring_back(target, memory)
        return self.exchange(run, list(targets or ()), async_op, None, [tensor])

    def gather_whole(self, output, tensor, async_op=False):
        """Every rank's tensor into one, one after the other."""
        source, held = dense(tensor), dense(output)

        def run():
            self.engine.all_gather(parts(held, self._size), region(source))
            bring_back(output, held)
        return self.exchange(run, [output], async_op)

    def scatter_from(self, output, sources, root, async_op=False):
        held, given = dense(output), None if sources is None else [dense(s) for s in sources]

        def run():
            self.engine.scatter(region(held), None if given is None else [region(g) for g in given], root)
            bring_back(output, held)
        return self.exchange(run, [output], async_op)

    def reduce_scattered(self, output, sources, op=RedOpType.SUM, async_op=False):
        """This rank's part of the reduction; ``sources``: a tensor for each rank, or one that holds all parts."""
        kind, scale = self.reduction(op, output)
        whole = self.scaled(sources, op) if isinstance(sources, Tensor) else None
        given = None if whole is not None else [self.scaled(s, op) for s in sources]
        held = dense(output)
        # the output may be a part of the input
        alone = held if whole is None or held._storage is not whole._storage else held.detach().clone()
        first = reducible(alone)

        def run():
            regions = [reducible(g) for g in given] if whole is None else [Region(r.address, r.nbytes, first.name,
                                                                                  first.itemsize)
                                                                           for r in parts(whole, self._size)]
            self.engine.reduce_scatter(first, regions, kind, scale)
            bring_back(held, alone) if held._storage is not alone._storage else None
            bring_back(output, held)
        return self.exchange(run, [output], async_op)

    def all_to_all_of(self, outputs, inputs, async_op=False):
        held, given = [dense(t) for t in outputs], [dense(t) for t in inputs]

        def run():
            self.engine.all_to_all([region(h) for h in held], [region(g) for g in given])
            for target, memory in zip(outputs, held):
                bring_back(target, memory)
        return self.exchange(run, list(outputs), async_op)

    def all_to_all_rows(self, output, input, output_splits, input_splits, async_op=False):
        """Rows of the input for each rank, into rows of the output; splits of None are equal parts."""
        held, given = dense(output), dense(input)

        def run():
            self.engine.all_to_all(rows(held, output_splits, self._size), rows(given, input_splits, self._size))
            bring_back(output, held)
        return self.exchange(run, [output], async_op)

    def meet(self, async_op=False, timeout=None):
        def run():
            with self.within(timeout):
                self.engine.barrier()
        return self.exchange(run, [], async_op)

    # --- messages -----------------------------------------------------------------------------------------------------
    def send_to(self, tensor, peer, tag=0, async_op=False):
        source = dense(tensor)
        version = counter(tensor).version
        work = self.exchange(lambda: self.engine.send(region(source), peer, tag), [tensor], async_op,
                             self.line_of("send", peer), None, peer)
        counter(tensor).version = version  # it is read alone
        return work

    def receive_from(self, tensor, peer, tag=0, async_op=False):
        """Fills a tensor with a message of ``peer`` (None: of anyone); a Work whose ``source`` is who sent it."""
        held = dense(tensor)

        def run():
            source = self.engine.receive(region(held), peer, tag)
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

    def monitored(self, timeout, wait_all_ranks: bool):
        """A barrier in which rank 0 says who has not come."""
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
        """(bytes, who sent them)."""
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
        """Waits for what is under way, but not for messages that nobody has sent, and leaves; no thread and no memory
        stays behind."""
        self.end(lambda engine: engine.close())

    def abort(self):
        """Leaves at once; what is under way fails."""
        if self.engine_ is not None:
            self.engine_.abort()
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
        self.make = ended
        if engine is not None:
            leave(engine)


def ended(*_):
    raise RuntimeError("the process group has been destroyed")


def rows(tensor, splits, size: int) -> list:
    """The memory of a dense tensor by rows for each rank."""
    if not splits:
        return parts(tensor, size)
    whole = region(tensor)
    row = whole.nbytes // tensor.size(0) if tensor.dim() and tensor.size(0) else 0
    found, begin = [], 0
    for count in splits:
        found.append(whole.part(begin * row, count * row))
        begin += count
    return found
