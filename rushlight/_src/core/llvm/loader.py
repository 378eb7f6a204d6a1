"""Load an object file into this process without LLVM, which is then needed only to compile new code.

Covers the output of Rushlight's code generator: for Linux ELF on x86-64 and AArch64, with the kinds of relocation of
``relocation.py``; for Windows COFF on x86-64 (``coff.py``), for macOS Mach-O on 64-bit ARM (``macho.py``). ``load``
raises ``Unknown`` for anything else, and LLVM links it.
"""
import ctypes
import struct

from ..platform import Refused, here
from ..platform.base import PAGE
from . import coff, macho
from .loaded import LoadedObject, Pages
from .pieces import placed, rounded
from .relocation import MACHINES, Arm64, Unknown, X86

ALLOCATED, WRITABLE = 2, 1  # section flags
RELOCATIONS, SYMBOLS, ZEROED = 4, 2, 8  # section types
ABSOLUTE = 0xFFF1


class Section:
    def __init__(self, row, image):
        _, self.type, self.flags, _, self.offset, self.size, self.link, self.info, self.alignment, self.entry = row
        self.image, self.place = image, None

    allocated = property(lambda self: self.flags & ALLOCATED and self.size)
    writable = property(lambda self: bool(self.flags & WRITABLE))

    def rows(self, format):
        return struct.iter_unpack(format, self.image[self.offset:self.offset + self.size])

    def text(self, at):
        start = self.offset + at
        return self.image[start:self.image.index(b"\0", start)].decode()


def load(image, exports, imports=None) -> LoadedObject:
    """Puts an object file (bytes) into memory, for its functions ``exports``; other names are looked up in ``imports``,
    then in the process.

    Raises ``Unknown`` for a format or relocation it does not read, RuntimeError for a symbol found nowhere.
    """
    layout = layout_of(image, imports or {})
    addresses = layout.place(exports)
    return LoadedObject(addresses, [layout.pages])


def layout_of(image, imports):
    """The loader of an object file, by its format."""
    if len(image) >= 64 and image[:6] == b"\x7fELF\x02\x01":
        machine = MACHINES.get(struct.unpack_from("<H", image, 18)[0])
        if machine is not None:
            start, = struct.unpack_from("<Q", image, 40)
            count, = struct.unpack_from("<H", image, 60)
            rows = struct.iter_unpack("<IIQQQQIIQQ", image[start:start + 64 * count])
            return ElfLayout([Section(row, image) for row in rows], imports, machine)
    elif image[:2] == struct.pack("<H", coff.MACHINE):
        return FileLayout(coff.ObjectFile(image, {}), imports, X86())
    elif image[:4] == struct.pack("<I", macho.MAGIC):
        return FileLayout(macho.ObjectFile(image, {}), imports, Arm64())
    raise Unknown("not an object file for a known machine")


class Layout:
    """The placement of an object file in memory: code and constants first, then jumps and addresses of outside symbols,
    then data on separate pages."""

    def __init__(self, imports, machine):
        self.imports, self.machine = imports, machine

    def take(self, code, end):
        """Allocate ``end`` bytes, which will begin with ``code``."""
        self.code = code
        self.pages = Pages(rounded(max(end, code, 1), PAGE))
        self.base = int(self.pages)
        self.out = memoryview((ctypes.c_char * max(end, code)).from_address(self.base)).cast("B")

    def seal(self):
        """Makes it code, which can no longer be written."""
        try:
            here.executable(self.base, self.code)
        except Refused as reason:
            raise Unknown(str(reason)) from None

    def jump(self, place, slot):
        found = self.machine.jump(place, slot)
        self.out[place:place + len(found)] = found

    def outer(self, name):
        """The address of an outside symbol."""
        return self.imports.get(name) or here.symbol(name)


