"""Collectives between hosts: two connections for each pair of ranks (one for collectives, one for messages)."""
from __future__ import annotations

import ctypes
import os
import secrets
import selectors
import socket
import struct
import time

from .._src.core.settings import settings
from .arena import heading, refusal
from .engine import Deadline, Engine
from .kernels import combine
from .mailbox import Channel, Mailboxes
from .stores import DistBackendError

HELLO = struct.Struct("<16siB")
HEAD = 64
ALONE = 16384  # bytes up to which every rank reduces for itself
NAP = 0.05


def own_address(store) -> str:
    """Return the address by which other hosts reach this one: RUSHLIGHT_ADDRESS if set, else the local address of the
    route to the store's host."""
    if settings.own_address:
        return settings.own_address
    target = os.environ.get("MASTER_ADDR", "127.0.0.1")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((socket.gethostbyname(target), 9))
            return probe.getsockname()[0]
    except OSError:
        return "127.0.0.1"


def memory_of(region) -> memoryview:
    return memoryview((ctypes.c_char * region.nbytes)
                      .from_address(region.address)).cast("B") if region.nbytes else memoryview(b"")


class SocketEngine(Engine):
    """The engine "gloo" where ranks do not all see the same memory."""

    def __init__(self, store, rank: int, size: int, timeout: float):
        self.rank, self.size, self.timeout, self.broken, self.closing = rank, size, timeout, None, False
        self.lines, self.letters = self.connected(store)
        self.mail = SocketMail(self)

    # --- connections --------------------------------------------------------------------------------------------------
    def connected(self, store):
        """({rank: connection} for collectives, the same for messages)."""
        found = {0: {}, 1: {}}
        if self.size == 1:
            return found[0], found[1]
        if self.rank == 0:
            store.set("secret", secrets.token_bytes(16))
        secret = store.get("secret")
        limit = Deadline(self.timeout)
        with socket.create_server(("", 0), backlog=2 * self.size) as listener:
            store.set(f"address {self.rank}", f"{own_address(store)} {listener.getsockname()[1]}")
            for peer in range(self.rank):
                host, port = store.get(f"address {peer}").decode().split()
                for use in (0, 1):
                    line = socket.create_connection((host, int(port)), self.timeout)
                    line.sendall(HELLO.pack(secret, self.rank, use))
                    found[use][peer] = line
            while len(found[0]) + len(found[1]) < 2 * (self.size - 1):
                self.accept(listener, secret, found, limit)
        for lines in found.values():
            for line in lines.values():
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                line.setblocking(False)
        return found[0], found[1]

    def accept(self, listener, secret, found, limit):
        listener.settimeout(max(limit.end - time.monotonic(), 0.01))
        try:
            line, _ = listener.accept()
        except TimeoutError:
            raise DistBackendError(
                f"Timed out waiting {int(limit.seconds * 1000)}ms for connections of other ranks") from None
        line.settimeout(5)
        try:
            hello = line.recv(HELLO.size, socket.MSG_WAITALL)
        except OSError:  # an unknown client that sends nothing, or has gone
            hello = b""
        if len(hello) < HELLO.size or not secrets.compare_digest(hello[:16], secret):
            line.close()  # no rank of this group
            return
        _, peer, use = HELLO.unpack(hello)
        found[use][peer] = line

    def fail(self, error):
        self.broken = error
        self.shut()
        raise error

    def shut(self):
        for line in (*self.lines.values(), *self.letters.values()):
            line.close()

    # --- one collective -----------------------------------------------------------------------------------------------
    def swap(self, sends: dict, receives: dict):
        """Send memory to some ranks while receiving from some.  DistBackendError if one of them ends, or after the
        timeout."""
        if self.broken is not None:
            raise DistBackendError(str(self.broken))
        out, into = {p: m for p, m in sends.items() if len(m)}, {p: m for p, m in receives.items() if len(m)}
        limit = Deadline(self.timeout)
        with selectors.DefaultSelector() as selector:
            for peer in out.keys() | into.keys():
                selector.register(self.lines[peer], self.events(peer, out, into), peer)
            while out or into:
                ready = selector.select(NAP)
                if not ready and limit.passed():
                    late = sorted(into or out)
                    self.fail(DistBackendError(
                        f"Timed out waiting {int(limit.seconds * 1000)}ms for {'recv' if into else 'send'} operation "
                        f"to complete: {self.called(late[:1])} has not come"))
                for key, events in ready:
                    self.progress(selector, key, events, out, into)

    def events(self, peer, out, into) -> int:
        return (selectors.EVENT_WRITE if peer in out else 0) | (selectors.EVENT_READ if peer in into else 0)

    def progress(self, selector, key, events, out, into):
        peer = key.data
        try:
            if events & selectors.EVENT_WRITE and peer in out:
                out[peer] = out[peer][key.fileobj.send(out[peer]):]
            if events & selectors.EVENT_READ and peer in into:
                count = key.fileobj.recv_into(into[peer])
                if not count:
                    raise ConnectionError("closed")
                into[peer] = into[peer][count:]
        except BlockingIOError:
            return
        except OSError:
            self.fail(DistBackendError(f"Connection closed by peer: {self.called([peer])} has left it or ended"))
        for waiting in (out, into):
            if peer in waiting and not len(waiting[peer]):
                del waiting[peer]
        wanted = self.events(peer, out, into)
        if not wanted:
            selector.unregister(key.fileobj)
        elif wanted != key.events:
            selector.modify(key.fileobj, wanted, peer)

    def agree(self, what: tuple, sizes=None):
        """Tell all ranks which operation this one runs (``sizes``: and how many bytes each gets); return the bytes that
        each sends here.  RuntimeError if one of them runs another operation."""
        mine = heading(what).ljust(HEAD, b"\0")
        others = [peer for peer in range(self.size) if peer != self.rank]
        heads = {peer: bytearray(HEAD + 8) for peer in others}
        self.swap({peer: memoryview(mine + struct.pack("<q", sizes[peer] if sizes else 0)) for peer in others},
                  {peer: memoryview(head) for peer, head in heads.items()})
        for peer, head in heads.items():
            if head[:4] != mine[:4]:
                length, = struct.unpack_from("<H", head, 4)
                raise RuntimeError(refusal(self.called([peer]), bytes(head[6:6 + length]).decode(errors="replace"),
                                           mine[6:].rstrip(b"\0").decode()))
        return {peer: struct.unpack_from("<q", head, HEAD)[0] for peer, head in heads.items()}

    # --- collectives --------------------------------------------------------------------------------------------------
    def everyone(self):
        return [peer for peer in range(self.size) if peer != self.rank]

    def all_reduce(self, memory, kind, scale):
        if self.size == 1:
            return
        self.agree(("all_reduce", kind, memory.name, memory.nbytes))
        if memory.nbytes <= ALONE:
            return self.reduce_alone(memory, kind, scale)
        count = memory.nbytes // memory.itemsize
        ends = [count * k // self.size * memory.itemsize for k in range(self.size + 1)]
        shares = [memory.part(begin, end - begin) for begin, end in zip(ends, ends[1:])]
        self.gather_and_combine(shares[self.rank], shares, kind, scale)
        mine = memory_of(shares[self.rank])
        self.swap(dict.fromkeys(self.everyone(), mine), {peer: memory_of(shares[peer]) for peer in self.everyone()})

    def reduce_alone(self, memory, kind, scale):
        copies = {peer: ctypes.create_string_buffer(max(memory.nbytes, 1)) for peer in self.everyone()}
        self.swap(dict.fromkeys(copies, memory_of(memory)),
                  {peer: memoryview(c).cast("B")[:memory.nbytes] for peer, c in copies.items()})
        sources = [memory.address if peer == self.rank else ctypes.addressof(copies[peer]) for peer in range(self.size)]
        combine(kind, memory.name, memory.itemsize, sources, memory.address, memory.nbytes // memory.itemsize, scale)

    def gather_and_combine(self, target, shares, kind, scale):
        """The reduction of all ranks' shares for this one."""
        mine = shares[self.rank]
        copies = {peer: ctypes.create_string_buffer(max(mine.nbytes, 1)) for peer in self.everyone()}
        self.swap({peer: memory_of(shares[peer]) for peer in copies},
                  {peer: memoryview(c).cast("B")[:mine.nbytes] for peer, c in copies.items()})
        sources = [mine.address if peer == self.rank else ctypes.addressof(copies[peer]) for peer in range(self.size)]
        combine(kind, target.name, target.itemsize, sources, target.address, target.nbytes // target.itemsize, scale)

    def broadcast(self, memory, root):
        self.agree(("broadcast", root, memory.name, memory.nbytes))
        if self.rank == root:
            self.swap(dict.fromkeys(self.everyone(), memory_of(memory)), {})
        else:
            self.swap({}, {root: memory_of(memory)})

    def all_gather(self, targets, memory):
        self.agree(("all_gather", memory.name, memory.nbytes))
        self.swap(dict.fromkeys(self.everyone(), memory_of(memory)),
                  {peer: memory_of(targets[peer]) for peer in self.everyone()})
        ctypes.memmove(targets[self.rank].address, memory.address, memory.nbytes)

    def gather(self, targets, memory, root):
        self.agree(("gather", memory.name, memory.nbytes, root))
        if self.rank == root:
            self.swap({}, {peer: memory_of(targets[peer]) for peer in self.everyone()})
            ctypes.memmove(targets[root].address, memory.address, memory.nbytes)
        else:
            self.swap({root: memory_of(memory)}, {})

    def scatter(self, target, sources, root):
        self.agree(("scatter", root, target.name, target.nbytes))
        if self.rank == root:
            self.swap({peer: memory_of(sources[peer]) for peer in self.everyone()}, {})
            ctypes.memmove(target.address, sources[root].address, target.nbytes)
        else:
            self.swap({}, {root: memory_of(target)})

    def reduce_scatter(self, target, sources, kind, scale):
        self.agree(("reduce_scatter", kind, target.name, target.nbytes))
        self.gather_and_combine(target, sources, kind, scale)

    def all_to_all(self, targets, sources):
        told = self.agree(("all_to_all", sources[0].name), [source.nbytes for source in sources])
        for peer, nbytes in told.items():
            if nbytes != targets[peer].nbytes:
                self.fail(RuntimeError(
                    f"{self.called([peer])} sends {nbytes} bytes to one that expects {targets[peer].nbytes}"))
        self.swap({peer: memory_of(sources[peer]) for peer in self.everyone()},
                  {peer: memory_of(targets[peer]) for peer in self.everyone()})
        ctypes.memmove(targets[self.rank].address, sources[self.rank].address, sources[self.rank].nbytes)

    def barrier(self):
        self.agree(("barrier",))

    # --- messages -----------------------------------------------------------------------------------------------------
    def send(self, memory, peer, tag):
        self.mail.send(memory, peer, tag)

    def receive(self, memory, peer, tag):
        return self.mail.receive(memory, peer, tag)

    def gone(self, peer) -> bool:
        """True if a rank's connection for messages is closed and empty."""
        try:
            return not self.letters[peer].recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def stop_receiving(self):
        if self.broken is None:
            self.broken = DistBackendError("the process group has been destroyed")

    def close(self):
        self.shut()

    def abort(self):
        if self.broken is None:
            self.broken = DistBackendError("the process group has been aborted")
        self.shut()


class Wire(Channel):
    """One direction of a connection for messages."""

    def __init__(self, engine, peer: int):
        super().__init__(engine, peer)
        self.line = engine.letters[peer]

    def wait(self, event, what: str, limit):
        with selectors.DefaultSelector() as selector:
            selector.register(self.line, event)
            while not selector.select(0.05):
                if self.engine.broken is not None:
                    raise DistBackendError(str(self.engine.broken))
                if limit.passed():
                    raise DistBackendError(
                        f"Timed out waiting {int(limit.seconds * 1000)}ms for {what} operation to complete: "
                        f"{self.engine.called([self.peer])} has not come")

    def closed(self):
        return DistBackendError(f"Connection closed by peer: {self.engine.called([self.peer])} has left it or ended")

    def put(self, address, nbytes):
        left, limit = memoryview((ctypes.c_char * nbytes)
                                 .from_address(address)).cast("B") if nbytes else b"", Deadline(self.engine.timeout)
        while len(left):
            try:
                left = left[self.line.send(left):]
            except BlockingIOError:
                self.wait(selectors.EVENT_WRITE, "send", limit)
            except OSError:
                raise self.closed() from None

    def take(self, address, nbytes):
        left, limit = memoryview((ctypes.c_char * nbytes)
                                 .from_address(address)).cast("B") if nbytes else b"", Deadline(self.engine.timeout)
        while len(left):
            try:
                count = self.line.recv_into(left)
                if not count:
                    raise self.closed()
                left = left[count:]
            except BlockingIOError:
                self.wait(selectors.EVENT_READ, "recv", limit)
            except ConnectionError:
                raise self.closed() from None

    def available(self):
        try:
            return len(self.line.recv(1, socket.MSG_PEEK))
        except OSError:
            return 0


class SocketMail(Mailboxes):
    """The connections for messages of one rank."""

    def made(self, source, target):
        return Wire(self.engine, target if source == self.engine.rank else source)

    def all_gone(self, others) -> bool:
        return all(self.engine.gone(peer) for peer in others)
