"""Collectives through memory that all ranks of a group map: threads of one process, or processes of one host.

Each rank has a counter of the step that it has reached (``kernels.meet``), and two slots that it alone writes.  In a
step, a rank writes its slot, meets the others, and reads their slots.  Steps alternate between the two slots, so one
barrier a step is enough: a rank that writes a slot again has met all others after they read it.
"""
from __future__ import annotations

import ctypes
import functools
import struct
import zlib

from .._src.core.platform import here
from .announcing import AGREED, DIFFERS, HEAD, LATE, MORE, Place, announcing
from .chains import Chain
from .direct import direct
from .engine import Deadline, Engine, Region
from .kernels import LINE, MOST, TimeSpec, combine, combiner_at, waiting
from .mailbox import Mailboxes
from .memory import Arena
from .stores import DistBackendError

NAP = 0.05  # seconds after which a waiting rank looks whether the others live
ALONE = 16384  # bytes up to which every rank reduces for itself
INLINE = 65536  # bytes for each rank up to which an all_to_all goes through slots
SPINS, FEW_SPINS, YIELDS = 4000, 40, 400
copy = ctypes.memmove


@functools.lru_cache(512)
def heading(what: tuple) -> bytes:
    """Return the header of an operation as bytes: a checksum of its description, then as much of it as fits."""
    text = repr(what).encode()
    shown = text[:HEAD - 6]
    return (struct.pack("<IH", zlib.crc32(text), len(shown)) + shown).ljust(HEAD, b"\0")


def refusal(who: str, theirs, ours) -> str:
    return f"the ranks of a group do not do the same: {who} is at {theirs}, this one at {ours}"


