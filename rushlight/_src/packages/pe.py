"""Libraries of Windows (PE32+), written without a linker: object files of COFF from our code generator, and data that
may point into them.

Places in the file are places in memory from the library's base on.  Layout: headers; code and constants with jumps to
outside functions; addresses and data that may be written, the table of imported addresses among them; read-only data
with the directories of imports and exports; base relocations.  Source: Microsoft's PE Format.
"""
from __future__ import annotations

import struct

from ..core.llvm.relocation import Unknown
from .pieces import Piece, placed, rounded

PAGE, BASE = 4096, 0x180000000
MACHINE, OPTIONAL, SECTION = 0x8664, 240, 40  # number of x86-64, bytes of an optional header and of a section's
CODE, ZEROED, INFO, REMOVED, COMDAT, DISCARDED, WRITABLE = 0x20, 0x80, 0x200, 0x800, 0x1000, 1 << 25, 1 << 31
READ, EXECUTE, INITIALIZED = 1 << 30, 1 << 29, 0x40
ADDRESS, NUMBER, RELATIVE = 1, 3, range(4, 10)  # relocations: eight bytes, from the base, from what follows
LIBRARIES = {
    "kernel32.dll": ("CreateThread", "WaitForSingleObject", "CloseHandle", "GetActiveProcessorCount", "CreateFileA",
                     "GetFileSizeEx", "CreateFileMappingA", "MapViewOfFile", "UnmapViewOfFile", "GetModuleHandleExA"),
    "api-ms-win-core-synch-l1-2-0.dll": ("WaitOnAddress", "WakeByAddressAll")}
REST = "ucrtbase.dll"  # C's library
PROVIDED = "_fltused", "@feat.00"  # marks without an address


class ObjectFile:
    """One object file: its sections as Pieces, its symbols, its relocations.  Unknown for what the code generator does
    not write."""

    def __init__(self, image: bytes, renamed: dict):
        machine, count, _, table, symbols, optional, _ = struct.unpack_from("<HHIIIHH", image)
        if machine != MACHINE or optional:
            raise Unknown("not an object file of COFF for x86-64")
        strings = table + 18 * symbols
        self.pieces, self.rows, self.comdats = [], [], []
        for k in range(count):
            _, _, _, size, at, relocations, _, found, _, flags = struct.unpack_from("<8s6I2HI", image, 20 + SECTION * k)
            kept = size and not flags & (INFO | REMOVED | DISCARDED)
            data = b"" if flags & ZEROED else image[at:at + size]
            alignment = 1 << max(0, (flags >> 20 & 15) - 1)
            self.pieces.append(Piece(data, alignment, bool(flags & WRITABLE), size) if kept else None)
            self.comdats.append(bool(flags & COMDAT))
            rows = struct.iter_unpack("<IIH", image[relocations:relocations + 10 * found])
            self.rows += [(self.pieces[-1], *row) for row in rows if kept]
        self.symbols, more = [], 0
        for name, value, section, _, kind, others in struct.iter_unpack("<8sIhHBB", image[table:strings]):
            if more:  # what tells more of the symbol before
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


