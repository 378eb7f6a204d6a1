"""macOS."""
from __future__ import annotations

import ctypes
import fcntl
import os
import platform

from .posix import Posix, PosixShared

SYMBOLS = {"neon": "neon", "fullfp16": "arm.FEAT_FP16", "dotprod": "arm.FEAT_DotProd", "i8mm": "arm.FEAT_I8MM",
           "bf16": "arm.FEAT_BF16"}  # LLVM's names for the CPU features that this system reports


class MacShared(PosixShared):
    # struct flock: start, length, process, type, whence
    form, kind = "qqihh", 3

    def row(self, k):
        return k, 1, 0, fcntl.F_WRLCK, os.SEEK_SET

    def told(self):
        function, (file, nbytes) = super().told()
        return MacShared.given, (file, nbytes)

    @staticmethod
    def given(file, nbytes):
        return MacShared(file.detach(), nbytes)


class MacOS(Posix):
    name, suffix = "macos", ".dylib"
    key = ctypes.c_ulong
    sharing = MacShared

    @property
    def target(self):
        return "arm64-apple-darwin" if platform.machine() == "arm64" else ""

    def number(self, name: str) -> int:
        """A number that this system knows by a name; 0 where it does not."""
        value, size = ctypes.c_int64(0), ctypes.c_size_t(8)
        wrong = self.library.sysctlbyname(name.encode(), ctypes.byref(value), ctypes.byref(size), None,
                                          ctypes.c_size_t(0))
        return 0 if wrong else value.value

    def text(self, name: str) -> str:
        value, size = ctypes.create_string_buffer(256), ctypes.c_size_t(256)
        wrong = self.library.sysctlbyname(name.encode(), value, ctypes.byref(size), None, ctypes.c_size_t(0))
        return "" if wrong else value.value.decode(errors="replace")

    def executable(self, address, nbytes):
        super().executable(address, nbytes)
        if platform.machine() == "arm64":  # written code may not have reached the instruction cache
            self.library.sys_icache_invalidate(ctypes.c_void_p(address), ctypes.c_size_t(nbytes))

    def bytes_of_memory(self):
        return self.number("hw.memsize")

    def cores(self):
        """The fast ones, where there are two kinds."""
        return self.number("hw.perflevel0.physicalcpu") or self.number("hw.physicalcpu") or self.processors()

    def processor(self):
        maker = self.text("machdep.cpu.vendor") or "Apple"
        return "\n".join([platform.machine(), f"vendor_id : {maker}",
                          f"model name : {self.text('machdep.cpu.brand_string')}",
                          self.text("machdep.cpu.features"), self.text("machdep.cpu.leaf7_features"),
                          self.text("kern.osrelease")])

    def features(self):
        if platform.machine() != "arm64":
            return {}
        return {name: self.number(f"hw.optional.{key}") != 0 for name, key in SYMBOLS.items()}

    def second_cache(self):
        """A core's part of it: several share it."""
        whole = self.number("hw.perflevel0.l2cachesize") or self.number("hw.l2cachesize")
        return whole // max(1, self.number("hw.perflevel0.cpusperl2"))