class ArenaEngine(Engine):
    """The engine over an ``Arena``."""

    def __init__(self, arena: Arena, rank: int, size: int, timeout: float):
        self.arena, self.rank, self.size, self.timeout = arena, rank, size, timeout
        self.publish, self.meeting, self.reached = waiting()
        self.step, self.broken, self.words = 0, None, arena.words
        self.nap = TimeSpec(0, int(NAP * 1e9))
        self.napping = ctypes.addressof(self.nap)
        self.spins = SPINS if arena.separate and size <= here.processors() else FEW_SPINS
        self.yields = YIELDS if arena.separate else 0
        self.room = arena.slot - HEAD
        self.announce, self.settle, self.swap, self.take = announcing()
        self.standing = Place(arena.words, arena.slots, arena.slot, rank, size, self.spins, self.yields, self.napping)
        self.place = ctypes.addressof(self.standing)
        self.mail = Mailboxes(self)
        self.direct = direct(self) if size > 1 else None

    # --- steps --------------------------------------------------------------------------------------------------------
    def slot(self, rank: int, step: int | None = None) -> int:
        """Return the address of the data in a rank's slot at a step (default: the current one)."""
        return self.arena.slots + (((self.step if step is None else step) & 1) * self.size
                                   + rank) * self.arena.slot + HEAD

    def begin(self):
        """The next step: the slots of this rank may be written."""
        if self.broken is not None:
            raise DistBackendError(str(self.broken))
        self.step += 1
        return self.slot(self.rank)

    def meet(self):
        """Wait until all ranks have come to this step.  RuntimeError once one of them cannot come any more, or after
        the timeout."""
        value = ctypes.c_int32(self.step).value
        if not self.meeting(self.words, self.rank, self.size, value, self.spins, self.yields, self.napping):
            self.wait()

    def wait(self):
        """Wait for ranks that are late for this step."""
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
                    f"Connection closed by peer: {self.called([rank])} "
                    f"{'has left it' if state == 'left' else 'has ended'}"))
        if limit.passed():
            self.fail(DistBackendError(
                f"Timed out waiting {int(limit.seconds * 1000)}ms for recv operation to complete: {self.called(ranks)} "
                f"{'has' if len(ranks) == 1 else 'have'} not come"))

    def at(self, rank: int) -> int:
        """Return the step of a rank, by its own count."""
        word = ctypes.c_uint32.from_address(self.words + rank * LINE).value
        return self.step + ctypes.c_int32((word - self.step) & 0xFFFFFFFF).value

    def fail(self, error):
        self.broken = error
        self.arena.leave(self.rank, "failed")
        raise error

    def open(self, what: tuple, address: int = 0, nbytes: int = 0, kernel: int | None = None, count: int = 0,
             scale: float = 1.0):
        """Run the first step: write bytes and meet; RuntimeError if another rank runs another operation.  A kernel
        reduces ``count`` elements of all ranks into the address."""
        if self.broken is not None:
            raise DistBackendError(str(self.broken))
        self.step += 1
        head = heading(what)
        found = self.announce(self.place, self.step, head, address, nbytes, kernel, count, scale)
        if found == LATE:
            self.wait()
            found = self.settle(self.place, self.step, head, address, kernel, count, scale)
        if found != AGREED:
            self.refuse(found - DIFFERS, head)

    def refuse(self, rank: int, head: bytes):
        at = self.slot(rank) - HEAD
        length, = struct.unpack("<H", ctypes.string_at(at + 4, 2))
        theirs = ctypes.string_at(at + 6, length).decode(errors="replace")
        raise RuntimeError(refusal(self.called([rank]), theirs, head[6:].rstrip(b"\0").decode()))

    def give(self, begun: int, what: tuple, part: Region):
        """A step to which this rank gives the bytes of a region; at the first of several, all agree."""
        if not begun:
            return self.open(what, part.address, part.nbytes)
        copy(self.begin(), part.address, part.nbytes)
        self.meet()

    # --- collectives --------------------------------------------------------------------------------------------------
    def all_reduce(self, memory, kind, scale):
        if self.size == 1:
            return
        if memory.nbytes > ALONE or self.size > MOST:
            return self.reduce_chain(Chain([memory]), kind, scale)
        self.open(("all_reduce", kind, memory.name, memory.nbytes), memory.address, memory.nbytes,
                  combiner_at(kind, memory.name, self.size), memory.nbytes // memory.itemsize, scale)

    def reduce_chain(self, chain, kind, scale):
        step = self.room // (chain.itemsize * self.size) * chain.itemsize * self.size
        what = ("all_reduce", kind, chain.name, chain.nbytes)
        reduce = self.reduce_together if self.size > 2 and chain.nbytes > ALONE else self.reduce_alone
        for begin in range(0, max(chain.nbytes, 1), step):
            reduce(chain, begin, min(step, chain.nbytes - begin), kind, scale, what)

    def reduce_alone(self, chain, begin, nbytes, kind, scale, what):
        """Copy a part of a chain into the slot, and reduce the parts of all ranks in this rank."""
        mine, pieces = self.begin(), chain.pieces(begin, nbytes)
        for piece in pieces:
            copy(mine + piece.offset, piece.source, piece.nbytes)
        self.first(begin, what)
        own = self.rank if self.size <= MOST else None  # one kernel reads all before it writes
        for piece in pieces:
            sources = [piece.source if rank == own else self.slot(rank) + piece.offset for rank in range(self.size)]
            combine(kind, chain.name, chain.itemsize, sources, piece.target, piece.nbytes // chain.itemsize, scale)

    def reduce_together(self, chain, begun, whole, kind, scale, what):
        """Copy the elements that other ranks reduce into the slot, and reduce this rank's share of all slots; in a
        second step, copy the reduced shares of the others."""
        begin, nbytes = self.share(whole, chain.itemsize, self.rank)
        mine, end = self.begin(), begin + nbytes
        for at, count in ((0, begin), (end, whole - end)):
            for piece in chain.pieces(begun + at, count):
                copy(mine + at + piece.offset, piece.source, piece.nbytes)
        self.first(begun, what)
        given, reduced = [self.slot(rank) + begin for rank in range(self.size)], self.begin() + begin
        for piece in chain.pieces(begun + begin, nbytes):
            sources = [piece.source if rank == self.rank else at + piece.offset for rank, at in enumerate(given)]
            combine(kind, chain.name, chain.itemsize, sources, reduced + piece.offset, piece.nbytes // chain.itemsize,
                    scale)
            copy(piece.target, reduced + piece.offset, piece.nbytes)
        self.meet()
        for rank in range(self.size):
            if rank != self.rank:
                begin, nbytes = self.share(whole, chain.itemsize, rank)
                for piece in chain.pieces(begun + begin, nbytes):
                    copy(piece.target, self.slot(rank) + begin + piece.offset, piece.nbytes)

    def share(self, nbytes: int, itemsize: int, rank: int):
        """Return (begin, bytes) of the share of ``nbytes`` bytes that a rank reduces."""
        count = nbytes // itemsize
        begin = count * rank // self.size
        return begin * itemsize, (count * (rank + 1) // self.size - begin) * itemsize

    def told(self, what: tuple, numbers: list) -> list:
        """Pass integers to all other ranks in one step; return those of all ranks."""
        row = struct.pack(f"<{len(numbers)}q", *numbers)
        buffer = ctypes.create_string_buffer(row, len(row))
        self.open(what, ctypes.addressof(buffer), len(row))
        return [struct.unpack(f"<{len(numbers)}q", ctypes.string_at(self.slot(rank), len(row)))
                for rank in range(self.size)]

    def broadcast(self, memory, root):
        what = ("broadcast", root, memory.name, memory.nbytes)
        for begin in range(0, max(memory.nbytes, 1), self.room):
            part = memory.part(begin, min(self.room, memory.nbytes - begin))
            self.give(begin, what, part if self.rank == root else memory.part(begin, 0))
            if self.rank != root:
                copy(part.address, self.slot(root), part.nbytes)

    def all_gather(self, targets, memory, what="all_gather", root=None):
        what = (what, memory.name, memory.nbytes, root)
        for begin in range(0, max(memory.nbytes, 1), self.room):
            part = memory.part(begin, min(self.room, memory.nbytes - begin))
            self.give(begin, what, part)
            if root is None or self.rank == root:
                for rank, target in enumerate(targets):
                    if target.address + begin != part.address:
                        copy(target.address + begin, part.address if rank == self.rank else self.slot(rank),
                             part.nbytes)

    def gather(self, targets, memory, root):
        self.all_gather(targets, memory, "gather", root)

    def pieces(self, nbytes: int, itemsize: int):
        """Return the bytes of a region for each rank that fit into a slot, and the offsets of the steps over it."""
        piece = self.room // self.size // max(itemsize, 8) * max(itemsize, 8)
        return piece, range(0, max(nbytes, 1), piece)

    def first(self, begun: int, what: tuple):
        """Meets; at the first of several steps, also agrees."""
        if begun:
            self.meet()
        else:
            self.step -= 1  # the slot of the step is filled already
            self.open(what)

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
        """Up to ``INLINE`` bytes for each rank go with the first step; the rest is read directly, or goes in steps."""
        if self.broken is not None:
            raise DistBackendError(str(self.broken))
        self.step += 1
        limit = min(INLINE, (self.room - 16 * self.size) // self.size // 64 * 64)
        table = struct.pack(f"<{4 * self.size}q", *[s.nbytes for s in sources], *[s.address for s in sources],
                            *[t.nbytes for t in targets], *[t.address for t in targets])
        head = heading(("all_to_all", sources[0].name))
        found = self.swap(self.place, self.step, head, table, limit)
        if found == LATE:
            self.wait()
            found = self.take(self.place, self.step, head, table, limit)
        if found == MORE:
            self.rest(targets, sources, limit)
        elif found >= DIFFERS + self.size:
            rank = found - DIFFERS - self.size
            self.fail(RuntimeError(
                f"{self.called([rank])} sends {self.tables()[rank][self.rank]} bytes to one that expects "
                f"{targets[rank].nbytes}"))
        elif found != AGREED:
            self.refuse(found - DIFFERS, head)

    def tables(self) -> list:
        """Return the sizes and addresses of the data that each rank sends to each, as published in this step."""
        return [struct.unpack(f"<{2 * self.size}q", ctypes.string_at(self.slot(rank), 16 * self.size))
                for rank in range(self.size)]

    def rest(self, targets, sources, limit: int):
        """Copy the bytes of an all_to_all beyond ``limit``."""
        tables = self.tables()
        others = [(self.rank + k) % self.size for k in range(1, self.size)]  # not all read from one at a time
        if self.direct is not None:
            for rank in others:
                if targets[rank].nbytes > limit:
                    self.direct.read(rank, targets[rank].address, tables[rank][self.size + self.rank],
                                     targets[rank].nbytes)
            self.begin()
            return self.meet()
        piece = self.room // self.size // 64 * 64
        for begin in range(0, max(max(sizes[:self.size]) for sizes in tables), piece):
            mine = self.begin()
            for rank in others:
                if sources[rank].nbytes > max(begin, limit):
                    copy(mine + rank * piece, sources[rank].address + begin, min(piece, sources[rank].nbytes - begin))
            self.meet()
            for rank in others:
                if targets[rank].nbytes > max(begin, limit):
                    copy(targets[rank].address + begin, self.slot(rank) + self.rank * piece,
                         min(piece, targets[rank].nbytes - begin))

    def barrier(self):
        self.open(("barrier",))

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
