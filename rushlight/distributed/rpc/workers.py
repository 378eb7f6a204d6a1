"""A worker: connections to the others, a receiving thread for each, and threads that run calls."""
from __future__ import annotations

import concurrent.futures
import heapq
import itertools
import pickle
import secrets
import socket
import threading
import time
from dataclasses import dataclass

from ...futures import Future
from ..membership import shut
from ..sockets import own_address
from ..tcp_store import taken
from ..worlds import here
from .messages import LENGTH, Failure, packed, unpacked

DEFAULT_TIMEOUT, UNSET = 60.0, -1.0
SECRET = 16


@dataclass(frozen=True)
class WorkerInfo:
    """A worker: its name, and its id."""

    name: str
    id: int

    def __repr__(self):
        return f"WorkerInfo(id={self.id}, name={self.name})"


def current() -> Agent:
    """The worker of the calling thread's world.  RuntimeError before ``init_rpc``."""
    if here().rpc is None:
        raise RuntimeError(
            "RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.")
    return here().rpc


class Wire:
    """A connection to another worker, on which messages go both ways."""

    def __init__(self, file: socket.socket):
        self.file, self.lock = file, threading.Lock()
        file.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes):
        with self.lock:
            self.file.sendall(LENGTH.pack(len(data)) + data)

    def receive(self) -> bytes:
        return taken(self.file, LENGTH.unpack(taken(self.file, LENGTH.size))[0])

    def close(self):
        try:
            self.file.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other side was first
        self.file.close()


class Deadlines:
    """A thread that lets calls fail whose time is over."""

    def __init__(self, world):
        self.heap, self.changed, self.closed, self.count = [], threading.Condition(), False, itertools.count()
        self.thread = threading.Thread(target=self.watch, name="rpc deadlines", daemon=True)
        self.thread.start()

    def add(self, seconds: float, late):
        with self.changed:
            heapq.heappush(self.heap, (time.monotonic() + seconds, next(self.count), late))
            self.changed.notify()

    def watch(self):
        while True:
            with self.changed:
                left = self.heap[0][0] - time.monotonic() if self.heap else None
                if self.closed:
                    return
                if left is None or left > 0:
                    self.changed.wait(left)
                    continue
                late = heapq.heappop(self.heap)[2]
            late()

    def close(self):
        with self.changed:
            self.closed = True
            self.changed.notify()
        self.thread.join()


