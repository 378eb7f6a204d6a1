"""A store at an address: one process keeps the keys, and a thread of it answers the others."""
from __future__ import annotations

import selectors
import socket
import struct
import threading
import time

from .stores import DEFAULT_TIMEOUT, DistNetworkError, DistStoreError, Store, Table, milliseconds, unpacked

LENGTH = struct.Struct("<I")
PLAIN = {"set", "get", "wait", "check", "add", "append", "compare_set", "delete_key", "num_keys", "list_keys",
         "queue_push", "queue_pop", "queue_take", "queue_len"}


def encoded(parts) -> bytes:
    """Text, bytes, numbers, truth values and lists of text as a message: nothing else is ever read from a
    connection."""
    out = [struct.pack("<H", len(parts))]
    for part in parts:
        kind, data = ("s", part.encode()) if isinstance(part, str) else ("b", part) if isinstance(part, bytes) else \
            ("l", encoded(part)) if isinstance(part, (list, tuple)) else ("n", b"") if part is None else (
                "t", b"1" if part else b"") if isinstance(part, bool) else ("i", str(part).encode())
        out.append(struct.pack("<cI", kind.encode(), len(data)) + data)
    return b"".join(out)


def decoded(data: bytes) -> list:
    count, at, parts = struct.unpack_from("<H", data)[0], 2, []
    for _ in range(count):
        kind, length = struct.unpack_from("<cI", data, at)
        piece = data[at + 5:at + 5 + length]
        at += 5 + length
        parts.append({b"s": bytes.decode, b"b": bytes, b"l": decoded, b"n": lambda _: None, b"t": bool,
                      b"i": int}[kind](piece))
    return parts


def framed(parts) -> bytes:
    data = encoded(parts)
    return LENGTH.pack(len(data)) + data


def taken(file: socket.socket, count: int) -> bytes:
    """``count`` bytes of a connection.  ConnectionError where it ends before."""
    data = bytearray()
    while len(data) < count:
        piece = file.recv(count - len(data))
        if not piece:
            raise ConnectionError("the connection was closed")
        data += piece
    return bytes(data)


class Client:
    """One connection of a server: what it has sent so far, and the question that waits for an answer."""

    def __init__(self, file):
        self.file, self.buffer, self.question, self.until = file, bytearray(), None, 0.0

    def questions(self):
        """The whole messages in what has arrived."""
        while len(self.buffer) >= 4:
            length = LENGTH.unpack_from(self.buffer)[0]
            if len(self.buffer) < 4 + length:
                return
            yield decoded(bytes(self.buffer[4:4 + length]))
            del self.buffer[:4 + length]


