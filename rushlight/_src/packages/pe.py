"""Libraries of Windows (PE32+), written without a linker: object files of COFF from our code generator, and data with
pointers into them.

Places in the file are places in memory from the library's base on.  Layout: headers; code and constants with jumps to
outside functions; addresses and data that may be written, the table of imported addresses among them; read-only data
with the directories of imports and exports; base relocations.  Source: Microsoft's PE Format.
"""
from __future__ import annotations

import struct

from ..core.llvm.coff import DISCARDED, MACHINE, WRITABLE, ObjectFile
from ..core.llvm.pieces import placed, rounded
from . import image

PAGE, BASE = 4096, 0x180000000
OPTIONAL = 240  # bytes of an optional header
CODE, READ, EXECUTE, INITIALIZED = 0x20, 1 << 30, 1 << 29, 0x40
LIBRARIES = {
    "kernel32.dll": ("CreateThread", "WaitForSingleObject", "CloseHandle", "GetActiveProcessorCount", "CreateFileA",
                     "GetFileSizeEx", "CreateFileMappingA", "MapViewOfFile", "UnmapViewOfFile", "GetModuleHandleExA"),
    "api-ms-win-core-synch-l1-2-0.dll": ("WaitOnAddress", "WakeByAddressAll")}
REST = "ucrtbase.dll"  # C's library


class Image(image.Image):
    """A library of Windows."""

    STUB = 8

    def __init__(self, made, public, name, start):
        super().__init__(made, sorted(public), name, (one for o in made.objects for one in o.outside()))
        self.start = start
        self.imported: dict = {}
        for one in self.outside:
            library = next((k for k, names in LIBRARIES.items() if one in names), REST)
            self.imported.setdefault(library, []).append(one)
        self.lay_out()

    def lay_out(self):
        self.code_end = self.stubs_after(placed((p for p in self.code if not p.writable), PAGE))
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

    def jump(self, at: int, name: str) -> bytes:
        return b"\xff\x25" + struct.pack("<i", self.slots[name] - at - 6)

    def pointer(self, place: int, address: int):
        struct.pack_into("<Q", self.out, place, BASE + address)
        self.relocated.append(place)

    def written(self) -> bytes:
        self.put_pieces(self.relocations_at)
        for name in self.outside:
            struct.pack_into("<Q", self.out, self.slots[name], self.hints[name])
        for o in self.made.objects:
            o.relocate(self)
        self.put_pointers()
        self.put(self.imports_at, self.imports)
        self.put(self.exports_at, self.exports)
        table = self.base_relocations()
        self.put_headers(len(table))
        return bytes(self.out) + table + bytes(-len(table) % PAGE)

    def base_relocations(self) -> bytes:
        """Return the table of the positions of addresses, page by page."""
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


class Format:
    """Object files of COFF and libraries of Windows."""

    def read(self, image, renamed):
        return ObjectFile(image, renamed)

    def written(self, made, public, name, starts, ends) -> bytes:
        start, = starts
        return Image(made, public, name, start).written()
