"""Messages between two ranks, through a ring of bytes that both see.  A message is a tag, a length, and its bytes."""
from __future__ import annotations

import ctypes
import struct
import threading
import time

from .engine import Deadline, Region
from .kernels import LINE
from .stores import DistBackendError

HEADER = struct.Struct("<qq")
FULL = 1 << 32


class Channel:
    """One direction of a pair of ranks: bytes go in by ``put`` and come out by ``take``, which block; ``available`` is
    true if there are some."""

    def __init__(self, engine, peer: int):
        self.engine, self.peer, self.lock, self.kept = engine, peer, threading.Lock(), []

    def put(self, address: int, nbytes: int):
        raise NotImplementedError

    def take(self, address: int, nbytes: int):
        raise NotImplementedError

    def available(self) -> int:
        raise NotImplementedError

    def send(self, memory: Region, tag: int):
        with self.lock:
            self.put_bytes(HEADER.pack(tag, memory.nbytes))
            self.put(memory.address, memory.nbytes)

    def put_bytes(self, data: bytes):
        buffer = ctypes.create_string_buffer(data, len(data))
        self.put(ctypes.addressof(buffer), len(data))

    def take_bytes(self, count: int) -> bytes:
        buffer = ctypes.create_string_buffer(count)
        self.take(ctypes.addressof(buffer), count)
        return buffer.raw

    def fits(self, memory: Region, nbytes: int):
        """Raise RuntimeError for a message whose length differs from that of its destination."""
        if nbytes != memory.nbytes:
            raise RuntimeError(
                f"a message of {nbytes} bytes from {self.engine.called([self.peer])} does not fit a tensor of "
                f"{memory.nbytes} bytes")

    def from_kept(self, memory: Region, tag: int) -> bool:
        """Fill the region with a message that came before it was requested; False if there is none."""
        for k, (kept, data) in enumerate(self.kept):
            if kept == tag:
                del self.kept[k]
                self.fits(memory, len(data))
                ctypes.memmove(memory.address, data, len(data))
                return True
        return False

    def next(self, memory: Region, tag: int) -> bool:
        """Read one message: into the region if it has the tag (returns True), else it is kept."""
        found, nbytes = HEADER.unpack(self.take_bytes(HEADER.size))
        if found == tag and nbytes == memory.nbytes:
            self.take(memory.address, nbytes)
            return True
        data = self.take_bytes(nbytes)
        if found == tag:
            self.fits(memory, nbytes)
        self.kept.append((found, data))
        return False

    def receive(self, memory: Region, tag: int):
        with self.lock:
            if self.from_kept(memory, tag):
                return
            while not self.next(memory, tag):
                pass


class Ring(Channel):
    """One direction of a pair.  ``written`` and ``read`` count bytes, and wrap around at the word size."""

    def __init__(self, engine, source: int, target: int):
        super().__init__(engine, target if source == engine.rank else source)
        self.written = engine.arena.ring_of(source, target)
        self.read, self.data, self.room = self.written + LINE, self.written + 2 * LINE, engine.arena.ring

    def count(self, word: int) -> int:
        return ctypes.c_uint32.from_address(word).value

    def available(self) -> int:
        """Bytes that were written and not read."""
        return (self.count(self.written) - self.count(self.read)) % FULL

    def wait(self, word: int, value: int):
        """Wait until a count has reached ``value``."""
        engine, limit = self.engine, None
        value = ctypes.c_int32(value % FULL).value
        while not engine.reached(word, value, engine.spins, engine.yields, engine.napping):
            limit = limit or Deadline(engine.timeout)
            if engine.broken is not None:
                raise DistBackendError(str(engine.broken))
            state = engine.arena.state_of(self.peer)
            if state != "here" and not engine.reached(word, value, 0, 0, engine.napping):
                raise DistBackendError(
                    f"Connection closed by peer: {engine.called([self.peer])} "
                    f"{'has left it' if state == 'left' else 'has ended'}")
            if limit.passed():
                raise DistBackendError(
                    f"Timed out waiting {int(limit.seconds * 1000)}ms for {'send' if word == self.read else 'recv'} "
                    f"operation to complete: {engine.called([self.peer])} has not come")

    def put(self, address: int, nbytes: int):
        """Writes bytes, as the reader makes room for them."""
        while nbytes:
            written = self.count(self.written)
            free = self.room - (written - self.count(self.read)) % FULL
            if not free:
                self.wait(self.read, written - self.room + min(nbytes, self.room // 4))
                continue
            at = written % self.room
            piece = min(nbytes, free, self.room - at)
            ctypes.memmove(self.data + at, address, piece)
            self.engine.publish(self.written, ctypes.c_int32((written + piece) % FULL).value)
            address, nbytes = address + piece, nbytes - piece

    def take(self, address: int, nbytes: int):
        """Reads bytes, as they come."""
        while nbytes:
            read = self.count(self.read)
            there = (self.count(self.written) - read) % FULL
            if not there:
                self.wait(self.written, read + 1)
                continue
            at = read % self.room
            piece = min(nbytes, there, self.room - at)
            ctypes.memmove(address, self.data + at, piece)
            self.engine.publish(self.read, ctypes.c_int32((read + piece) % FULL).value)
            address, nbytes = address + piece, nbytes - piece


class Mailboxes:
    """The channels of one rank, made when they are first used."""

    def __init__(self, engine):
        self.engine, self.channels, self.guard = engine, {}, threading.Lock()

    def channel(self, source: int, target: int) -> Channel:
        with self.guard:
            found = self.channels.get((source, target))
            if found is None:
                found = self.channels[source, target] = self.made(source, target)
            return found

    def made(self, source: int, target: int) -> Channel:
        return Ring(self.engine, source, target)

    def all_gone(self, others) -> bool:
        """True if no other rank can send any more."""
        return all(self.engine.arena.state_of(peer) != "here" for peer in others)

    def send(self, memory: Region, peer: int, tag: int):
        self.channel(self.engine.rank, peer).send(memory, tag)

    def receive(self, memory: Region, peer: int | None, tag: int) -> int:
        if peer is not None:
            self.channel(peer, self.engine.rank).receive(memory, tag)
            return peer
        return self.receive_any(memory, tag)

    def receive_any(self, memory: Region, tag: int) -> int:
        """The next message of anyone: looks at all channels in turn."""
        limit, pause = Deadline(self.engine.timeout), 1e-5
        others = [rank for rank in range(self.engine.size) if rank != self.engine.rank]
        while True:
            for peer in others:
                ring = self.channel(peer, self.engine.rank)
                if ring.lock.acquire(blocking=False):
                    try:
                        if ring.from_kept(memory, tag) or ring.available() and ring.next(memory, tag):
                            return peer
                    finally:
                        ring.lock.release()
            if self.engine.broken is not None:
                raise DistBackendError(str(self.engine.broken))
            if limit.passed():
                raise DistBackendError(
                    f"Timed out waiting {int(limit.seconds * 1000)}ms for recv operation to complete: no rank of the "
                    "group has sent")
            if self.all_gone(others):
                raise DistBackendError("Connection closed by peer: all other ranks of the group have left it or ended")
            time.sleep(pause)
            pause = min(pause * 2, 1e-3)
