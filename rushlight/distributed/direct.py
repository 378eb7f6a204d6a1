"""Direct reads of other ranks' memory: one copy instead of two through a slot."""
from __future__ import annotations

import ctypes
import os

from .._src.core.platform import here
from .stores import DistBackendError

TOKEN = 16  # bytes that each rank has others read, to see whether they can
MOST = 1 << 30  # bytes of one system call


class Piece(ctypes.Structure):
    """A part of a process's memory."""

    _fields_ = [("address", ctypes.c_void_p), ("nbytes", ctypes.c_size_t)]


def reader():
    """Return the system's ``process_vm_readv``; None if it has none."""
    found = getattr(here.library, "process_vm_readv", None) if here.name == "linux" else None
    if found is not None:
        found.restype, found.argtypes = ctypes.c_ssize_t, [ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong,
                                                           ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
    return found


class Direct:
    """Reads the memory of ranks by their process ids; the memory of threads is this process's own."""

    def __init__(self, pids: list):
        self.pids, self.call = pids, reader()
        self.local, self.remote = Piece(), Piece()
        self.at = ctypes.addressof(self.local), ctypes.addressof(self.remote)

    def read(self, rank: int, target: int, source: int, nbytes: int):
        """Copy bytes from an address of a rank to one of this process.  DistBackendError if its process has ended."""
        if self.pids[rank] == os.getpid():
            ctypes.memmove(target, source, nbytes)
            return
        done = 0
        while done < nbytes:
            count = min(nbytes - done, MOST)
            self.local.address, self.local.nbytes = target + done, count
            self.remote.address, self.remote.nbytes = source + done, count
            found = self.call(self.pids[rank], self.at[0], 1, self.at[1], 1, 0)
            if found <= 0:
                raise DistBackendError(
                    f"Connection closed by peer: rank {rank} of the group: {os.strerror(ctypes.get_errno())}")
            done += found

    def reaches(self, rank: int, address: int, expected: bytes) -> bool:
        """True if the memory of a rank can be read."""
        if self.pids[rank] != os.getpid() and self.call is None:
            return False
        found = ctypes.create_string_buffer(TOKEN)
        try:
            self.read(rank, ctypes.addressof(found), address, TOKEN)
        except DistBackendError:
            return False
        return found.raw == expected


def direct(engine):
    """Return a ``Direct`` for the ranks of an engine, which all call this; None if one of them cannot read another's
    memory."""
    token = ctypes.create_string_buffer(f"rank {engine.rank} {os.getpid()}".encode().ljust(TOKEN)[:TOKEN], TOKEN)
    told = engine.told(("address",), [os.getpid(), ctypes.addressof(token)])
    found = Direct([pid for pid, _ in told])
    sees = all(found.reaches(rank, address, f"rank {rank} {pid}".encode().ljust(TOKEN)[:TOKEN])
               for rank, (pid, address) in enumerate(told))
    return found if all(seen for seen, in engine.told(("reaches",), [sees])) else None
