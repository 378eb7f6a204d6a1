"""Linux."""
from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import platform

from .arm import BITS, SVE_LENGTH, WORDS
from .base import HUGE_PAGE
from .posix import PRIVATE, Posix, PosixShared

IN_HUGE_PAGES, NOT_NEEDED = 14, 4  # of madvise
NO_RESERVE = 0x4000
ACCESS_LIST = "system.posix_acl_access"  # an attribute of files with more entries than a mode has
WHEN_PARENT_ENDS, INTERRUPT = 1, 2  # of prctl, SIGINT
TILES, ASK_FOR_STATE, TILE_DATA = 158, 0x1023, 18  # arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
INTERLEAVED = 3  # MPOL_INTERLEAVE
SET_POLICY = {"x86_64": 238, "aarch64": 237}  # the system call set_mempolicy
PROCESSORS, NODES = "/sys/devices/system/cpu", "/sys/devices/system/node"


class Linux(Posix):
    name = "linux"

    @property
    def target(self):
        return f"{platform.machine()}-linux-gnu"

    def has_more_entries(self, file):
        try:
            os.getxattr(file, ACCESS_LIST)
        except OSError:  # it has none, or the file system does not know them
            return False
        return True

    def huge(self, nbytes):
        longer = nbytes + HUGE_PAGE
        start = self.mapped(longer) if longer < 1 << 62 else 0
        if not start:
            return 0
        address = start + HUGE_PAGE - 1 & -HUGE_PAGE
        if address > start:
            self.unmap(start, address - start)
        self.unmap(address + nbytes, HUGE_PAGE - (address - start))
        self.library.madvise(address, nbytes, IN_HUGE_PAGES)
        return address

    def discard(self, address, nbytes):
        self.library.madvise(address, nbytes, NOT_NEEDED)

    def room(self, nbytes):
        return self.mapped(nbytes, 0, PRIVATE | NO_RESERVE)

    def nodes(self):
        """Those that have memory."""
        try:
            return numbers(pathlib.Path(NODES, "has_memory").read_text())
        except (OSError, ValueError):
            return (0,)

    def interleave(self, nodes):
        call = SET_POLICY.get(platform.machine())
        if call is None:
            return False
        mask = (ctypes.c_uint64 * (max(nodes) // 64 + 1))()
        for node in nodes:
            mask[node // 64] |= 1 << node % 64
        return not self.library.syscall(ctypes.c_long(call), ctypes.c_int(INTERLEAVED), mask,
                                        ctypes.c_ulong(64 * len(mask) + 1))

    def processors(self):
        return len(os.sched_getaffinity(0))

    def cores(self):
        found = set()
        for one in os.sched_getaffinity(0):
            try:
                found.add(pathlib.Path(f"{PROCESSORS}/cpu{one}/topology/thread_siblings_list").read_text().strip())
            except OSError:
                found.add(one)
        return len(found)

    def end_with_parent(self):
        self.library.prctl(WHEN_PARENT_ENDS, INTERRUPT, 0, 0, 0)

    def processor(self):
        """The constant part of the first CPU's description."""
        try:
            first, _, _ = pathlib.Path("/proc/cpuinfo").read_text().partition("\n\n")
        except OSError:
            return ""
        steady = [line for line in first.splitlines()
                  if not line.startswith(("cpu MHz", "bogomips", "processor", "core id", "apicid", "initial apicid"))]
        return "\n".join([platform.machine(), *steady])

    def features(self):
        """Of AArch64: LLVM reads the same from a file that emulators and containers need not have."""
        if platform.machine() != "aarch64":
            return {}
        ask = self.library.getauxval
        ask.argtypes, ask.restype = [ctypes.c_ulong], ctypes.c_ulong
        words = {number: ask(kind) for number, kind in WORDS.items()}
        return {name: bool(words[word] >> bit & 1) for name, (word, bit) in BITS.items()}

    def scalable_bytes(self):
        found, length = self.library.prctl(SVE_LENGTH), 0xFFFF
        return found & length if found > 0 else 0

    def second_cache(self):
        try:
            text = pathlib.Path(f"{PROCESSORS}/cpu0/cache/index2/size").read_text()
            return int(text.strip().removesuffix("K")) << 10
        except (OSError, ValueError):
            return 0

    @functools.cache
    def tiles(self):
        return platform.machine() == "x86_64" and self.library.syscall(TILES, ASK_FOR_STATE, TILE_DATA) == 0

    def machine(self):
        try:
            boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            return f"{boot} {os.readlink('/proc/self/ns/pid')}"
        except OSError:
            return super().machine()

    def shared(self, nbytes):
        """An unnamed file in memory."""
        if not hasattr(os, "memfd_create") or not os.path.isdir("/proc/self/fd"):
            return super().shared(nbytes)
        descriptor = os.memfd_create("rushlight", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, nbytes)
        return PosixShared(descriptor, nbytes, f"/proc/{os.getpid()}/fd/{descriptor}")


def numbers(text: str) -> tuple:
    """The numbers of a list in Linux's format.

    >>> numbers("0-2,5\\n")
    (0, 1, 2, 5)
    """
    found = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)