class Server:
    """Keeps the keys and answers questions, in a thread of its own."""

    def __init__(self, host: str, port: int, listener: socket.socket | None = None):
        self.table, self.clients = Table(), {}
        self.listener = listener or listening(host, port)
        self.listener.listen(1024)  # one that is given may only have an address
        self.port = self.listener.getsockname()[1]
        self.wake, self.waker = socket.socketpair()
        self.selector = selectors.DefaultSelector()
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(self.wake, selectors.EVENT_READ)
        self.users = 1
        self.thread = threading.Thread(target=self.serve, name="TCPStore", daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            waits = [c.until for c in self.clients.values() if c.question]
            events = self.selector.select(max(min(waits) - time.monotonic(), 0) if waits else None)
            for key, _ in events:
                if key.fileobj is self.wake:
                    return self.end()
                if key.fileobj is self.listener:
                    self.accept()
                else:
                    self.read(key.fileobj)
            self.answer_waiting()

    def accept(self):
        file, _ = self.listener.accept()
        file.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.clients[file] = Client(file)
        self.selector.register(file, selectors.EVENT_READ)

    def drop(self, file):
        self.selector.unregister(file)
        self.clients.pop(file, None)
        file.close()

    def read(self, file):
        try:
            data = file.recv(1 << 16)
            if not data:
                return self.drop(file)
            client = self.clients[file]
            client.buffer += data
            for kind, limit, *given in client.questions():
                if kind not in PLAIN:
                    return self.drop(file)
                answer = getattr(self.table, kind)(*given)
                if answer is None:
                    client.question, client.until = (kind, given), time.monotonic() + limit / 1000
                else:
                    file.sendall(framed(["ok", unpacked(answer)]))
        except (OSError, struct.error, KeyError, ValueError, TypeError):
            self.drop(file)  # it ended, or is no client of ours

    def answer_waiting(self):
        """Answers what waited for a key that is there now, or has waited too long."""
        now = time.monotonic()
        for client in list(self.clients.values()):
            if client.question is None:
                continue
            kind, given = client.question
            answer = getattr(self.table, kind)(*given)
            if answer is not None or now >= client.until:
                client.question = None
                try:
                    client.file.sendall(framed(["late"] if answer is None else ["ok", unpacked(answer)]))
                except OSError:
                    self.drop(client.file)

    def end(self):
        for file in list(self.clients):
            self.drop(file)
        for file in (self.listener, self.wake, self.waker):
            file.close()
        self.selector.close()

    def close(self):
        if self.thread.is_alive():
            self.waker.send(b"x")
            self.thread.join()


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens on all addresses.  DistNetworkError where the port is taken."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    try:
        return socket.create_server(("", port), family=family, dualstack_ipv6=family == socket.AF_INET6, backlog=1024,
                                    reuse_port=False)
    except OSError as error:
        raise DistNetworkError(
            f"The server socket has failed to listen on any local network address. port: {port}, useIpv6: false, "
            f"code: {error.errno}, message: {error.strerror}") from None


SERVERS: dict = {}  # port -> the server of stores that several groups of this process share


class TCPStore(Store):
    """A store at ``host_name:port``, kept by the process that is ``is_master`` (port 0: a free one, then in ``port``).

    The process that keeps the keys waits for ``world_size`` processes unless ``wait_for_workers`` is False.
    ``use_libuv`` changes nothing but ``libuvBackend``: there is one server.  DistNetworkError where the address cannot
    be reached within the timeout, ValueError for a world of none.

    >>> from rushlight.distributed import TCPStore
    >>> store = TCPStore("127.0.0.1", 0, 1, is_master=True)
    >>> store.set("key", "value"), store.get("key"), store.add("n", 2)
    (None, b'value', 2)
    >>> store.close()
    """

    def __init__(self, host_name: str, port: int = 0, world_size: int | None = None, is_master: bool = False,
                 timeout=DEFAULT_TIMEOUT, wait_for_workers: bool = True,
                 multi_tenant: bool = False, master_listen_fd: int | None = None, use_libuv: bool = True):
        super().__init__()
        if world_size == 0:
            raise ValueError("TCPStore world size cannot be 0")
        self.host, self.timeout, self.server, self.lock, self.file = host_name, timeout, None, threading.Lock(), None
        self.libuvBackend = bool(use_libuv)
        if is_master:
            self.server = SERVERS.get(port) if multi_tenant and port else None
            if self.server is None:
                listener = None if master_listen_fd is None else socket.socket(fileno=master_listen_fd)
                self.server = Server(host_name, port, listener)
                SERVERS[self.server.port] = self.server
            else:
                self.server.users += 1
        self.port = self.server.port if self.server else port
        self.file = self.connected()
        if world_size and world_size > 0 and wait_for_workers:
            self.join(world_size, is_master)

    def connected(self) -> socket.socket:
        """A connection to the server, which may not be there yet."""
        end, pause = time.monotonic() + self.timeout.total_seconds(), 0.01
        while True:
            try:
                file = socket.create_connection((self.host, self.port), max(end - time.monotonic(), 0.01))
                file.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return file
            except OSError as error:
                if time.monotonic() + pause > end:
                    raise DistNetworkError(
                        f"The client socket has timed out after {milliseconds(self.timeout)}ms while trying to "
                        f"connect to ({self.host}, {self.port}): {error}") from None
            time.sleep(pause)
            pause = min(pause * 2, 0.5)

    def join(self, world_size: int, is_master: bool):
        """Notes that this process is connected; the one that keeps the keys waits for all."""
        joined = self.add("init/", 1)
        wanted, pause = -(-joined // world_size) * world_size, 0.001
        end = time.monotonic() + self.timeout.total_seconds()
        while is_master and (count := self.add("init/", 0)) < wanted:
            if time.monotonic() > end:
                raise DistStoreError(
                    f"Timed out after {int(self.timeout.total_seconds()) + 1} seconds waiting for clients. "
                    f"{count}/{world_size} clients joined.")
            time.sleep(pause)
            pause = min(pause * 2, 0.05)

    def ask(self, kind, *given, timeout=None):
        limit = timeout or self.timeout
        with self.lock:
            if self.file is None:
                raise DistNetworkError(f"the store at {self.host}:{self.port} has been closed")
            try:
                self.file.settimeout(limit.total_seconds() + 5)
                self.file.sendall(framed([kind, milliseconds(limit), *given]))
                answer = decoded(taken(self.file, LENGTH.unpack(taken(self.file, 4))[0]))
            except OSError as error:
                self.file.close()
                self.file = None
                raise DistNetworkError(
                    f"failed to recv, the store at {self.host}:{self.port} has gone away ({error})") from None
        if answer[0] == "late":
            self.late(kind, given, timeout)
        return answer[1]

    def clone(self):
        """Another connection to the same store."""
        return TCPStore(self.host, self.port, timeout=self.timeout, wait_for_workers=False)

    def close(self):
        """Ends the connection, and the server where this is the last store that uses it."""
        with self.lock:
            if self.file is not None:
                self.file.close()
                self.file = None
        server, self.server = self.server, None
        if server is not None:
            server.users -= 1
            if not server.users:
                SERVERS.pop(server.port, None)
                server.close()

    def __del__(self):
        if getattr(self, "file", None) is not None or getattr(self, "server", None) is not None:
            self.close()

    def __repr__(self):
        return f"TCPStore(host={self.host}, port={self.port}{', server' if self.server else ''})"
