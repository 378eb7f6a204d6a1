"""The interface of a platform."""
from __future__ import annotations

import ctypes
import mmap
import os
import time

CACHE_LINE = 64
HUGE_PAGE = 2 << 20
PAGE = mmap.PAGESIZE


class Refused(OSError):
    """The system rejects a request or does not support it."""


class Platform:
    """An operating system.

    ``name``: "linux", "macos", "windows" or "posix"; ``target``: its name in packages, "" if they do not support it;
    ``suffix``: the suffix of its shared libraries; ``giving_way``: the name of a function that yields to other threads,
    for generated code; ``forks``: True if processes are copied, so that a child has its parent's memory.
    """

    name, target, suffix, giving_way = "", "", ".so", "sched_yield"
    forks = hasattr(os, "fork")

    # --- functions of the system --------------------------------------------------------------------------------------
    def symbol(self, name: str) -> int:
        """The address of a function of C's library, or of another library that this process has loaded.  RuntimeError
        for one that is found nowhere."""
        raise NotImplementedError

    # --- memory -------------------------------------------------------------------------------------------------------
    def allocate(self, nbytes: int) -> int:
        """Memory on a cache line, which ``free`` takes back; 0 where there is none."""
        raise NotImplementedError

    def free(self, address: int):
        raise NotImplementedError

    def pages(self, nbytes: int) -> int:
        """The address of zeroed pages that are private to this process; children of a fork get copies; 0 if there are
        none."""
        raise NotImplementedError

    def unmap(self, address: int, nbytes: int):
        """Release ``pages``; all that one call returned, unless ``parts`` of it can be released."""
        raise NotImplementedError

    def huge(self, nbytes: int) -> int:
        """``pages`` for large blocks: on huge pages where the system has such."""
        return self.pages(nbytes)

    def discard(self, address: int, nbytes: int):
        """Gives the contents of whole pages back; they are zero when they are next touched."""
        raise NotImplementedError

    def forbid(self, address: int, nbytes: int, allowed: bool):
        """Forbids, or allows again, to touch pages.  OSError where the system refuses."""
        raise NotImplementedError

    def room(self, nbytes: int) -> int:
        """Addresses without memory behind them until they are touched, which is forbidden yet; 0 where there are
        none."""
        raise NotImplementedError

    def executable(self, address: int, nbytes: int):
        """Makes pages code, which can no longer be written.  Refused where the system does not allow that."""
        raise NotImplementedError

    def unwinding(self, table: int, rows: int, base: int):
        """Register the unwind information of code that has such a table (Windows)."""

    def end_unwinding(self, table: int):
        """Unregister the unwind information of such a table."""

    def bytes_of_memory(self) -> int:
        """Of the machine."""
        raise NotImplementedError

    # --- nodes of memory ----------------------------------------------------------------------------------------------
    def nodes(self) -> tuple:
        """The numbers of the nodes of memory that this process may use: one, but on machines of several sockets."""
        return (0,)

    def interleave(self, nodes: tuple) -> bool:
        """Interleave pages that this thread, and those that it starts, touch first across these nodes; True if the
        system does so."""
        return False

    # --- threads ------------------------------------------------------------------------------------------------------
    def thread_key(self, place: int):
        """Store a new thread-local key at an address. Raises Refused if there are no more."""
        raise NotImplementedError

    def thread_value(self, place: int, value: int):
        """Sets such a value for the calling thread."""
        raise NotImplementedError

    def processors(self) -> int:
        """The number of logical CPUs that this process may run on."""
        return os.cpu_count() or 1

    def cores(self) -> int:
        """Cores that this process may run on."""
        return self.processors()

    def give_way(self):
        """Lets other threads run."""
        time.sleep(0)

    def after_fork(self, function):
        """Has every child of a fork call a function first."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=function)

    def around_fork(self, before, after):
        """Has a fork call a function before, and another one after it in both processes."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=before, after_in_parent=after, after_in_child=after)

    def end_with_parent(self):
        """Let the system interrupt this process when its parent ends, if it can."""

    # --- the CPU ------------------------------------------------------------------------------------------------------
    def processor(self) -> str:
        """The system's description of the CPU, in which one line may begin with "vendor_id"; "" if it has none."""
        return ""

    def features(self) -> dict:
        """{LLVM's name of a feature: True if present} for features that the system reports and LLVM does not detect."""
        return {}

    def scalable_bytes(self) -> int:
        """Bytes of an SVE vector in this process; 0 where the system does not tell."""
        return 0

    def second_cache(self) -> int:
        """Bytes of a core's L2 cache; 0 if the system does not report it."""
        return 0

    def tiles(self) -> bool:
        """Request the use of AMX tiles; True if the system permits it."""
        return False

    # --- files and processes ------------------------------------------------------------------------------------------
    def user(self) -> int:
        """The number of the user this process acts for; 0 where the system has none."""
        return 0

    def owns(self, status) -> bool:
        """True if a file is this user's, by the result of ``os.stat``."""
        return True

    def others_may(self, status, forbidden: int, file) -> bool:
        """True if a file's permissions let others do what is ``forbidden``. ``file``: its path or descriptor."""
        return False

    def machine(self) -> str:
        """A name that is equal for processes that can share memory."""
        raise NotImplementedError

    def shared(self, nbytes: int):
        """New memory that processes can share (``Shared``)."""
        raise NotImplementedError

    def opened(self, path: str, nbytes: int):
        """The memory that another process of this machine offers under ``path``. Raises OSError if there is none."""
        raise NotImplementedError

    def files_left(self, used: int) -> bool:
        """True if another file may be opened for memory, given ``used`` open ones: half are left for other uses."""
        return True

    def path_of(self, path: str) -> str:
        """The path of a file, by that of its URL."""
        return path

    @staticmethod
    def locked(file):
        """Holds a lock on an open file, for which it waits, until the file is closed."""
        raise NotImplementedError


class Shared:
    """Memory that processes share: ``memory`` (mmap), and its ``address``. ``path``: by which other processes of this
    user open it while this one lives."""

    path = ""

    def __init__(self, memory):
        self.memory = memory
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(memory))

    def told(self):
        """The pickled form of the memory for ``multiprocessing``; ``given`` restores it in the other process."""
        raise NotImplementedError

    def unlink(self):
        """Takes its name away, where it has one; who has opened it keeps it."""

    def claim(self, k: int):
        """Holds byte ``k`` for this process, until it ends.  OSError where another one does."""
        raise NotImplementedError

    def claimed(self, k: int) -> bool:
        """True if another process holds byte ``k``."""
        raise NotImplementedError

    def close(self):
        """Closes the file; the memory stays."""
