"""Shared objects being written: object files of our code generator, and data that may point into them."""
from __future__ import annotations

from ..core.llvm.pieces import Piece
from ..core.llvm.relocation import Arm64, X86
from ..devices.cpu.llvm.features import ARM, LINUX, MAC, WASM, WINDOWS
from . import elf, macho, pe, wasm

FORMATS = {LINUX: elf.Format(X86()), ARM: elf.Format(Arm64()), WASM: wasm.Format(),
           WINDOWS: pe.Format(), MAC: macho.Format()}
"""How object files are read (``read``) and a library is written (``written``), by kind of machine."""


class SharedObject:
    """A shared object being written: ``add_object`` and ``add_data``, then ``image``."""

    def __init__(self, target=LINUX):
        self.format, self.objects, self.data, self.defined = FORMATS[target], [], [], {}

    def add_object(self, image: bytes, renamed=None):
        """Adds an object file.  ``renamed``: {its symbol: the name by which others find it}; with it, all its other
        symbols are its own."""
        made = self.format.read(image, renamed or {})
        self.objects.append(made)
        self.define(made.defined)

    def add_data(self, name: str, data: bytes, alignment=64, writable=False, pointers=None):
        """Adds bytes under a name.  What holds ``pointers``, {offset: (name, addend)}, is filled in when the object is
        loaded."""
        piece = Piece(bytes(data), alignment, writable or bool(pointers), None, pointers)
        self.data.append(piece)
        self.define({name: (piece, 0)})

    def define(self, names: dict):
        twice = self.defined.keys() & names.keys()
        if twice:
            raise ValueError(f"two parts of a shared object define {', '.join(sorted(twice))}")
        self.defined |= names

    def image(self, public, name: str, starts=(), ends=()) -> bytes:
        """The file.  ``public``: names that others may look up; ``starts``, ``ends``: functions to be called when it is
        loaded, and when it goes."""
        return self.format.written(self, list(public), name, list(starts), list(ends))
