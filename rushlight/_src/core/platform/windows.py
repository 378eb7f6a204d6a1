"""Windows 10 and later, of 64 bits."""
from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
import msvcrt
import os
import platform
import secrets
import socket
import time
import winreg
from urllib.request import url2pathname

from .base import CACHE_LINE, Platform, Refused, Shared

RESERVE, COMMIT, DECOMMIT, RELEASE = 0x2000, 0x1000, 0x4000, 0x8000  # kinds of allocation
NO_ACCESS, READ_WRITE, EXECUTE_READ = 1, 4, 0x20  # protections
FULL = 0xFFFFFFFF  # TLS_OUT_OF_INDEXES
TILE_DATA = 1 << 18  # XSTATE_MASK_AMX_TILE_DATA
CORE, CACHE = 0, 2  # kinds of rows on the CPUs
MACHINE = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
LIBRARIES = "ucrtbase", "kernel32", "ntdll", "kernelbase", "api-ms-win-core-synch-l1-2-0", "vcruntime140"
RESULTS = {"VirtualAlloc": ctypes.c_void_p, "_aligned_malloc": ctypes.c_void_p, "GetCurrentProcess": ctypes.c_void_p,
           "TlsAlloc": ctypes.c_uint32, "CreateMutexW": ctypes.c_void_p, "OpenMutexW": ctypes.c_void_p}
SYNCHRONIZE, WAITED, ABANDONED = 0x100000, 0, 0x80


class ProcessorRow(ctypes.Structure):
    """SYSTEM_LOGICAL_PROCESSOR_INFORMATION."""

    _fields_ = [("mask", ctypes.c_size_t), ("relationship", ctypes.c_int), ("level", ctypes.c_uint8),
                ("associativity", ctypes.c_uint8), ("line", ctypes.c_uint16), ("size", ctypes.c_uint32),
                ("kind", ctypes.c_int), ("rest", ctypes.c_uint32)]


class MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX."""

    _fields_ = [("length", ctypes.c_uint32), ("load", ctypes.c_uint32), ("physical", ctypes.c_uint64),
                ("more", ctypes.c_uint64 * 6)]


class WindowsShared(Shared):
    """A mapping that has a name while a process has it open.  A process holds a byte by a mutex of that name, which is
    abandoned when it ends."""

    serial = itertools.count()

    def __init__(self, nbytes: int, path: str, system):
        self.path, self.system, self.held = path, system, []
        super().__init__(mmap.mmap(-1, nbytes, tagname=path))

    def told(self):
        return WindowsShared.given, (len(self.memory), self.path)

    @staticmethod
    def given(nbytes, path):
        from . import here
        return here.opened(path, nbytes)

    def mutex(self, k):
        return f"{self.path}.{k}"

    def claim(self, k):
        handle = self.system.CreateMutexW(None, 1, self.mutex(k))
        if not handle:
            raise Refused("this system gives no mutex")
        self.held.append(handle)

    def claimed(self, k):
        handle = self.system.OpenMutexW(SYNCHRONIZE, 0, self.mutex(k))
        if not handle:
            return False
        try:
            found = self.system.WaitForSingleObject(ctypes.c_void_p(handle), 0)
            if found in (WAITED, ABANDONED):
                self.system.ReleaseMutex(ctypes.c_void_p(handle))
                return False
            return True
        finally:
            self.system.CloseHandle(ctypes.c_void_p(handle))


class Functions:
    """The functions of this system by their names, wherever they are."""

    def __init__(self):
        self.libraries = {}

    def library(self, name):
        if name not in self.libraries:
            try:
                self.libraries[name] = ctypes.CDLL(f"{name}.dll", use_last_error=True)
            except OSError:
                self.libraries[name] = None
        return self.libraries[name]

    def __getattr__(self, name):
        for one in LIBRARIES:
            library = self.library(one)
            found = library and getattr(library, name, None)
            if found:
                found.restype = RESULTS.get(name, ctypes.c_int)
                setattr(self, name, found)
                return found
        raise AttributeError(name)


class Windows(Platform):
    name, suffix, giving_way, forks = "windows", ".dll", "SwitchToThread", False

    def __init__(self):
        self.functions = Functions()

    @property
    def target(self):
        return "x86_64-pc-windows-msvc" if platform.machine() == "AMD64" else ""

    def symbol(self, name):
        try:
            return ctypes.cast(getattr(self.functions, name), ctypes.c_void_p).value
        except AttributeError:
            raise RuntimeError(f"no symbol {name!r} in this process") from None

    def allocate(self, nbytes):
        return self.functions._aligned_malloc(ctypes.c_size_t(nbytes), ctypes.c_size_t(CACHE_LINE)) or 0

    def free(self, address):
        self.functions._aligned_free(ctypes.c_void_p(address))

    def virtual(self, address, nbytes, kind, how):
        return self.functions.VirtualAlloc(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), kind, how) or 0

    def pages(self, nbytes):
        return self.virtual(None, nbytes, RESERVE | COMMIT, READ_WRITE) if nbytes < 1 << 62 else 0

    def unmap(self, address, nbytes):
        self.functions.VirtualFree(ctypes.c_void_p(address), ctypes.c_size_t(0), RELEASE)

    def discard(self, address, nbytes):
        self.functions.VirtualFree(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), DECOMMIT)
        if not self.virtual(address, nbytes, COMMIT, READ_WRITE):
            raise MemoryError(f"no memory for {nbytes} bytes that were decommitted")

    def room(self, nbytes):
        return self.virtual(None, nbytes, RESERVE, NO_ACCESS)

    def forbid(self, address, nbytes, allowed):
        if not self.virtual(address, nbytes, COMMIT, READ_WRITE if allowed else NO_ACCESS):
            raise Refused("VirtualAlloc")
        self.protect(address, nbytes, READ_WRITE if allowed else NO_ACCESS)

    def protect(self, address, nbytes, how):
        before = ctypes.c_uint32()
        if not self.functions.VirtualProtect(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), how,
                                             ctypes.byref(before)):
            raise Refused("this system refuses to protect memory")

    def executable(self, address, nbytes):
        self.protect(address, nbytes, EXECUTE_READ)
        self.functions.FlushInstructionCache(ctypes.c_void_p(self.functions.GetCurrentProcess()),
                                             ctypes.c_void_p(address), ctypes.c_size_t(nbytes))

    def unwinding(self, table, rows, base):
        self.functions.RtlAddFunctionTable(ctypes.c_void_p(table), ctypes.c_uint32(rows), ctypes.c_uint64(base))

    def end_unwinding(self, table):
        self.functions.RtlDeleteFunctionTable(ctypes.c_void_p(table))

    def bytes_of_memory(self):
        status = MemoryStatus(length=ctypes.sizeof(MemoryStatus))
        if not self.functions.GlobalMemoryStatusEx(ctypes.byref(status)):
            raise Refused("GlobalMemoryStatusEx")
        return status.physical

    def thread_key(self, place):
        key = self.functions.TlsAlloc()
        if key == FULL:
            raise Refused("this process has no key left for what belongs to its threads")
        ctypes.c_uint32.from_address(place).value = key

    def thread_value(self, place, value):
        self.functions.TlsSetValue(ctypes.c_uint32.from_address(place), ctypes.c_void_p(value))

    def affinity(self) -> int:
        """A bit for each logical CPU of this process's group that it may run on."""
        own, all_ = ctypes.c_size_t(), ctypes.c_size_t()
        self.functions.GetProcessAffinityMask(ctypes.c_void_p(self.functions.GetCurrentProcess()), ctypes.byref(own),
                                              ctypes.byref(all_))
        return own.value

    @functools.cache
    def rows(self) -> list:
        """The system's rows on the CPUs of this process's group."""
        size = ctypes.c_uint32(0)
        self.functions.GetLogicalProcessorInformation(None, ctypes.byref(size))
        table = (ProcessorRow * (size.value // ctypes.sizeof(ProcessorRow)))()
        found = self.functions.GetLogicalProcessorInformation(table, ctypes.byref(size))
        return list(table) if found else []

    def processors(self):
        return self.affinity().bit_count() or os.cpu_count() or 1

    def cores(self):
        own = self.affinity()
        return sum(row.relationship == CORE and bool(row.mask & own) for row in self.rows()) or self.processors()

    def give_way(self):
        self.functions.SwitchToThread()

    def processor(self):
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, MACHINE) as key:
            told = {}
            for name in ("VendorIdentifier", "Identifier", "ProcessorNameString"):
                try:
                    told[name] = str(winreg.QueryValueEx(key, name)[0])
                except OSError:
                    told[name] = ""
        present = "".join(str(int(bool(self.functions.IsProcessorFeaturePresent(k)))) for k in range(64))
        return "\n".join([platform.machine(), f"vendor_id : {told['VendorIdentifier']}",
                          f"model name : {told['ProcessorNameString']}", told["Identifier"], present])

    def second_cache(self):
        return next((row.size for row in self.rows() if row.relationship == CACHE and row.level == 2), 0)

    @functools.cache
    def tiles(self):
        try:
            return bool(self.functions.EnableProcessOptionalXStateFeatures(ctypes.c_uint64(TILE_DATA)))
        except AttributeError:  # before Windows 11
            return False

    def machine(self):
        return f"{socket.gethostname()} {os.environ.get('USERNAME', '')} {os.environ.get('SESSIONNAME', '')}"

    def shared(self, nbytes):
        path = f"Local\\rushlight {os.getpid()} {next(WindowsShared.serial)} {secrets.token_hex(8)}"
        return WindowsShared(nbytes, path, self.functions)

    def opened(self, path, nbytes):
        return WindowsShared(nbytes, path, self.functions)

    def path_of(self, path):
        return os.path.normpath(url2pathname(path))

    @staticmethod
    def locked(file):
        while True:
            file.seek(0)
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
                return
            except OSError:
                time.sleep(0.01)
