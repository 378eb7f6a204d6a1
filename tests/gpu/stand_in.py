"""A driver's library of which only tests know: memory of the process, and a list of what was asked.

Machine code is the name of a module; a launch runs it by Triton's interpreter, or only notes it.
"""
from __future__ import annotations

import collections
import ctypes
import itertools

from rushlight._src.core.devices import Registry
from rushlight._src.devices.triton import board as boards
from rushlight._src.devices.triton.binaries import Binary
from rushlight._src.devices.triton.driver import COMMON, NVIDIA, Driver
from rushlight._src.devices.triton.provider import GPUs

TOTAL = 1 << 34
INVALID, NO_MEMORY = 1, 2
EVENT, STREAM = 1 << 40, 1 << 41  # from here on handles of events and of streams are counted


def written(pointer, value):
    """Writes what an entry gives to where its first argument points."""
    ctypes.cast(pointer, ctypes.POINTER(ctypes.c_void_p))[0] = value


class Library:
    """The entries by their names in NVIDIA's library, as C functions.

    ``blocks``: bytes of each block of memory; ``asked``: how often each entry was called; ``order``: (entry, stream) of
    copies, launches and marks.  ``run(entry name, number of programs, arguments)`` does a launch.
    """

    def __init__(self, devices=2, run=None):
        self.devices, self.run, self.blocks, self.held = devices, run, {}, {}
        self.asked, self.order, self.handles = collections.Counter(), [], itertools.count(1)
        self.kernels, self.events, self.streams, self.reserved, self.limit = {}, set(), set(), 0, TOTAL
        self.failure = None
        kinds = {name: COMMON[entry] for entry, name in NVIDIA.names.items()}
        kinds |= {"cuGetErrorString": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
                  "cuDevicePrimaryCtxRetain": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_int),
                  "cuCtxSetCurrent": (ctypes.c_void_p,)}
        for name, types in kinds.items():
            entry = next((entry for entry, own in NVIDIA.names.items() if own == name), name)
            setattr(self, name, ctypes.CFUNCTYPE(ctypes.c_int, *types)(self.counted(entry)))

    def counted(self, entry):
        function = getattr(self, f"do_{entry}", lambda *given: 0)

        def call(*given):
            self.asked[entry] += 1
            if entry in ("upload", "download", "copy", "fill"):
                self.order.append((entry, given[-1] or 0))
            try:
                return function(*given) or 0
            except Exception as reason:  # noqa: BLE001 - exceptions do not cross C functions
                self.failure = reason
                return INVALID

        return call

    def do_cuGetErrorString(self, status, out):
        out[0] = b"out of memory" if status == NO_MEMORY else repr(self.failure).encode()

    def do_cuDevicePrimaryCtxRetain(self, out, index):
        out[0] = index + 1

    def do_count(self, out):
        out[0] = self.devices

    def do_name(self, text, size, index):
        ctypes.memmove(text, b"a stand-in\0", 11)

    def do_total(self, out, index):
        out[0] = TOTAL

    def do_attribute(self, out, number, index):
        out[0] = {75: 9, 76: 0, 16: 4}[number]

    # --- memory --------------------------------------------------
    def do_allocate(self, out, nbytes):
        if self.reserved + nbytes > self.limit:
            return NO_MEMORY
        held = ctypes.create_string_buffer(nbytes + 512)
        address = ctypes.addressof(held) + 511 & -512
        self.held[address], self.blocks[address] = held, nbytes
        self.reserved += nbytes
        written(out, address)
        return 0

    def do_free(self, address):
        self.reserved -= self.blocks.pop(address)
        del self.held[address]

    def do_information(self, free, total):
        free[0], total[0] = TOTAL - self.reserved, TOTAL

    do_unpin = do_free

    def do_pin(self, out, nbytes, flags):
        return self.do_allocate(out, nbytes)

    def do_upload(self, target, source, nbytes, stream):
        ctypes.memmove(target, source, nbytes)

    do_download = do_copy = do_upload

    def do_fill(self, target, value, nbytes, stream):
        ctypes.memset(target, value, nbytes)

    # --- streams and events --------------------------------------------------
    def do_stream(self, out, flags, priority):
        handle = STREAM + next(self.handles)
        self.streams.add(handle)
        written(out, handle)

    def do_event(self, out, flags):
        handle = EVENT + next(self.handles)
        self.events.add(handle)
        written(out, handle)

    def do_event_free(self, handle):
        self.events.remove(handle)

    def do_event_mark(self, handle, stream):
        self.order.append(("mark", stream or 0))

    def do_event_before(self, stream, handle, flags):
        self.order.append(("wait", stream or 0))

    def do_event_elapsed(self, out, first, last):
        out[0] = float(last - first)

    # --- kernels --------------------------------------------------
    def do_load(self, out, code):
        handle = next(self.handles)
        self.kernels[handle] = ctypes.string_at(code)
        written(out, handle)

    def do_function(self, out, module, name):
        written(out, module)

    def do_launch(self, handle, x, y, z, threads, ty, tz, shared, stream, pointers, extra):
        self.order.append(("launch", stream or 0))
        if self.run is not None:
            given = ctypes.cast(pointers, ctypes.POINTER(ctypes.POINTER(ctypes.c_int64)))
            self.run(self.kernels[handle].decode(), x, lambda count: [given[k][0] for k in range(count)])


class Names:
    """Modules and variants by the name that stands for their machine code."""

    def __init__(self):
        self.known = {}

    def binary(self, module, variant, architecture):
        name = f"{module.name} {variant}"
        self.known[name] = module, variant
        return Binary(name.encode() + b"\0", module.name, 0, 32 * module.warps_of(variant.block))

    def run(self, name, programs, arguments):
        """A launch by the interpreter."""
        from .interpreter import launched

        module, variant = self.known[name]
        count = len(module.signature(False)) - len(module.constants(variant.block))
        launched(module, programs, variant.block, arguments(count), variant.wide)


def provided(monkeypatch, kind="cuda", devices=2, computes=True):
    """(the provider "cuda" over a stand-in's library, the library)."""
    names = Names()
    library = Library(devices, names.run if computes else None)
    monkeypatch.setattr(boards, "binary", names.binary)
    made = GPUs(Driver(NVIDIA, library), kind)
    Registry.enter(kind, made)
    return made, library
