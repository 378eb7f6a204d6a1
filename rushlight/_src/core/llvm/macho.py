"""Object files of Mach-O for 64-bit ARM, as our code generator writes them for macOS: packages and the loader read
them.

Sources: Apple's mach-o/loader.h, nlist.h, arm64/reloc.h.
"""
from __future__ import annotations

import struct

from .pieces import Piece
from .relocation import Unknown, branch, low, pages

MAGIC, ARM64, OBJECT = 0xFEEDFACF, 0x100000C, 1
SEGMENT, SYMBOLS = 0x19, 2  # load commands
UNSIGNED, SUBTRACTED, BRANCH, PAGE_OF, LOW, GOT_PAGE, GOT_LOW, ADDEND = 0, 1, 2, 3, 4, 5, 6, 10
EXTERNAL, DEFINED = 1, 0xE  # of a symbol's type


class ObjectFile:
    """One object file: its sections as Pieces, its symbols, its relocations. Raises Unknown for features that the code
    generator does not emit."""

    def __init__(self, image: bytes, renamed: dict):
        magic, machine, _, kind, count, _, _, _ = struct.unpack_from("<8I", image)
        if (magic, machine, kind) != (MAGIC, ARM64, OBJECT):
            raise Unknown("not an object file of Mach-O for 64-bit ARM")
        self.pieces, self.starts, self.rows, self.symbols, at = [], [], [], [], 32
        for _ in range(count):
            command, nbytes = struct.unpack_from("<II", image, at)
            if command == SEGMENT:
                for k in range(struct.unpack_from("<I", image, at + 64)[0]):
                    self.read_section(image, at + 72 + 80 * k)
            elif command == SYMBOLS:
                self.read_symbols(image, *struct.unpack_from("<4I", image, at + 8))
            at += nbytes
        self.defined = {renamed.get(name, name): (self.pieces[section - 1], value - self.starts[section - 1])
                        for name, kind, section, value in self.symbols
                        if kind & EXTERNAL and section and self.pieces[section - 1]
                        and (name in renamed or not renamed)}

    def read_section(self, image, at):
        _, segment, start, size, place, alignment, relocations, count, flags, *_ = struct.unpack_from(
            "<16s16sQQ8I", image, at)
        segment, zeroed = segment.rstrip(b"\0"), flags & 255 in (1, 12)
        kept = size and segment in (b"__TEXT", b"__DATA")
        data = b"" if zeroed else image[place:place + size]
        piece = Piece(data, 1 << alignment, segment == b"__DATA", size) if kept else None
        self.pieces.append(piece)
        self.starts.append(start)
        rows = list(struct.iter_unpack("<iI", image[relocations:relocations + 8 * count])) if kept else []
        self.rows += [(piece, offset, told >> 28, told >> 27 & 1, told >> 25 & 3, told & 0xFFFFFF)
                      for offset, told in rows]

    def read_symbols(self, image, at, count, strings, _):
        for name, kind, section, _, value in struct.iter_unpack("<IBBHQ", image[at:at + 16 * count]):
            text = image[strings + name:image.index(b"\0", strings + name)].decode()
            self.symbols.append((text.removeprefix("_"), kind, section if kind & 0xE == DEFINED else 0, value))

    def outside(self) -> list:
        """The names that other files, or the system, have."""
        return [name for name, _, section, _ in self.symbols if not section]

    def place_of(self, k: int):
        """The position of symbol ``k``; None for an outside one."""
        _, _, section, value = self.symbols[k]
        return self.pieces[section - 1].place + value - self.starts[section - 1] if section else None

    def relocate(self, image):
        """Apply the relocations, as ``coff.ObjectFile`` does; ``image.slot(file, k)`` is the place of eight bytes with
        the address of a symbol."""
        addend, less = 0, None
        for piece, offset, kind, outer, length, k in self.rows:
            place = piece.place + offset
            if kind == ADDEND:
                addend = k - (1 << 24) if k >> 23 else k
            elif kind == SUBTRACTED:
                less = image.target(self, k)
            elif kind == UNSIGNED:
                self.number(image, piece, place, outer, length, k, less)
                less = None
            else:
                self.instruction(image, place, kind, k, addend)
                addend = 0

    def number(self, image, piece, place, outer, length, k, less):
        form = "<q" if length == 3 else "<i"
        held, = struct.unpack_from(form, image.out, place)
        if not outer:  # a section, by its number, and an address within it
            held, k = held - self.starts[k - 1], -k
        if less is not None:
            struct.pack_into(form, image.out, place, self.begin(image, k) + held - less)
        elif length == 3:
            image.absolute(place, self, k, held, piece.writable)
        else:
            raise Unknown("an address of four bytes")

    def begin(self, image, k):
        """The place of a symbol, or of the section of number ``-k``."""
        return image.target(self, k) if k >= 0 else self.pieces[-k - 1].place

    def instruction(self, image, place, kind, k, addend):
        word, = struct.unpack_from("<I", image.out, place)
        if kind == BRANCH:
            word = branch(word, image.target(self, k) + addend, place)
        elif kind in (PAGE_OF, GOT_PAGE):
            word = pages(word, image.target(self, k) + addend if kind == PAGE_OF else image.slot(self, k), place)
        elif kind in (LOW, GOT_LOW):
            word = low(word, image.target(self, k) + addend if kind == LOW else image.slot(self, k), scale(word))
        else:
            raise Unknown(f"relocation {kind}")
        struct.pack_into("<I", image.out, place, word)


def scale(word: int) -> int:
    """The power of two by which an instruction's offset counts: 0 where it adds."""
    if word & 0x1F000000 == 0x11000000:
        return 0
    return 4 if word & 0x04800000 == 0x04800000 and not word >> 30 else word >> 30