class ElfLayout(Layout):
    """Of ELF."""

    def __init__(self, sections, imports, machine):
        super().__init__(imports, machine)
        self.sections = sections
        table = next(s for s in sections if s.type == SYMBOLS)
        names = sections[table.link]
        self.symbols = [(names.text(name) if name else "", index, value)
                        for name, _, _, index, value, _ in table.rows("<IBBHQQ")]

    def place(self, exports):
        end = 0
        for section in (s for s in self.sections if s.allocated and not s.writable):
            section.place = end = rounded(end, section.alignment)
            end += section.size
        outside = [k for k, (name, index, _) in enumerate(self.symbols) if index == 0
                   and name not in ("", "_GLOBAL_OFFSET_TABLE_")]
        end = rounded(end, 16)
        self.jumps = {k: end + 16 * n for n, k in enumerate(outside)}
        self.slots = {}
        slots = end + 16 * len(outside)
        self.slots_at = slots  # the global offset table of relocations
        code = end = rounded(slots + 8 * len(self.symbols), PAGE)
        for section in (s for s in self.sections if s.allocated and s.writable):
            section.place = end = rounded(end, section.alignment)
            end += section.size
        self.take(code, end)
        self.fill(outside)
        self.seal()
        where = {name: self.address(k) for k, (name, index, _) in enumerate(self.symbols) if index}
        return {name: where[name] for name in exports}

    def fill(self, outside):
        for section in self.sections:
            if section.allocated and section.type != ZEROED:
                self.out[section.place:section.place + section.size] = section.image[section.offset:section.offset
                                                                                        + section.size]
        for k in outside:
            self.jump(self.jumps[k], self.slot(k))
        for section in self.sections:
            target = self.sections[section.info] if section.type == RELOCATIONS else None
            if target is not None and target.allocated:
                for offset, info, addend in section.rows("<QQq"):
                    self.machine.apply(self, target.place + offset, info & 0xFFFFFFFF,
                                       Found(self, info >> 32), addend)

    def address(self, k):
        name, index, value = self.symbols[k]
        if index == ABSOLUTE:
            return value
        if index:
            return self.base + self.sections[index].place + value
        return self.outer(name)

    def slot(self, k):
        """The place of 8 bytes that hold a symbol's address."""
        if k not in self.slots:
            place = self.slots[k] = self.slots_at + 8 * len(self.slots)
            struct.pack_into("<Q", self.out, place, self.address(k))
        return self.slots[k]


class Found:
    """A symbol as relocations see it, counted from the image's beginning."""

    def __init__(self, layout, k):
        self.layout, self.k = layout, k

    def address(self):
        """The address of the symbol; for an outside one, that of a jump to it."""
        layout = self.layout
        return layout.jumps[self.k] if self.k in layout.jumps else layout.address(self.k) - layout.base

    def slot(self):
        """The place of 8 bytes that hold its address."""
        return self.layout.slot(self.k)


class FileLayout(Layout):
    """The layout of COFF and Mach-O files, whose readers packages use as well: they call ``target``, ``slot`` and
    ``absolute`` of an image."""

    def __init__(self, file, imports, machine):
        super().__init__(imports, machine)
        self.file = file
        self.outside = {name: n for n, name in enumerate(dict.fromkeys(file.outside()))}

    def place(self, exports):
        pieces = [p for p in self.file.pieces if p is not None]
        self.jumps_at = rounded(placed((p for p in pieces if not p.writable), 0), 16)
        self.slots_at = self.jumps_at + 16 * len(self.outside)
        code = rounded(self.slots_at + 8 * len(self.outside), PAGE)
        self.take(code, placed((p for p in pieces if p.writable), code))
        for piece in pieces:
            self.out[piece.place:piece.place + len(piece.data)] = piece.data
        for name, n in self.outside.items():
            struct.pack_into("<Q", self.out, self.slots_at + 8 * n, self.outer(name))
            self.jump(self.jumps_at + 16 * n, self.slots_at + 8 * n)
        self.file.relocate(self)
        frames = getattr(self.file, "frames", None)
        if frames is not None:
            self.pages.add_unwinding(self.base + frames.place, frames.size // 12)
        self.seal()
        where = {name: self.base + piece.place + value for name, (piece, value) in self.file.defined.items()}
        return {name: where[name] for name in exports}

    def target(self, file, k):
        place = file.place_of(k)
        return self.jumps_at + 16 * self.outside[file.symbols[k][0]] if place is None else place

    def slot(self, file, k):
        return self.slots_at + 8 * self.outside[file.symbols[k][0]]

    def absolute(self, place, file, k, addend, writable):
        outside = k >= 0 and file.place_of(k) is None
        address = self.outer(file.symbols[k][0]) if outside else self.base + file.begin(self, k)
        struct.pack_into("<Q", self.out, place, address + addend & (1 << 64) - 1)
