"""Stubs: addresses of functions that are still being compiled.  Each is a jump whose target is filled in later.

A stub costs a nanosecond and stays for good, so a plan can hold a function's address before the function exists, and
need not be looked through afterwards.  On x86-64 and AArch64.
"""
import ctypes
import functools
import mmap
import platform
import struct
import sys

SIZE = mmap.PAGESIZE
EACH = 8  # bytes of a stub, and of its target
_pages: list = []  # never unmapped: a thread may still run code when the interpreter goes


def _x86():
    return struct.pack("<Hixx", 0x25FF, SIZE - 6)  # jmp [rip + distance]


def _arm():
    return struct.pack("<II", 0x58000010 | SIZE // 4 << 5, 0xD61F0200)  # ldr x16, [pc + distance]; br x16


_JUMPS = {"x86_64": _x86, "amd64": _x86, "aarch64": _arm, "arm64": _arm}  # a stub's instructions, 8 bytes


class Page:
    """A page of stubs, each a jump through the 8 bytes that lie as far into the next page."""

    def __init__(self):
        memory = mmap.mmap(-1, 2 * SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
                           prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self.base, self.used = ctypes.addressof(ctypes.c_char.from_buffer(memory)), 0
        memory[:SIZE] = _JUMPS[platform.machine().lower()]() * (SIZE // EACH)
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(self.base), ctypes.c_size_t(SIZE),
                                      mmap.PROT_READ | mmap.PROT_EXEC):
            raise OSError("this system refuses executable memory")
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))


@functools.cache
def possible() -> bool:
    """Whether stubs can be made on this machine."""
    if sys.platform == "win32" or platform.machine().lower() not in _JUMPS:
        return False
    try:
        _pages.append(Page())
    except OSError:
        return False
    return True


def new() -> int:
    """The address of a jump that leads nowhere yet; where they are ``possible``."""
    if _pages[-1].used == SIZE // EACH:
        _pages.append(Page())
    page = _pages[-1]
    page.used += 1
    return page.base + EACH * (page.used - 1)


def lead(jump: int, target: int):
    """Makes a jump lead to an address."""
    ctypes.c_uint64.from_address(jump + SIZE).value = target
