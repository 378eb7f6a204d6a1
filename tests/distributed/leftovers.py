"""What runs leave behind in the system.  Other programs have shared memory and sockets, too, so what counts is what no
process has open, was not there before and stays."""
import contextlib
import time
from pathlib import Path

WHILE = 60.0  # seconds
MEMORY = "/dev/shm/"


def mapped() -> set:
    """The names of files in memory that a process has mapped."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            found |= {line.partition(MEMORY)[2] for line in path.read_text().splitlines() if MEMORY in line}
    return found


def shared_memory() -> set:
    """The names of files in memory that processes shared, and none has mapped.  Directories are no shared memory."""
    names = {path.name for path in Path(MEMORY).glob("*") if path.is_file()}
    return names and names - mapped()


def sockets() -> set:
    """The names of the package's sockets on this host."""
    path = Path("/proc/net/unix")
    lines = path.read_text().splitlines()[1:] if path.exists() else []
    return {line.split()[7] for line in lines if len(line.split()) > 7 and "rushlight" in line.split()[7]}


def staying(look, before: set) -> set:
    """What ``look()`` finds, was not there before, and has not gone after a while."""
    end = time.monotonic() + WHILE
    left = look() - before
    while left and time.monotonic() < end:
        time.sleep(0.05)
        left &= look()
    return left