class Agent:
    """The agent of ``init_rpc``.  ``owned``: values of remote references of any worker; ``contexts``: those of
    ``torch.distributed.autograd``; ``run(agent, message)``: runs a call of another worker."""

    def __init__(self, world, store, whole, name: str, rank: int, size: int, options, run):
        self.run = run
        self.world, self.store, self.whole, self.options, self.size = world, store, whole, options, size
        self.info = WorkerInfo(name, rank)
        self.numbers, self.guard, self.closed = itertools.count(1), threading.RLock(), False
        self.waiting, self.wires, self.owned, self.contexts = {}, {}, {}, {}
        self.threads, self.heard = [], []
        self.idle, self.running = threading.Condition(), 0
        self.pool = concurrent.futures.ThreadPoolExecutor(options.num_worker_threads, f"rpc {name}", world.enter)
        self.deadlines = Deadlines(world)
        self.listener = socket.create_server(("", 0), backlog=2 * size)
        self.meet()
        self.start(self.accept)

    # --- workers ------------------------------------------------------------------------------------------------------
    def meet(self):
        if self.info.id == 0:
            self.store.set("secret", secrets.token_bytes(SECRET))
        if self.store.add(f"name {self.info.name}", 1) > 1:
            self.store.set("refused", f"the name {self.info.name!r} of a worker is taken")
        place = f"{own_address(self.whole)} {self.listener.getsockname()[1]} {self.info.name}"
        self.store.set(f"worker {self.info.id}", place)
        found = [self.store.get(f"worker {k}").decode().split(" ", 2) for k in range(self.size)]
        self.secret = self.store.get("secret")
        if self.store.check(["refused"]):
            raise RuntimeError(self.store.get("refused").decode())
        self.addresses = [(host, int(port)) for host, port, _ in found]
        self.workers = [WorkerInfo(name, k) for k, (_, _, name) in enumerate(found)]

    def worker(self, to) -> WorkerInfo:
        """Return the worker of a name, an id or a WorkerInfo.  ValueError or RuntimeError if there is none."""
        if isinstance(to, WorkerInfo):
            to = to.id
        if isinstance(to, int) and 0 <= to < self.size:
            return self.workers[to]
        for worker in self.workers:
            if worker.name == to:
                return worker
        if isinstance(to, (int, str)):
            raise RuntimeError(f"there is no worker {to!r}: there are {', '.join(w.name for w in self.workers)}")
        raise ValueError(f"Cannot get WorkerInfo from name {to}")

    def start(self, run, *given):
        def live():
            self.world.enter()
            run(*given)
        thread = threading.Thread(target=live, name=f"rpc {self.info.name}", daemon=True)
        with self.guard:
            self.threads = [each for each in self.threads if each.is_alive()]
            thread.start()
            self.threads.append(thread)

    # --- connections --------------------------------------------------------------------------------------------------
    def accept(self):
        while not self.closed:
            try:
                file, _ = self.listener.accept()
                file.settimeout(5)
                hello = file.recv(SECRET, socket.MSG_WAITALL)
                if not secrets.compare_digest(hello, self.secret):
                    file.close()  # no worker of this run
                    continue
                file.settimeout(None)
            except OSError:
                continue  # this worker is closing, or a stranger went away
            with self.guard:
                self.heard.append(Wire(file))
                self.start(self.read, self.heard[-1], None)

    def wire(self, worker: int) -> Wire:
        """The connection on which this worker calls another."""
        with self.guard:
            if worker not in self.wires:
                file = socket.create_connection(self.addresses[worker], 30)
                file.settimeout(None)
                file.sendall(self.secret)
                self.wires[worker] = Wire(file)
                self.start(self.read, self.wires[worker], worker)
            return self.wires[worker]

    def read(self, wire: Wire, worker: int | None):
        """Serve the messages of a connection: calls, or answers (from ``worker``)."""
        try:
            while True:
                kind, number, message = pickle.loads(wire.receive())
                if kind == "answer":
                    self.answered(number, message)
                    continue
                with self.idle:
                    self.running += 1
                if kind == "call":
                    self.pool.submit(self.serve, wire, number, message)
                else:  # internal requests never wait for calls of the program
                    self.start(self.serve, wire, number, message)
        except (OSError, EOFError):
            wire.close()
            self.lost(worker)

    def lost(self, worker):
        if worker is None:
            return
        with self.guard:
            self.wires.pop(worker, None)
            gone = [number for number, (_, to, _) in self.waiting.items() if to == worker]
        for number in gone:
            self.fail(number, RuntimeError(f"{self.workers[worker]} has ended or closed its connection"))

    # --- calls of others ----------------------------------------------------------------------------------------------
    def serve(self, wire: Wire, number: int, message: bytes):
        try:
            later, found, record = self.run(self, message)
        except BaseException as error:  # noqa: BLE001 - goes to the caller
            return self.reply(wire, number, Failure(error, self.info), None)
        if later:
            found.add_done_callback(lambda future: self.reply(wire, number, outcome(future, self.info), record))
        else:
            self.reply(wire, number, found, record)

    def reply(self, wire, number, value, record):
        try:
            data = packed(value, record)
        except Exception as error:  # noqa: BLE001 - what cannot be pickled
            data = packed(Failure(error, self.info))
        try:
            wire.send(pickle.dumps(("answer", number, data)))
        except OSError:
            pass  # the caller has gone
        with self.idle:
            self.running -= 1
            self.idle.notify_all()

    # --- calls of this worker -----------------------------------------------------------------------------------------
    def ask(self, to: WorkerInfo, message: bytes, timeout: float = UNSET, own: bool = False, receive=None) -> Future:
        """Send a call; return a Future of its result.  ``own``: a call of the package itself."""
        future, number = Future(), next(self.numbers)
        seconds = self.options.rpc_timeout if timeout == UNSET else timeout
        with self.guard:
            self.waiting[number] = future, to.id, receive
        try:
            self.wire(to.id).send(pickle.dumps(("own" if own else "call", number, message)))
        except OSError as error:
            self.fail(number, RuntimeError(f"{to} cannot be reached: {error}"))
            return future
        if seconds > 0:
            self.deadlines.add(seconds, lambda: self.fail(number, RuntimeError(
                f"RPC ran for more than set timeout ({int(seconds * 1000)} ms) and will now be marked with an error")))
        return future

    def taken_back(self, number):
        with self.guard:
            return self.waiting.pop(number, None)

    def fail(self, number, error):
        found = self.taken_back(number)
        if found is not None:
            found[0].set_exception(error)
            self.note_idle()

    def answered(self, number, message):
        found = self.taken_back(number)
        if found is None:
            return  # its time was over
        try:
            value = unpacked(message, found[2])
        except Exception as error:  # noqa: BLE001 - the caller waits for it
            value = Failure(error, self.info)
        if isinstance(value, Failure):
            found[0].set_exception(value.error())
        else:
            found[0].set_result(value)
        self.note_idle()

    def note_idle(self):
        with self.idle:
            self.idle.notify_all()

    # --- the end ------------------------------------------------------------------------------------------------------
    def quiet(self, end: float):
        """Waits until no call is under way, from here or for others."""
        with self.idle:
            while self.running or self.waiting:
                if not self.idle.wait(end - time.monotonic()) and time.monotonic() >= end:
                    raise RuntimeError(f"{self.info}: calls are still under way at shutdown")

    def wait_for_all(self, seconds: float):
        """Wait until all workers have come here and no call is running, twice: a call may have caused another."""
        end = time.monotonic() + seconds
        for turn in ("first", "second", "last"):
            self.quiet(end)
            if self.store.add(f"{turn} end", 1) == self.size:
                self.store.set(f"{turn} all", "yes")
            self.store.get(f"{turn} all")
        if self.info.id == 0:  # it may keep the store
            while self.store.add("gone", 0) < self.size - 1 and time.monotonic() < end:
                time.sleep(0.002)
        else:
            self.store.add("gone", 1)

    def close(self):
        self.closed = True
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # not every system lets a listening socket be shut
        self.listener.close()
        with self.guard:
            wires, threads = [*self.wires.values(), *self.heard], list(self.threads)
        for wire in wires:
            wire.close()
        self.pool.shutdown(wait=True, cancel_futures=True)
        self.deadlines.close()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(30)
        shut(self.whole)


def outcome(future, where):
    """Return the value of a Future, or its failure."""
    try:
        return future.value()
    except Exception as error:  # noqa: BLE001 - goes to the caller
        return Failure(error, where)
