"""Makes this process look like one of Windows or macOS to the package: what other systems lack is taken away, and the
calls of that system are emulated by those of this one and recorded (``calls``).

``python -m tests.platforms.stand_ins win32|darwin FILE`` runs a program so.
"""
from __future__ import annotations

import builtins
import collections
import ctypes
import itertools
import mmap
import multiprocessing.reduction
import multiprocessing.resource_sharer  # noqa: F401 - they look at the system when they are imported
import multiprocessing.synchronize  # noqa: F401
import os
import platform
import runpy
import signal
import sys
import sysconfig
import tempfile  # noqa: F401
import types

import llvmlite.binding  # noqa: F401
import numpy  # noqa: F401

calls: collections.Counter = collections.Counter()
libc = ctypes.CDLL(None)
libc.mmap.restype = libc.aligned_alloc.restype = libc.pthread_getspecific.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_longlong]
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
LINUX = {"memfd_create", "MFD_CLOEXEC", "O_TMPFILE", "sched_getaffinity", "sched_setaffinity", "eventfd", "pidfd_open"}
POSIX = {"fork", "register_at_fork", "geteuid", "getuid", "getgid", "sysconf", "sched_yield", "fchmod", "mkfifo",
         "getpgid", "killpg", "setsid", "uname", "wait", "WNOHANG", "getloadavg", "O_NOFOLLOW", "O_NONBLOCK",
         "O_CLOEXEC", "O_DIRECTORY", "pread", "pwrite"}
ABSENT = {"win32": {"fcntl", "resource", "pwd", "grp", "termios", "syslog", "tty", "pty"},
          "darwin": {"msvcrt", "winreg"}}


def noted(name, function):
    def called(*given):
        calls[name] += 1
        return function(*given)
    return called


def forget(module, names):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)


