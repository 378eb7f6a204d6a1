"""Shared objects of ELF for Linux, written without a linker: object files of our code generator, and data that
may point into them.

Layout: the tables that the dynamic loader reads; code and constants; stubs that jump to outside functions; then, on
pages that may be written, addresses and data; then read-only data on pages of its own, which are mapped and never
copied.  Addresses are places in the file.  ``core/llvm/relocation.py`` has what kinds of machines differ in.  Source:
System V ABI, chapters 4 and 5.
"""
from __future__ import annotations

import struct

from ..core.llvm.loader import ABSOLUTE, RELOCATIONS, SYMBOLS, ZEROED, Section
from ..core.llvm.pieces import Piece, placed, rounded
from ..core.llvm.relocation import Unknown
from . import image

LOAD, DYNAMIC, STACK = 1, 2, 0x6474E551  # kinds of program headers
NEEDED, HASH, STRINGS, SYMBOL_TABLE, RELA, RELA_BYTES, RELA_ENTRY, STRINGS_BYTES, SYMBOL_ENTRY, SONAME, RELA_COUNT = (
    1, 4, 5, 6, 7, 8, 9, 10, 11, 14, 0x6FFFFFF9)
INIT_ARRAY, FINI_ARRAY, INIT_BYTES, FINI_BYTES, BIND_NOW, FLAGS = 25, 26, 27, 28, 24, 30
LIBRARIES = ("libc.so.6", "libm.so.6")


