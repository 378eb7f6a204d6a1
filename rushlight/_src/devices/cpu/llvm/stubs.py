"""Stubs: addresses of functions that are still being compiled.  Each is a jump whose target is filled in later.

A stub costs a nanosecond and stays while its address is held, so a plan can hold a function's address before the
function exists, and need not be looked through afterwards.  On x86-64 and AArch64.
"""
import ctypes
import functools
import platform
import struct
import sys

from ....core.platform import Refused, here
from ....core.platform.base import PAGE as SIZE

EACH = 8  # bytes of a stub, and of its target
_pages: list = []  # never unmapped
_free: list = []  # addresses of stubs without references


def _x86():
    return struct.pack("<Hixx", 0x25FF, SIZE - 6)  # jmp [rip + distance]


def _arm():
    return struct.pack("<II", 0x58000010 | SIZE // 4 << 5, 0xD61F0200)  # ldr x16, [pc + distance]; br x16


_JUMPS = {"x86_64": _x86, "amd64": _x86, "aarch64": _arm, "arm64": _arm}  # a stub's instructions, 8 bytes


class Page:
    """A page of stubs, each a jump through the 8 bytes at the same offset in the next page."""

    def __init__(self):
        self.base, self.used = here.pages(2 * SIZE), 0
        if not self.base:
            raise Refused("this system gives no memory for stubs")
        jumps = _JUMPS[platform.machine().lower()]() * (SIZE // EACH)
        ctypes.memmove(self.base, jumps, len(jumps))
        here.executable(self.base, SIZE)


@functools.cache
def possible() -> bool:
    """True if stubs can be made on this machine."""
    if platform.machine().lower() not in _JUMPS:
        return False
    try:
        _pages.append(Page())
    except OSError:
        return False
    return True


class Stub(int):
    """The address of a jump; another function gets the jump after this object.  Like ``loaded.Pages`` it is not tracked
    by garbage collection, and outlives the finalizers of a reference cycle that holds it."""

    __slots__ = ()

    def __del__(self, is_finalizing=sys.is_finalizing, free=_free):
        if not is_finalizing():
            free.append(int(self))


def new() -> Stub:
    """Return the address of a jump without a target yet; requires ``possible``."""
    try:
        return Stub(_free.pop())
    except IndexError:  # another finalizer may add one meanwhile
        pass
    if _pages[-1].used == SIZE // EACH:
        _pages.append(Page())
    page = _pages[-1]
    page.used += 1
    return Stub(page.base + EACH * (page.used - 1))


def lead(jump: int, target: int):
    """Set the target of a jump."""
    ctypes.c_uint64.from_address(jump + SIZE).value = target