def without(absent):
    """Importing what this system lacks raises, as it does there."""
    usual = builtins.__import__

    def importing(name, globals=None, *more, **named):
        who = (globals or {}).get("__name__", "")
        if name.partition(".")[0] in absent and who.startswith("rushlight"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return usual(name, globals, *more, **named)

    builtins.__import__ = importing


# --- Windows ----------------------------------------------------------------------------------------------------------
POINTER, SIZE, NUMBER = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


def virtual_alloc(address, nbytes, kind, how):
    if address and kind == 0x1000:  # commit what is reserved
        return libc.mmap(address, nbytes, {1: 0, 4: 3}[how], PRIVATE | 0x10, -1, 0)
    return libc.mmap(None, nbytes, {1: 0, 4: 3}[how], PRIVATE, -1, 0)


def virtual_free(address, nbytes, kind):
    return 1  # the process is a short one


def virtual_protect(address, nbytes, how, before):
    return not libc.mprotect(POINTER(address), SIZE(nbytes), {1: 0, 4: 3, 0x20: 5}[how])


def create_thread(attributes, stack, function, argument, flags, number):
    handle = ctypes.c_ulong()
    wrong = libc.pthread_create(ctypes.byref(handle), None, POINTER(function), POINTER(argument))
    return None if wrong else handle.value


def wait_for(handle, milliseconds):
    return libc.pthread_join(ctypes.c_ulong(handle), None)


def tls_alloc():
    key = ctypes.c_uint32()
    libc.pthread_key_create(ctypes.byref(key), None)
    return key.value


def memory_status(place):
    ctypes.c_uint64.from_address(ctypes.cast(place, POINTER).value + 8).value = 1 << 34
    return 1


def affinity(process, own, all_):
    ctypes.cast(own, ctypes.POINTER(SIZE))[0] = 3
    return 1


OF_WINDOWS = {
    "VirtualAlloc": (virtual_alloc, POINTER, POINTER, SIZE, NUMBER, NUMBER),
    "VirtualFree": (virtual_free, NUMBER, POINTER, SIZE, NUMBER),
    "VirtualProtect": (virtual_protect, NUMBER, POINTER, SIZE, NUMBER, POINTER),
    "_aligned_malloc": (lambda nbytes, to: libc.aligned_alloc(SIZE(to), SIZE(nbytes)), POINTER, SIZE, SIZE),
    "_aligned_free": (lambda address: libc.free(POINTER(address)), None, POINTER),
    "CreateThread": (create_thread, POINTER, POINTER, SIZE, POINTER, POINTER, NUMBER, POINTER),
    "WaitForSingleObject": (wait_for, NUMBER, SIZE, NUMBER),
    "CloseHandle": (lambda handle: 1, NUMBER, POINTER),
    "GetCurrentProcess": (lambda: 1, POINTER), "TlsAlloc": (tls_alloc, ctypes.c_uint32),
    "FlushInstructionCache": (lambda *given: 1, NUMBER, POINTER, POINTER, SIZE),
    "RtlAddFunctionTable": (lambda *given: 1, NUMBER, POINTER, NUMBER, SIZE),
    "RtlDeleteFunctionTable": (lambda *given: 1, NUMBER, POINTER),
    "GlobalMemoryStatusEx": (memory_status, NUMBER, POINTER),
    "GetProcessAffinityMask": (affinity, NUMBER, POINTER, POINTER, POINTER),
    "GetLogicalProcessorInformation": (lambda *given: 0, NUMBER, POINTER, POINTER),
    "IsProcessorFeaturePresent": (lambda which: which % 2, NUMBER, NUMBER),
    "SwitchToThread": (lambda: libc.sched_yield(), NUMBER)}
# what is called by threads that are not Python's, or has the same form here
LIKE = {"TlsGetValue": "pthread_getspecific", "TlsSetValue": "pthread_setspecific", "WaitOnAddress": "sched_yield",
        "WakeByAddressAll": "sched_yield"}
C = {"memcpy", "memmove", "memset", "fmod", *(f"{name}{kind}" for kind in ("", "f") for name in (
    "exp", "log", "pow", "sin", "cos", "tan", "log1p", "expm1", "tanh", "floor"))}


class LibraryOfWindows:
    """A library, by any name: its functions are stand-ins."""

    def __new__(cls, name, usual=ctypes.CDLL, **more):
        return usual(name) if name and os.path.exists(name) else super().__new__(cls)  # what wheels bring

    def __init__(self, name, **more):
        if name is None:
            raise TypeError("argument of type 'NoneType' is not iterable")
        if not name.endswith(".dll"):
            raise OSError(f"Could not find module {name!r}")

    def __getattr__(self, name):
        if name in OF_WINDOWS:
            function, result, *given = OF_WINDOWS[name]
            found = ctypes.CFUNCTYPE(result, *given)(noted(name, function))
        elif name in LIKE or name in C:
            found = getattr(libc, LIKE.get(name, name))
        else:
            raise AttributeError(name)
        setattr(self, name, found)
        return found


def as_windows():
    sys.modules["msvcrt"] = types.SimpleNamespace(
        LK_NBLCK=2, locking=noted("locking", lambda file, how, nbytes: None))

    class Key:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    sys.modules["winreg"] = types.SimpleNamespace(
        HKEY_LOCAL_MACHINE=1, OpenKey=noted("OpenKey", lambda where, path: Key()),
        QueryValueEx=lambda key, name: ({"VendorIdentifier": "GenuineIntel"}.get(name, name), 1))
    usual, serial, made = mmap.mmap, itertools.count(), {}

    def mapping(descriptor, nbytes, tagname=None, **more):
        calls["mapping"] += 1
        return made.setdefault(tagname or next(serial), usual(descriptor, nbytes))

    mmap.mmap = mapping
    ctypes.CDLL = LibraryOfWindows
    forget(mmap, ["MAP_PRIVATE", "MAP_SHARED", "MAP_ANONYMOUS", "MAP_ANON", "PROT_READ", "PROT_WRITE", "PROT_EXEC"])
    forget(multiprocessing.reduction, ["DupFd"])
    forget(signal, ["SIGKILL", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGCHLD", "setitimer", "pthread_sigmask"])
    forget(os, POSIX)


# --- macOS ------------------------------------------------------------------------------------------------------------
NUMBERS = {b"hw.memsize": 1 << 34, b"hw.physicalcpu": 2, b"hw.l2cachesize": 1 << 21, b"hw.perflevel0.cpusperl2": 2}


class LibraryOfMac:
    """The libraries of the process, without what Linux alone has, with what macOS has in its place."""

    LINUX = {"prctl", "getauxval", "syscall", "madvise", "process_vm_readv", "memfd_create"}
    LIKE = {"__ulock_wait": "sched_yield", "__ulock_wake": "sched_yield"}

    def __init__(self, name=None, usual=ctypes.CDLL, **more):
        self.found = usual(name, **more)

    def __getattr__(self, name):
        if name == "madvise":  # macOS has it, without Linux's advice
            return noted(name, getattr(self.found, name))
        if name in self.LINUX:
            raise AttributeError(name)
        if name == "sysctlbyname":
            return noted(name, self.told)
        return getattr(self.found, self.LIKE.get(name, name))

    @staticmethod
    def told(name, value, size, new, new_size):
        if name == b"machdep.cpu.brand_string":
            value.value = b"A processor"
            return 0
        if name not in NUMBERS:
            return -1
        value._obj.value = NUMBERS[name]
        return 0


def as_mac():
    ctypes.CDLL = LibraryOfMac


def main():
    name, file = sys.argv[1:]
    platform.uname(), sysconfig.get_config_vars()  # it looks for a file with the name of the system
    forget(os, LINUX)
    {"win32": as_windows, "darwin": as_mac}[name]()
    without(ABSENT[name])
    sys.platform = name
    sys.argv = [file]
    runpy.run_path(file, run_name="__main__")
    print("calls", *sorted(calls))


if __name__ == "__main__":
    main()
