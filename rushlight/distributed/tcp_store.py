"""A store at an address: one process keeps the keys, and a thread of it answers the others."""
from __future__ import annotations

import selectors
import socket
import threading
import time

from .store_messages import COUNT, LIMIT, check_question, decode, decode_question, frame, frame_length
from .stores import DEFAULT_TIMEOUT, DistNetworkError, DistStoreError, Store, Table, milliseconds, unpacked

LONGEST = 3600.0  # seconds of one select: systems limit the time, and the wait continues afterwards
RETRY = 0.01  # seconds before connections are accepted again when the process has no descriptor for one


def taken(file: socket.socket, count: int) -> bytes:
    """Return ``count`` bytes of a connection.  ConnectionError if it ends before."""
    data = bytearray()
    while len(data) < count:
        piece = file.recv(count - len(data))
        if not piece:
            raise ConnectionError("the connection was closed")
        data += piece
    return bytes(data)


class Client:
    """One connection of a server: the bytes received (``buffer``), the request that waits for an answer until
    ``until``, and the bytes still to send (``answer``).

    It has one request at a time, and nothing is read while it has to take an answer, so the memory for a client is
    about the largest message each way.
    """

    def __init__(self, file):
        self.file, self.buffer, self.answer, self.question, self.until = file, bytearray(), memoryview(b""), None, 0.0

    def next_question(self):
        """The next complete message (``decode_question``), or None."""
        if len(self.buffer) < COUNT.size:
            return None
        end = COUNT.size + frame_length(self.buffer)
        if len(self.buffer) < end:
            return None
        data = bytes(self.buffer[COUNT.size:end])
        del self.buffer[:end]
        return decode_question(data)

    def events(self) -> int:
        """Return the selector event that the connection waits for."""
        return selectors.EVENT_WRITE if self.answer else selectors.EVENT_READ

    def receive(self):
        """Read the bytes that have arrived.  ConnectionError if the connection has ended, ValueError for more than a
        client sends before it has its answer."""
        data = self.file.recv(1 << 16)
        if not data:
            raise ConnectionError("the connection was closed")
        self.buffer += data
        if len(self.buffer) > LIMIT + len(data):
            raise ValueError("more than a message arrived while the answer to another is awaited")

    def send(self):
        """Send as much of the answer as the connection takes without waiting."""
        try:
            while self.answer:
                self.answer = self.answer[self.file.send(self.answer):]
        except BlockingIOError:
            return


class Server:
    """Keeps the keys and answers requests, in a thread of its own.  Any client may connect: one that sends an invalid
    request, or ends, loses its connection, and none waits for another's."""

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
            events = self.selector.select(
                min(max(min(waits) - time.monotonic(), 0), LONGEST) if waits else None)
            for key, ready in events:
                if key.fileobj is self.wake:
                    return self.end()
                if key.fileobj is self.listener:
                    self.accept()
                else:
                    self.attend(self.clients[key.fileobj], ready)
            self.answer_waiting()

    def accept(self):
        try:
            file, _ = self.listener.accept()
        except BlockingIOError:
            return  # it has ended meanwhile
        except OSError:
            return time.sleep(RETRY)  # it is still there: without a pause this thread would retry at once
        file.setblocking(False)
        try:
            file.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            return file.close()  # it has ended meanwhile
        self.clients[file] = Client(file)
        self.selector.register(file, selectors.EVENT_READ)

    def drop(self, client):
        self.selector.unregister(client.file)
        del self.clients[client.file]
        client.file.close()

    def attend(self, client, ready: int):
        """Read from a connection, or write to it, and answer the requests that are then complete."""
        try:
            if ready & selectors.EVENT_READ:
                client.receive()
            if ready & selectors.EVENT_WRITE:
                client.send()
            self.answer(client)
        except (OSError, ValueError, TypeError, MemoryError):
            self.drop(client)  # it ended, or does not speak this protocol

    def answer(self, client):
        """Answer a client's requests as far as they have arrived, can be answered, and it takes the answers."""
        while not client.answer:
            if client.question is None:
                if (question := client.next_question()) is None:
                    break
                kind, seconds, given = question
                client.question, client.until = (kind, given), time.monotonic() + seconds
            kind, given = client.question
            found = getattr(self.table, kind)(*given)
            if found is None and time.monotonic() < client.until:
                break
            client.question = None
            client.answer = memoryview(frame(["late"] if found is None else ["ok", unpacked(found)]))
            client.send()
        self.watch(client)

    def watch(self, client):
        """Select the events that a connection waits for."""
        if self.selector.get_key(client.file).events != client.events():
            self.selector.modify(client.file, client.events())

    def answer_waiting(self):
        """Answer requests whose key has come, or whose time is over."""
        for client in list(self.clients.values()):
            if client.question is not None:
                self.attend(client, 0)

    def end(self):
        for client in list(self.clients.values()):
            self.drop(client)
        for file in (self.listener, self.wake, self.waker):
            file.close()
        self.selector.close()

    def close(self):
        if self.thread.is_alive():
            self.waker.send(b"x")
            self.thread.join()


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens on all addresses.  DistNetworkError if the port is taken."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    try:
        return socket.create_server(("", port), family=family, dualstack_ipv6=family == socket.AF_INET6, backlog=1024,
                                    reuse_port=False)
    except OSError as error:
        raise DistNetworkError(
            f"The server socket has failed to listen on any local network address. port: {port}, useIpv6: false, "
            f"code: {error.errno}, message: {error.strerror}") from None


