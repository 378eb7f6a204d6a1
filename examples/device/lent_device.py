"""A device in one file: memory that a library lends (here the C library), copies by its calls, programs that the
processor runs.

With this package installed, ``import rushlight as rl`` finds the device by its entry point, and
``rl.ones(3, device="lent")`` lies in lent memory.
"""
import ctypes
import threading
import types

import rushlight as rl
from rushlight.devices import Properties, Provider, host, register

library = ctypes.CDLL(None)  # a driver's library in real life
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
library.free.argtypes = (ctypes.c_void_p,)
library.memcpy.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Lent(Provider):
    """Some devices that lend memory, each up to a limit."""

    def __init__(self, count=2, room=1 << 28):
        self.number, self.room, self.lock = count, room, threading.Lock()
        self.lent, self.most, self.generators, self.own = [0] * count, [0] * count, {}, threading.local()

    # which devices there are
    def count(self):
        return self.number

    def properties(self, index):
        return Properties(f"lender {index}", self.room)

    def current(self):
        return getattr(self.own, "index", 0)

    def set_current(self, index):
        self.own.index = index

    # memory
    def allocate(self, index, nbytes):
        with self.lock:
            if self.lent[index] + nbytes > self.room:
                raise rl.OutOfMemoryError(
                    f"lender {index} lends {self.room} bytes, of which {self.lent[index]} are lent")
            self.lent[index] += nbytes
            self.most[index] = max(self.most[index], self.lent[index])
        return library.malloc(max(nbytes, 1))

    def free(self, index, address, nbytes):
        with self.lock:
            self.lent[index] -= nbytes
        library.free(address)

    def statistics(self, index):
        lent, most = self.lent[index], self.most[index]
        return {"allocated": lent, "most_allocated": most, "reserved": lent, "most_reserved": most}

    def reset_statistics(self, index):
        self.most[index] = self.lent[index]

    # copies: all of them are done when these return
    def upload(self, index, target, source, nbytes, non_blocking):
        library.memcpy(target, source, nbytes)

    download = upload

    # programs: the processor's, since it reaches this memory
    def run(self, index, code, values):
        host().run(0, code, values)

    def generator(self, index):
        if index not in self.generators:
            self.generators[index] = rl.Generator(rl.device(self.type, index))
        return self.generators[index]


def module_for(provider) -> types.ModuleType:
    """What users find under ``rl.lent``."""
    def index_of(given) -> int:
        if given is None:
            return provider.current()
        return given if isinstance(given, int) else rl.device(given).index

    module = types.ModuleType("lent", "The devices that lend memory.")
    module.is_available = lambda: provider.count() > 0
    module.device_count = provider.count
    module.current_device = provider.current
    module.set_device = lambda device: provider.set_current(index_of(device))
    module.memory_allocated = lambda device=None: provider.statistics(index_of(device))["allocated"]
    return module


def activate():
    """What the entry point calls when ``rushlight`` is imported."""
    provider = Lent()
    rl.utils.rename_privateuse1_backend("lent")
    register(provider)
    rl._register_device_module("lent", module_for(provider))
    rl.utils.generate_methods_for_privateuse1_backend()
