"""Virtual memory of a GPU: addresses that are reserved, mapped part by part, and released."""

from __future__ import annotations

import ctypes

P, Z, I, L = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_ulonglong
PINNED, DEVICE, READ_AND_WRITE, RECOMMENDED = 1, 1, 3, 1


class Properties(ctypes.Structure):
    """CUmemAllocationProp, hipMemAllocationProp: memory on a device."""

    _fields_ = [("kind", I), ("handles", I), ("place", I), ("index", I), ("windows", P), ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    """CUmemAccessDesc, hipMemAccessDesc: who may do what with mapped memory."""

    _fields_ = [("place", I), ("index", I), ("flags", I)]


ENTRIES = {  # types of the arguments of an entry; its name after "cu" or "hip"
    "MemGetAllocationGranularity": (P, P, I), "MemAddressReserve": (P, Z, Z, P, L), "MemAddressFree": (P, Z),
    "MemCreate": (P, Z, P, L), "MemRelease": (P,), "MemMap": (P, Z, Z, P, L), "MemUnmap": (P, Z),
    "MemSetAccess": (P, Z, P, Z),
}


class VirtualMemory:
    """The entries of a driver for one device.  NotImplementedError where the driver has none."""

    def __init__(self, driver, index: int):
        self.driver, self.index, self.entries = driver, index, {}
        prefix = "cu" if driver.vendor.kind == "cuda" else "hip"
        for name, types in ENTRIES.items():
            try:
                found = getattr(driver.library, prefix + name)
            except AttributeError:
                raise NotImplementedError(f"the driver has no {prefix + name}") from None
            found.restype, found.argtypes = I, types
            self.entries[name] = prefix + name, found
        self.properties = Properties(PINNED, 0, DEVICE, index)
        self.access = Access(DEVICE, index, READ_AND_WRITE)
        least = Z()
        with driver.at(index):
            status = self.entries["MemGetAllocationGranularity"][1](
                ctypes.byref(least), ctypes.byref(self.properties), RECOMMENDED)
        if status:
            raise NotImplementedError(f"the device has no virtual memory ({driver.words(status)})")
        self.least = least.value  # all sizes are multiples of this

    def call(self, name: str, *given):
        full, entry = self.entries[name]
        with self.driver.at(self.index), self.driver.relaxed():
            status = entry(*given)
        if status:
            self.driver.failed(full, status)

    def made(self, name: str, *given) -> int:
        """Return the handle that an entry writes to its first argument."""
        out = P()
        self.call(name, ctypes.byref(out), *given)
        return out.value or 0

    def reserve(self, nbytes: int) -> int:
        """Reserve ``nbytes`` bytes of addresses without memory and return the first."""
        return self.made("MemAddressReserve", nbytes, 0, None, 0)

    def forget(self, address: int, nbytes: int):
        """Release addresses of ``reserve``; nothing is mapped there."""
        self.call("MemAddressFree", address, nbytes)

    def back(self, address: int, nbytes: int) -> int:
        """Map memory at addresses.  Return its handle; OutOfMemoryError if the device has no more."""
        handle = self.made("MemCreate", nbytes, ctypes.byref(self.properties), 0)
        mapped = False
        try:
            self.call("MemMap", address, nbytes, 0, handle, 0)
            mapped = True
            self.call("MemSetAccess", address, nbytes, ctypes.byref(self.access), 1)
        except BaseException:
            if mapped:
                self.call("MemUnmap", address, nbytes)
            self.call("MemRelease", handle)
            raise
        return handle

    def bare(self, address: int, nbytes: int, handle: int):
        """Unmap the memory at addresses, which no work on the device may still use."""
        self.call("MemUnmap", address, nbytes)
        self.call("MemRelease", handle)
