"""Weights in a separate file, in the order in which a package has them: a header, then bytes that are mapped, and never
copied.

The header (64 bytes): "RLWEIGHT", the bytes that follow it, their checksum (``entry.write_checksum``), 0, their
SHA-256.  A model takes weights whose header is the one it was packaged with.
"""
from __future__ import annotations

import ctypes
import hashlib
import struct

from ..core.cached import cached_property
from ..core.llvm.loaded import callable_at
from ..core.tensor import place
from ..devices.cpu.llvm import jit
from ..devices.cpu.llvm.builder import Module
from . import entry

MAGIC = b"RLWEIGHT"
ALIGNMENT = 64


class Weights:
    """``values``: (number of a constant, tensor).  ``places``: the offset of each after the header, in bytes."""

    def __init__(self, values):
        self.values, self.places, at, shared = values, {}, 0, {}
        self.parts = []  # (address, bytes, bytes that fill it up)
        for k, value in values:
            where = place(value), value._rush_meta.nbytes
            if where in shared:  # parameters that are tied
                self.places[k] = shared[where]
                continue
            room = -(-where[1] // ALIGNMENT) * ALIGNMENT
            self.places[k] = shared[where] = at
            self.parts.append((*where, room - where[1]))
            at += room
        self.nbytes = at

    def blocks(self):
        """The bytes, part by part."""
        for start, nbytes, fill in self.parts:
            if nbytes:
                yield memoryview((ctypes.c_char * nbytes).from_address(start)).cast("B")
            if fill:
                yield bytes(fill)

    @cached_property
    def sha256(self) -> str:
        made = hashlib.sha256()
        for block in self.blocks():
            made.update(block)
        return made.hexdigest()

    @cached_property
    def header(self) -> bytes:
        """The first 64 bytes of the file."""
        return MAGIC + struct.pack("<qqq", self.nbytes, self.checksum(), 0) + bytes.fromhex(self.sha256)

    def marks(self) -> tuple:
        """Return the parts of a shared object that depend on the weights' contents."""
        return self.header, self.sha256.encode()

    def checksum(self) -> int:
        """What ``rl_verify`` computes."""
        sums = Sums()
        for start, nbytes, fill in self.parts:
            whole = nbytes // ALIGNMENT * ALIGNMENT
            sums.take(start, whole)
            if fill:
                rest = ctypes.create_string_buffer(ctypes.string_at(start + whole, nbytes - whole), ALIGNMENT)
                sums.take(ctypes.addressof(rest), ALIGNMENT)
        return sums.total()


class Sums:
    """The checksum of bytes that come in parts."""

    def __init__(self):
        self.lanes = (ctypes.c_int64 * entry.LANES)(*range(1, entry.LANES + 1))
        self.function = callable_at(jit.build("weights sum", sums_text, ["weights_part"])["weights_part"],
                                    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p))

    def take(self, start: int, nbytes: int):
        """Adds bytes at an address, a multiple of 64."""
        self.function(start, nbytes, ctypes.addressof(self.lanes))

    def total(self) -> int:
        total, mask = 0, (1 << 64) - 1
        for one in self.lanes:
            total = (total ^ one & mask) * entry.FACTOR & mask
        return total - (1 << 64) if total >> 63 else total


def sums_text() -> str:
    """weights_part(data, bytes, sums): the sums after more bytes."""
    module = Module()
    entry.write_checksum(module)
    return module.text()