class TCPStore(Store):
    """A store at ``host_name:port``, kept by the process that is ``is_master`` (port 0: a free one, then in ``port``).

    The process that keeps the keys waits for ``world_size`` processes unless ``wait_for_workers`` is False.
    ``use_libuv`` changes nothing but ``libuvBackend``: there is one server.  DistNetworkError if the address cannot be
    reached within the timeout, ValueError for a world size of 0.

    >>> from rushlight.distributed import TCPStore
    >>> store = TCPStore("127.0.0.1", 0, 1, is_master=True)
    >>> store.set("key", "value"), store.get("key"), store.add("n", 2)
    (None, b'value', 2)
    >>> store.close()
    """

    # port -> the server of stores that several groups of this process share; found when modules are gone, too
    servers: dict = {}

    def __init__(self, host_name: str, port: int = 0, world_size: int | None = None, is_master: bool = False,
                 timeout=DEFAULT_TIMEOUT, wait_for_workers: bool = True,
                 multi_tenant: bool = False, master_listen_fd: int | None = None, use_libuv: bool = True):
        super().__init__()
        if world_size == 0:
            raise ValueError("TCPStore world size cannot be 0")
        self.host, self.timeout, self.server, self.lock, self.file = host_name, timeout, None, threading.Lock(), None
        self.libuvBackend = bool(use_libuv)
        if is_master:
            self.server = self.servers.get(port) if multi_tenant and port else None
            if self.server is None:
                listener = None if master_listen_fd is None else socket.socket(fileno=master_listen_fd)
                self.server = Server(host_name, port, listener)
                self.servers[self.server.port] = self.server
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
        check_question(kind, given)
        question = frame([kind, milliseconds(limit), *given])
        with self.lock:
            if self.file is None:
                raise DistNetworkError(f"the store at {self.host}:{self.port} has been closed")
            try:
                self.file.settimeout(limit.total_seconds() + 5)
                self.file.sendall(question)
                state, *found = decode(taken(self.file, frame_length(taken(self.file, COUNT.size))))
                if (state, len(found)) not in (("ok", 1), ("late", 0)):
                    raise ValueError("its answer is none of a store")
            except (OSError, ValueError) as error:
                self.file.close()
                self.file = None
                raise DistNetworkError(
                    f"failed to recv, the store at {self.host}:{self.port} has gone away ({error})") from None
        if state == "late":
            self.late(kind, given, timeout)
        return found[0]

    def clone(self):
        """Another connection to the same store."""
        return TCPStore(self.host, self.port, timeout=self.timeout, wait_for_workers=False)

    def close(self):
        """Close the connection, and the server if this is the last store that uses it."""
        with self.lock:
            if self.file is not None:
                self.file.close()
                self.file = None
        server, self.server = self.server, None
        if server is not None:
            server.users -= 1
            if not server.users:
                self.servers.pop(server.port, None)
                server.close()

    def __del__(self):
        if getattr(self, "file", None) is not None or getattr(self, "server", None) is not None:
            self.close()

    def __repr__(self):
        return f"TCPStore(host={self.host}, port={self.port}{', server' if self.server else ''})"
