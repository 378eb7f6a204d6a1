"""Object files of COFF, as our code generator writes them for Windows on x86-64: packages and the loader read them.

Source: Microsoft's PE Format.
"""
from __future__ import annotations

import struct

from .pieces import Piece
from .relocation import Unknown

MACHINE, SECTION = 0x8664, 40  # number of x86-64, bytes of a section's header
ZEROED, INFO, REMOVED, COMDAT, DISCARDED, WRITABLE = 0x80, 0x200, 0x800, 0x1000, 1 << 25, 1 << 31
ADDRESS, NUMBER, RELATIVE = 1, 3, range(4, 10)  # relocations: 8 bytes, from the base, PC-relative
PROVIDED = "_fltused", "@feat.00"  # marks without an address
FRAMES = b".pdata"  # how the frames of functions are unwound


class ObjectFile:
    """One object file: its sections as Pieces, its symbols, its relocations. Raises Unknown for features that the code
    generator does not emit."""

    def __init__(self, image: bytes, renamed: dict):
        machine, count, _, table, symbols, optional, _ = struct.unpack_from("<HHIIIHH", image)
        if machine != MACHINE or optional:
            raise Unknown("not an object file of COFF for x86-64")
        strings = table + 18 * symbols
        self.pieces, self.rows, self.comdats, self.frames = [], [], [], None
        for k in range(count):
            name, _, _, size, at, relocations, _, found, _, flags = struct.unpack_from("<8s6I2HI", image,
                                                                                       20 + SECTION * k)
            kept = size and not flags & (INFO | REMOVED | DISCARDED)
            data = b"" if flags & ZEROED else image[at:at + size]
            alignment = 1 << max(0, (flags >> 20 & 15) - 1)
            self.pieces.append(Piece(data, alignment, bool(flags & WRITABLE), size) if kept else None)
            self.comdats.append(bool(flags & COMDAT))
            if name.rstrip(b"\0") == FRAMES:
                self.frames = self.pieces[-1]
            rows = struct.iter_unpack("<IIH", image[relocations:relocations + 10 * found])
            self.rows += [(self.pieces[-1], *row) for row in rows if kept]
        self.symbols, more = [], 0
        for name, value, section, _, kind, others in struct.iter_unpack("<8sIhHBB", image[table:strings]):
            if more:  # auxiliary records of the symbol before
                more -= 1
                self.symbols.append(None)
                continue
            first, offset = struct.unpack("<II", name)
            long = image[strings + offset:image.index(b"\0", strings + offset)] if not first else name.rstrip(b"\0")
            self.symbols.append((long.decode(), section, value, kind))
            more = others
        self.defined = {renamed.get(name, name): (self.pieces[section - 1], value)
                        for name, section, value, kind in filter(None, self.symbols)
                        if kind == 2 and section > 0 and not self.comdats[section - 1]
                        and self.pieces[section - 1] and (name in renamed or not renamed)}

    def outside(self) -> list:
        """The names that other files, or the system, have."""
        return [name for name, section, _, _ in filter(None, self.symbols) if section == 0 and name not in PROVIDED]

    def place_of(self, k: int):
        """The position of symbol ``k``; None for an outside one."""
        _, section, value, _ = self.symbols[k]
        return self.pieces[section - 1].place + value if section > 0 else None

    def relocate(self, image):
        """Apply the relocations, with places relative to the beginning of an image: ``image`` has its bytes (``out``),
        the place of a symbol or of a jump there (``target(file, k)``), and writes eight bytes that hold an address
        (``absolute(place, file, k, addend, writable)``)."""
        for piece, offset, k, kind in self.rows:
            place = piece.place + offset
            held, = struct.unpack_from("<i", image.out, place)
            if kind in RELATIVE:
                struct.pack_into("<i", image.out, place,
                                 image.target(self, k) + held - place - 4 - (kind - RELATIVE[0]))
            elif kind == NUMBER:
                struct.pack_into("<I", image.out, place, image.target(self, k) + held)
            elif kind == ADDRESS:
                image.absolute(place, self, k, struct.unpack_from("<q", image.out, place)[0], piece.writable)
            else:
                raise Unknown(f"relocation {kind}")

    def begin(self, image, k):
        """The place of a symbol."""
        return image.target(self, k)