class Image:
    """Where everything lies in the library, and its bytes."""

    def __init__(self, made, public, name, start):
        self.made, self.public, self.name, self.start = made, sorted(public), name, start
        self.outside = list(dict.fromkeys(s[0] for o in made.objects for s in o.symbols if s and s[1] == 0
                                          and s[0] not in made.defined and s[0] not in PROVIDED))
        self.imported: dict = {}
        for one in self.outside:
            library = next((k for k, names in LIBRARIES.items() if one in names), REST)
            self.imported.setdefault(library, []).append(one)
        self.lay_out()

    def lay_out(self):
        pieces = [p for o in self.made.objects for p in o.pieces if p is not None]
        self.pieces = [*pieces, *self.made.data]
        at = placed((p for p in pieces if not p.writable), PAGE)
        self.stubs_at = rounded(at, 16)
        self.code_end = self.stubs_at + 8 * len(self.outside)
        self.slots_at = self.writable_at = rounded(self.code_end, PAGE)
        self.slots, at = {}, self.slots_at
        for names in self.imported.values():
            for one in names:
                self.slots[one] = at
                at += 8
            at += 8  # 0 ends those of a library
        self.slots_end = at
        self.writable_end = placed((p for p in self.pieces if p.writable), at)
        self.constants_at = rounded(self.writable_end, PAGE)
        at = placed((p for p in self.made.data if not p.writable), self.constants_at)
        self.imports_at = rounded(at, 16)
        self.imports = self.import_directory(self.imports_at)
        self.exports_at = rounded(self.imports_at + len(self.imports), 16)
        self.exports = self.export_directory(self.exports_at)
        self.constants_end = self.exports_at + len(self.exports)
        self.relocations_at = rounded(self.constants_end, PAGE)
        self.relocated: list = []

    def import_directory(self, at: int) -> bytes:
        """The libraries, for each the names of its functions; the table of addresses holds the same until loaded."""
        head = 20 * (1 + len(self.imported))
        rows, names, tables, place = [], bytearray(), bytearray(), at + head
        tables_bytes = sum(8 * (1 + len(found)) for found in self.imported.values())
        self.hints = {}
        for library, found in self.imported.items():
            first, table = self.slots[found[0]], place + len(tables)
            for one in found:
                self.hints[one] = place + tables_bytes + len(names)
                tables += struct.pack("<Q", self.hints[one])
                names += b"\0\0" + one.encode() + b"\0"
                names += bytes(len(names) % 2)
            tables += bytes(8)
            rows.append(struct.pack("<IIIII", table, 0, 0, place + tables_bytes + len(names), first))
            names += library.encode() + b"\0"
            names += bytes(len(names) % 2)
        return b"".join(rows) + bytes(20) + bytes(tables) + bytes(names)

    def export_directory(self, at: int) -> bytes:
        count = len(self.public)
        names_at = at + 40 + 10 * count
        text, starts = bytearray(self.name.encode() + b"\0"), []
        for one in self.public:
            starts.append(names_at + len(text))
            text += one.encode() + b"\0"
        head = struct.pack("<IIHHIIIIIII", 0, 0, 0, 0, names_at, 1, count, count, at + 40, at + 40 + 4 * count,
                           at + 40 + 8 * count)
        return head + struct.pack(f"<{count}I{count}I{count}H", *map(self.address, self.public), *starts,
                                  *range(count)) + bytes(text)

    def address(self, name: str) -> int:
        piece, value = self.made.defined[name]
        return piece.place + value

    def target(self, o: ObjectFile, k: int) -> int:
        """The place of a symbol; of an outside function, that of the jump to it."""
        name, section, value, _ = o.symbols[k]
        if section > 0:
            return o.pieces[section - 1].place + value
        if name in self.made.defined:
            return self.address(name)
        if name not in self.slots:
            raise Unknown(f"the symbol {name} has no address")
        return self.stubs_at + 8 * self.outside.index(name)

    def absolute(self, place: int, address: int):
        """Eight bytes that hold an address in memory."""
        struct.pack_into("<Q", self.out, place, BASE + address)
        self.relocated.append(place)

    def relocate(self, o, piece, offset, k, kind):
        place = piece.place + offset
        held, = struct.unpack_from("<i", self.out, place)
        if kind in RELATIVE:
            struct.pack_into("<i", self.out, place, self.target(o, k) + held - place - 4 - (kind - RELATIVE[0]))
        elif kind == NUMBER:
            struct.pack_into("<I", self.out, place, self.target(o, k) + held)
        elif kind == ADDRESS:
            if not piece.writable:
                raise Unknown("an address among code")
            self.absolute(place, self.target(o, k) + struct.unpack_from("<q", self.out, place)[0])
        else:
            raise Unknown(f"relocation {kind}")

    def written(self) -> bytes:
        self.out = bytearray(self.relocations_at)
        for piece in self.pieces:
            self.put(piece.place, piece.data)
        for k, name in enumerate(self.outside):
            at = self.stubs_at + 8 * k
            self.put(at, b"\xff\x25" + struct.pack("<i", self.slots[name] - at - 6))
            struct.pack_into("<Q", self.out, self.slots[name], self.hints[name])
        for o in self.made.objects:
            for row in o.rows:
                self.relocate(o, *row)
        for piece in self.made.data:
            for offset, (name, addend) in piece.pointers.items():
                self.absolute(piece.place + offset, self.address(name) + addend)
        self.put(self.imports_at, self.imports)
        self.put(self.exports_at, self.exports)
        table = self.base_relocations()
        self.put_headers(len(table))
        return bytes(self.out) + table + bytes(-len(table) % PAGE)

    def base_relocations(self) -> bytes:
        """Where addresses lie, page by page."""
        pages: dict = {}
        for place in sorted(self.relocated):
            pages.setdefault(place & -PAGE, []).append(10 << 12 | place % PAGE)
        out = bytearray()
        for page, rows in pages.items():
            rows += [0] * (len(rows) % 2)
            out += struct.pack(f"<II{len(rows)}H", page, 8 + 2 * len(rows), *rows)
        return bytes(out)

    def put_headers(self, relocations: int):
        sections = [s for s in ((b".text", PAGE, self.code_end, CODE | READ | EXECUTE),
                                (b".data", self.writable_at, self.writable_end, INITIALIZED | READ | WRITABLE),
                                (b".rdata", self.constants_at, self.constants_end, INITIALIZED | READ),
                                (b".reloc", self.relocations_at, self.relocations_at + relocations,
                                 INITIALIZED | READ | DISCARDED)) if s[2] > s[1]]
        end = rounded(self.relocations_at + relocations, PAGE)
        directories = [(0, 0)] * 16
        directories[0], directories[1] = (self.exports_at, len(self.exports)), (self.imports_at, len(self.imports))
        directories[5], directories[12] = (self.relocations_at, relocations), (self.slots_at,
                                                                              self.slots_end - self.slots_at)
        self.put(0, b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0")
        self.put(68, struct.pack("<HHIIIHH", MACHINE, len(sections), 0, 0, 0, OPTIONAL, 0x2022))
        self.put(88, struct.pack(
            "<HBBIIIIIQIIHHHHHHIIIIHHQQQQII", 0x20B, 1, 0, self.code_end - PAGE, end - self.code_end, 0,
            self.address(self.start), PAGE, BASE, PAGE, PAGE, 6, 2, 0, 0, 6, 2, 0, end, PAGE, 0, 2, 0x160,
            1 << 20, PAGE, 1 << 20, PAGE, 0, 16) + b"".join(struct.pack("<II", *row) for row in directories))
        self.put(88 + OPTIONAL, b"".join(
            struct.pack("<8s6IHHI", name, stop - begin, begin, rounded(stop - begin, PAGE), begin, 0, 0, 0, 0, flags)
            for name, begin, stop, flags in sections))

    def put(self, place: int, data: bytes):
        self.out[place:place + len(data)] = data


class Format:
    """Object files of COFF and libraries of Windows."""

    def read(self, image, renamed):
        return ObjectFile(image, renamed)

    def written(self, made, public, name, starts, ends) -> bytes:
        start, = starts
        return Image(made, public, name, start).written()
