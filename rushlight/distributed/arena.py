"""Exchanges through memory that all ranks of a group see: threads of one process, or processes of one machine.

Each rank has a word that says which step it has come to (``kernels.meet``), and two slots that it alone writes.  A step
is: write one's slot, meet, read the others' slots.  Steps use the two slots in turns, so one meeting a step is enough:
who writes a slot again has met everybody after they read it.
"""
from __future__ import annotations

import ctypes
import functools
import os
import struct
import zlib

from .engine import Deadline, Engine, Region
from .kernels import LINE, TimeSpec, combine, waiting
from .mailbox import Mailboxes
from .memory import Arena
from .stores import DistBackendError

HEAD = 64  # bytes at the beginning of a slot that say what its rank is about
NAP = 0.05  # seconds after which a waiting rank looks whether the others live
ALONE = 16384  # bytes up to which every rank reduces for itself
SPINS, FEW_SPINS, YIELDS = 4000, 40, 400
copy = ctypes.memmove


def processors() -> int:
    """How many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.lru_cache(512)
def heading(what: tuple) -> bytes:
    """What a rank is about, as bytes: a sum over all of it, then as much of its text as there is room for."""
    text = repr(what).encode()
    shown = text[:HEAD - 6]
    return struct.pack("<IH", zlib.crc32(text), len(shown)) + shown


def refusal(rank: int, theirs, ours) -> str:
    return f"the ranks of a group do not do the same: rank {rank} is at {theirs}, this one at {ours}"


class ArenaEngine(Engine):
    """The engine over an ``Arena``."""

    def __init__(self, arena: Arena, rank: int, size: int, timeout: float):
        self.arena, self.rank, self.size, self.timeout = arena, rank, size, timeout
        self.publish, self.meeting, self.reached = waiting()
        self.step, self.broken, self.words = 0, None, arena.words
        self.nap = TimeSpec(0, int(NAP * 1e9))
        self.napping = ctypes.addressof(self.nap)
        self.spins = SPINS if arena.separate and size <= processors() else FEW_SPINS
        self.yields = YIELDS if arena.separate else 0
        self.room = arena.slot - HEAD
        self.mail = Mailboxes(self)

    # --- steps --------------------------------------------------------------------------------------------------------
    def slot(self, rank: int, step: int | None = None) -> int:
        """Where the data of a rank's slot lies at a step (default: this one)."""
        return self.arena.slots + (((self.step if step is None else step) & 1) * self.size
                                   + rank) * self.arena.slot + HEAD

    def begin(self):
        """The next step: the slots of this rank may be written."""
        if self.broken is not None:
            raise DistBackendError(str(self.broken))
        self.step += 1
        return self.slot(self.rank)

    def meet(self):
        """Waits until all ranks have come to this step.  RuntimeError once one of them cannot come any more, or after
        the timeout."""
        value = ctypes.c_int32(self.step).value
        if self.meeting(self.words, self.rank, self.size, value, self.spins, self.yields, self.napping):
            return
        limit, whole = Deadline(self.timeout), ctypes.c_int32(self.size * self.step & 0xFFFFFFFF).value
        while not self.reached(self.words + self.size * LINE, whole, 0, 0, self.napping):
            self.look_after([rank for rank in range(self.size) if self.at(rank) - self.step < 0], limit)

    def look_after(self, ranks: list, limit: Deadline):
        """Raises where ranks that are waited for are gone, or late."""
        if self.broken is not None:
            raise DistBackendError(str(self.broken))
        for rank in ranks:
            state = self.arena.state_of(rank)
            if state != "here" and self.at(rank) - self.step < 0:
                self.fail(DistBackendError(
                    f"Connection closed by peer: rank {rank} of the group "
                    f"{'has left it' if state == 'left' else 'has ended'}"))
        if limit.passed():
            late = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
            self.fail(DistBackendError(
                f"Timed out waiting {int(limit.seconds * 1000)}ms for recv operation to complete: {late} of the group "
                f"{'has' if len(ranks) == 1 else 'have'} not come"))

    def at(self, rank: int) -> int:
        """The step to which a rank has come, as it counts them."""
        word = ctypes.c_uint32.from_address(self.words + rank * LINE).value
        return self.step + ctypes.c_int32((word - self.step) & 0xFFFFFFFF).value

    def fail(self, error):
        self.broken = error
        self.arena.leave(self.rank, "failed")
        raise error

    def agree(self, what: tuple):
        """Writes down what this rank is about, meets, and raises RuntimeError where another rank is about something
        else."""
        head = heading(what)
        mine = self.slot(self.rank) - HEAD
        copy(mine, head, len(head))
        self.meet()
        for rank in range(self.size):
            at = self.slot(rank) - HEAD
            if rank != self.rank and ctypes.string_at(at, 4) != head[:4]:
                length, = struct.unpack("<H", ctypes.string_at(at + 4, 2))
                raise RuntimeError(refusal(rank, ctypes.string_at(at + 6, length).decode(errors="replace"),
                                           head[6:].decode()))

    def first(self, begun: int, what: tuple):
        """Meets; at the first of several steps, also agrees."""
        if begun:
            self.meet()
        else:
            self.agree(what)

    # --- collectives --------------------------------------------------------------------------------------------------
    def all_reduce(self, memory, kind, scale):
        if self.size == 1:
            return
        what = ("all_reduce", kind, memory.name, memory.nbytes)
        together = self.size > 2 and memory.nbytes > ALONE
        step = self.room // (memory.itemsize * self.size) * memory.itemsize * self.size
        for begin in range(0, max(memory.nbytes, 1), step):
            part = memory.part(begin, min(step, memory.nbytes - begin))
            copy(self.begin(), part.address, part.nbytes)
            self.first(begin, what)
            if together:
                self.reduce_together(part, kind, scale)
            else:
                sources = [part.address if rank == self.rank else self.slot(rank) for rank in range(self.size)]
                combine(kind, part.name, part.itemsize, sources, part.address, part.nbytes // part.itemsize, scale)

    def share(self, part, rank: int):
        """(begin, bytes) of what a rank reduces of a part for all."""
        count = part.nbytes // part.itemsize
        begin = count * rank // self.size
        return begin * part.itemsize, (count * (rank + 1) // self.size - begin) * part.itemsize

    def reduce_together(self, part, kind, scale):
        """Each rank reduces its share of what lies in the slots; a step more, and all copy all shares."""
        begin, nbytes = self.share(part, self.rank)
        sources = [self.slot(rank) + begin for rank in range(self.size)]
        combine(kind, part.name, part.itemsize, sources, self.begin() + begin, nbytes // part.itemsize, scale)
        self.meet()
        for rank in range(self.size):
            begin, nbytes = self.share(part, rank)
            copy(part.address + begin, self.slot(rank) + begin, nbytes)

    def broadcast(self, memory, root):
        what = ("broadcast", root, memory.name, memory.nbytes)
        for begin in range(0, max(memory.nbytes, 1), self.room):
            part = memory.part(begin, min(self.room, memory.nbytes - begin))
            mine = self.begin()
            if self.rank == root:
                copy(mine, part.address, part.nbytes)
            self.first(begin, what)
            if self.rank != root:
                copy(part.address, self.slot(root), part.nbytes)

    def all_gather(self, targets, memory, what="all_gather", root=None):
        what = (what, memory.name, memory.nbytes, root)
        for begin in range(0, max(memory.nbytes, 1), self.room):
            part = memory.part(begin, min(self.room, memory.nbytes - begin))
            copy(self.begin(), part.address, part.nbytes)
            self.first(begin, what)
            if root is None or self.rank == root:
                for rank, target in enumerate(targets):
                    if target.address + begin != part.address:
                        copy(target.address + begin, part.address if rank == self.rank else self.slot(rank),
                             part.nbytes)

    def gather(self, targets, memory, root):
        self.all_gather(targets, memory, "gather", root)

    def pieces(self, nbytes: int, itemsize: int):
        """How many bytes of a region for each rank fit into a slot, and where the steps over such regions begin."""
        piece = self.room // self.size // max(itemsize, 8) * max(itemsize, 8)
        return piece, range(0, max(nbytes, 1), piece)

    def scatter(self, target, sources, root):
        what = ("scatter", root, target.name, target.nbytes)
        piece, steps = self.pieces(target.nbytes, target.itemsize)
        for begin in steps:
            count = min(piece, target.nbytes - begin)
            mine = self.begin()
            if self.rank == root:
                for rank, source in enumerate(sources):
                    copy(mine + rank * piece, source.address + begin, count)
            self.first(begin, what)
            copy(target.address + begin, self.slot(root) + self.rank * piece, count)

    def reduce_scatter(self, target, sources, kind, scale):
        what = ("reduce_scatter", kind, target.name, target.nbytes)
        piece, steps = self.pieces(target.nbytes, target.itemsize)
        for begin in steps:
            count = min(piece, target.nbytes - begin)
            mine = self.begin()
            for rank, source in enumerate(sources):
                if rank != self.rank:
                    copy(mine + rank * piece, source.address + begin, count)
            self.first(begin, what)
            found = [(sources[rank].address + begin) if rank == self.rank else self.slot(rank) + self.rank * piece
                     for rank in range(self.size)]
            combine(kind, target.name, target.itemsize, found, target.address + begin, count // target.itemsize, scale)

    def all_to_all(self, targets, sources):
        piece, _ = self.pieces(0, sources[0].itemsize)
        piece = (piece - 8 * self.size) // 64 * 64
        table = [source.nbytes for source in sources]
        most = max(*table, *(target.nbytes for target in targets), 1)
        begin = 0
        while begin < most:
            mine = self.begin()
            for rank, source in enumerate(sources):
                if rank != self.rank and source.nbytes > begin:
                    copy(mine + rank * piece, source.address + begin, min(piece, source.nbytes - begin))
            if begin:
                self.meet()
            else:
                most = max(self.tables(mine + self.size * piece, table, targets, sources[0].name, self.size * piece))
                copy(targets[self.rank].address, sources[self.rank].address, table[self.rank])
            for rank, target in enumerate(targets):
                if rank != self.rank and target.nbytes > begin:
                    copy(target.address + begin, self.slot(rank) + self.rank * piece, min(piece, target.nbytes - begin))
            begin += piece

    def tables(self, place, table, targets, name, offset):
        """Tells all ranks how much each sends to each; all those sizes.  RuntimeError where a rank expects another
        size."""
        row = struct.pack(f"<{self.size}q", *table)
        copy(place, row, len(row))
        self.agree(("all_to_all", name))
        found = []
        for rank, target in enumerate(targets):
            sizes = struct.unpack(f"<{self.size}q", ctypes.string_at(self.slot(rank) + offset, len(row)))
            if sizes[self.rank] != target.nbytes:
                self.fail(RuntimeError(
                    f"rank {rank} of the group sends {sizes[self.rank]} bytes to one that expects {target.nbytes}"))
            found += sizes
        return found

    def barrier(self):
        self.begin()
        self.agree(("barrier",))

    # --- messages -----------------------------------------------------------------------------------------------------
    def send(self, memory, peer, tag):
        self.mail.send(memory, peer, tag)

    def receive(self, memory, peer, tag):
        return self.mail.receive(memory, peer, tag)

    def stop_receiving(self):
        if self.broken is None:
            self.broken = DistBackendError("the process group has been destroyed")

    def close(self):
        self.arena.leave(self.rank, "left")

    def abort(self):
        if self.broken is None:
            self.broken = DistBackendError("the process group has been aborted")
        self.arena.leave(self.rank, "failed")


__all__ = ["ArenaEngine", "Region"]
