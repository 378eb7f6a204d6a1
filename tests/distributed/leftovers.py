"""What runs leave behind in the system.  Other programs have shared memory and sockets for a while, too, so what counts
is what was not there before and stays."""
import os
import time
from pathlib import Path

WHILE = 60.0  # seconds


def shared_memory() -> set:
    """The names of files in memory that processes share."""
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


def sockets() -> set:
    """The names of the package's sockets within this machine."""
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
