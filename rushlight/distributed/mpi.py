"""The backend "mpi": messages go by MPI (``pip install rushlight[mpi]``), between processes that ``mpiexec`` has
started."""
from __future__ import annotations

import ctypes
import datetime
import importlib.util
import socket
import time

from .engine import Deadline
from .sockets import SocketEngine, SocketMail, Wire, own_address
from .stores import DistBackendError
from .tcp_store import TCPStore

COLLECTIVES, MESSAGES = 1, 2  # tags


def is_available() -> bool:
    """True if mpi4py is installed."""
    return importlib.util.find_spec("mpi4py") is not None


def joined():
    """(store, rank, size) of the processes that mpiexec has started."""
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    store = None
    if world.rank == 0:
        store = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    host = world.bcast((own_address(None), socket.gethostname(), store.port) if store else None)
    if store is None:
        store = TCPStore("127.0.0.1" if host[1] == socket.gethostname() else host[0], host[2], None, False,
                         datetime.timedelta(minutes=5), wait_for_workers=False)
    return store, world.rank, world.size


class MPIEngine(SocketEngine):
    """The engine "mpi": collectives as between hosts, by nonblocking messages of the group's own communicator."""

    def __init__(self, store, rank: int, size: int, timeout: float):
        from mpi4py import MPI
        self.rank, self.size, self.timeout, self.broken = rank, size, timeout, None
        store.set(f"mpi {rank}", str(MPI.COMM_WORLD.rank))
        ranks = [int(store.get(f"mpi {peer}")) for peer in range(size)]
        group = MPI.COMM_WORLD.group.Incl(ranks)
        self.comm = MPI.COMM_WORLD.Create_group(group)
        group.Free()
        self.comm.Set_errhandler(MPI.ERRORS_RETURN)
        self.mail = MPIMail(self)

    def swap(self, sends, receives):
        if self.broken is not None:
            raise DistBackendError(str(self.broken))
        requests = [self.comm.Irecv(memory, peer, COLLECTIVES) for peer, memory in receives.items() if len(memory)]
        requests += [self.comm.Isend(memory, peer, COLLECTIVES) for peer, memory in sends.items() if len(memory)]
        finished(self, requests, "recv" if receives else "send", sorted(receives or sends))

    def shut(self):
        comm, self.comm = self.comm, None
        if comm is not None and self.broken is None:
            comm.Free()

    def gone(self, peer) -> bool:
        return False  # MPI ends all processes if one ends


def finished(engine, requests, what: str, peers):
    """Waits for requests.  DistBackendError after the timeout, or where MPI fails."""
    from mpi4py import MPI
    limit, pause = Deadline(engine.timeout), 1e-5
    try:
        while not MPI.Request.Testall(requests):
            if engine.broken is not None:
                raise DistBackendError(str(engine.broken))
            if limit.passed():
                engine.fail(DistBackendError(
                    f"Timed out waiting {int(limit.seconds * 1000)}ms for {what} operation to complete: "
                    f"{engine.called(peers[:1])} has not come"))
            time.sleep(pause)
            pause = min(pause * 1.5, 1e-3)
    except MPI.Exception as error:
        engine.fail(DistBackendError(f"MPI: {error}"))


class Post(Wire):
    """One direction of messages by MPI: one ``take`` of as many bytes receives the data of one ``put``."""

    def __init__(self, engine, peer: int):
        super(Wire, self).__init__(engine, peer)

    def put(self, address, nbytes):
        if nbytes:
            finished(self.engine, [self.engine.comm.Isend(bytes_at(address, nbytes), self.peer, MESSAGES)], "send",
                     [self.peer])

    def take(self, address, nbytes):
        if nbytes:
            finished(self.engine, [self.engine.comm.Irecv(bytes_at(address, nbytes), self.peer, MESSAGES)], "recv",
                     [self.peer])

    def available(self):
        return int(self.engine.comm.Iprobe(self.peer, MESSAGES))


def bytes_at(address: int, nbytes: int) -> memoryview:
    return memoryview((ctypes.c_char * nbytes).from_address(address)).cast("B")


class MPIMail(SocketMail):
    """The messages of one rank."""

    def made(self, source, target):
        return Post(self.engine, target if source == self.engine.rank else source)