class ObjectFile:
    """One object file: its sections as Pieces, its symbols, its relocations.  Unknown for what the code generator does
    not write."""

    def __init__(self, image: bytes, renamed: dict, machine):
        if image[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", image, 18)[0] != machine.number:
            raise Unknown(f"not an object file of ELF for the machine {machine.number}")
        start, = struct.unpack_from("<Q", image, 40)
        count, = struct.unpack_from("<H", image, 60)
        self.sections = [Section(row, image)
                         for row in struct.iter_unpack("<IIQQQQIIQQ", image[start:start + 64 * count])]
        self.pieces = [Piece(b"" if s.type == ZEROED else image[s.offset:s.offset + s.size], max(1, s.alignment),
                             s.writable, s.size) if s.allocated else None
                       for s in self.sections]
        table = next(s for s in self.sections if s.type == SYMBOLS)
        names = self.sections[table.link]
        self.symbols = [(names.text(name) if name else "", index, value, info >> 4)
                        for name, info, _, index, value, _ in table.rows("<IBBHQQ")]
        self.defined = {renamed.get(name, name): (self.pieces[index], value)
                        for name, index, value, binding in self.symbols
                        if binding and 0 < index < ABSOLUTE and self.pieces[index] and (name in renamed or not renamed)}

    def relocations(self):
        """(piece, offset, kind, symbol number, addend)."""
        for section in self.sections:
            target = self.pieces[section.info] if section.type == RELOCATIONS else None
            if target is not None:
                for offset, info, addend in section.rows("<QQq"):
                    yield target, offset, info & 0xFFFFFFFF, info >> 32, addend


class Image(image.Image):
    """A shared object."""

    def __init__(self, made, public, name, starts, ends):
        super().__init__(made, public, name, (n for o in made.objects for n, index, _, _ in o.symbols
                                              if n and index == 0 and n != "_GLOBAL_OFFSET_TABLE_"))
        self.starts, self.ends = starts, ends
        self.slots: dict = {}  # symbol of an object, or outside name -> its place in the table of addresses
        self.machine = made.format.machine
        self.page = self.machine.page
        self.lay_out()

    def lay_out(self):
        strings = bytearray(b"\0")
        self.strings = {}
        for text in (*self.outside, *self.public, *LIBRARIES, self.name):
            self.strings[text] = len(strings)
            strings += text.encode() + b"\0"
        self.string_table = bytes(strings)
        symbols = 1 + len(self.outside) + len(self.public)
        # most addresses that the table may hold
        entries = sum(len(o.symbols) for o in self.made.objects) + len(self.outside)
        pointers = sum(len(p.pointers) for p in self.made.data)
        at = 64 + 56 * 7
        self.hash_at = at = rounded(at, 8)
        self.symbols_at = at = rounded(at + 4 * (2 + 1 + symbols), 8)
        self.strings_at = at = at + 24 * symbols
        self.relocations_at = at = rounded(at + len(strings), 8)
        self.tables_end = at = at + 24 * (entries + pointers + len(self.starts) + len(self.ends))
        self.code_at = at = rounded(at, self.page)
        self.code_end = at = self.stubs_after(placed((p for p in self.code if not p.writable), at))
        self.slots_at = self.writable_at = at = rounded(at, self.page)
        self.calls_at = at = at + 8 * entries
        self.dynamic_at = at = rounded(at + 8 * (len(self.starts) + len(self.ends)), 16)
        at = placed([p for p in self.pieces if p.writable], at + 16 * 24)
        self.writable_end = at
        self.constants_at = at = rounded(at, self.page)
        self.end = placed((p for p in self.made.data if not p.writable), at)
        self.relocated: list = []

    def written(self) -> bytes:
        self.put_pieces(self.end)
        for o in self.made.objects:
            for relocation in o.relocations():
                self.relocate(o, *relocation)
        self.put_pointers()
        for k, name in enumerate((*self.starts, *self.ends)):
            self.pointer(self.calls_at + 8 * k, self.address(name))
        self.write_tables()
        self.write_headers()
        return bytes(self.out)

    def jump(self, at: int, name: str) -> bytes:
        return self.machine.jump(at, self.outside_slot(name))

    def pointer(self, place: int, address: int):
        struct.pack_into("<Q", self.out, place, address)
        self.relocated.append((place, self.machine.relative, address))

    def outside_slot(self, name: str) -> int:
        """The place of eight bytes with the address of an outside symbol."""
        if name not in self.slots:
            self.slots[name] = place = self.slots_at + 8 * len(self.slots)
            self.relocated.append((place, (1 + self.outside.index(name)) << 32 | self.machine.global_address, 0))
        return self.slots[name]

    def slot(self, o: ObjectFile, k: int) -> int:
        name = o.symbols[k][0]
        if o.symbols[k][1] == 0 and name in self.outside:
            return self.outside_slot(name)
        if (o, k) not in self.slots:
            self.slots[o, k] = place = self.slots_at + 8 * len(self.slots)
            self.pointer(place, self.target(o, k))
        return self.slots[o, k]

    def target(self, o: ObjectFile, k: int) -> int:
        """The address of a symbol of an object; of an outside function, that of its stub."""
        name, index, value, _ = o.symbols[k]
        if index == ABSOLUTE:
            return value
        if index:
            return o.pieces[index].place + value
        if name in self.made.defined:
            return self.address(name)
        return self.stub(name)

    def relocate(self, o, piece, offset, kind, k, addend):
        place, machine = piece.place + offset, self.machine
        if kind == machine.absolute and piece.writable:
            self.pointer(place, self.target(o, k) + addend)
        else:
            machine.apply(self, place, kind, Found(self, o, k), addend)

    def write_tables(self):
        symbols = [struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)]
        symbols += [struct.pack("<IBBHQQ", self.strings[n], 1 << 4, 0, 0, 0, 0) for n in self.outside]
        symbols += [struct.pack("<IBBHQQ", self.strings[n], 1 << 4 | 2, 0, 1, self.address(n), 0) for n in self.public]
        self.put(self.symbols_at, b"".join(symbols))
        self.put(self.strings_at, self.string_table)
        count, first = len(symbols), 1 + len(self.outside)  # one bucket: a chain of the public symbols
        chain = [0] * first + [k + 1 if k + 1 < count else 0 for k in range(first, count)]
        self.put(self.hash_at, struct.pack(f"<{3 + count}I", 1, count, first if self.public else 0, *chain))
        ordered = sorted(self.relocated, key=lambda row: row[1] != self.machine.relative)
        self.put(self.relocations_at, b"".join(struct.pack("<QQq", *row) for row in ordered))
        rows = [(NEEDED, self.strings[library]) for library in LIBRARIES] + [
            (SONAME, self.strings[self.name]), (HASH, self.hash_at), (STRINGS, self.strings_at),
            (SYMBOL_TABLE, self.symbols_at), (STRINGS_BYTES, len(self.string_table)),
            (SYMBOL_ENTRY, 24), (RELA, self.relocations_at), (RELA_BYTES, 24 * len(ordered)), (RELA_ENTRY, 24),
            (RELA_COUNT, sum(row[1] == self.machine.relative for row in ordered)), (INIT_ARRAY, self.calls_at),
            (INIT_BYTES, 8 * len(self.starts)),
            (FINI_ARRAY, self.calls_at + 8 * len(self.starts)), (FINI_BYTES, 8 * len(self.ends)), (FLAGS, 8), (0, 0)]
        rows = [row for row in rows if not (row[0] in (INIT_ARRAY, INIT_BYTES) and not self.starts
                                            or row[0] in (FINI_ARRAY, FINI_BYTES) and not self.ends)]
        self.put(self.dynamic_at, b"".join(struct.pack("<QQ", *row) for row in rows))
        self.dynamic_bytes = 16 * len(rows)

    def write_headers(self):
        R, W, X = 4, 2, 1
        segments = [(LOAD, R, 0, self.tables_end, self.page), (LOAD, R | X, self.code_at, self.code_end, self.page),
                    (LOAD, R | W, self.writable_at, self.writable_end, self.page),
                    (LOAD, R, self.constants_at, self.end, self.page),
                    (DYNAMIC, R | W, self.dynamic_at, self.dynamic_at + self.dynamic_bytes, 8),
                    (STACK, R | W, 0, 0, 16)]
        segments = [s for s in segments if s[3] > s[2] or s[0] == STACK]
        self.put(0, struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, self.machine.number, 1, 0, 64, 0,
                                0, 64, 56,
                                len(segments), 64, 0, 0))
        self.put(64, b"".join(struct.pack("<IIQQQQQQ", kind, flags, begin, begin, begin, end - begin, end - begin,
                                          alignment)
                              for kind, flags, begin, end, alignment in segments))


class Found:
    """A symbol of an object file in an Image."""

    def __init__(self, image: Image, o: ObjectFile, k: int):
        self.image, self.o, self.k = image, o, k

    def address(self) -> int:
        return self.image.target(self.o, self.k)

    def slot(self) -> int:
        """The place of eight bytes with its address."""
        return self.image.slot(self.o, self.k)


class Format:
    """Object files and shared objects of ELF for a kind of machine."""

    def __init__(self, machine):
        self.machine = machine

    def read(self, image, renamed):
        return ObjectFile(image, renamed, self.machine)

    def written(self, made, public, name, starts, ends) -> bytes:
        return Image(made, public, name, starts, ends).written()
