"""Makes an object file part of this process without LLVM, which then is needed only where something is compiled anew.

Covers what our code generator writes for Linux on x86-64 and AArch64: ELF sections of code, constants and zeroed data,
and the kinds of relocation of ``relocation.py``.  ``load`` raises ``Unknown`` for anything else, and LLVM links it.
"""
import ctypes
import mmap
import struct

from .relocation import MACHINES, Unknown

PAGE = mmap.PAGESIZE
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


def load(image, exports, imports=None) -> dict:
    """The addresses of ``exports`` once an object file (bytes) is in memory; other names are looked up in ``imports``,
    then in the process.

    Raises ``Unknown`` for a format or relocation it does not read, RuntimeError for a symbol found nowhere.
    """
    machine = (MACHINES.get(struct.unpack_from("<H", image, 18)[0])
               if len(image) >= 64 and image[:6] == b"\x7fELF\x02\x01" else None)
    if machine is None:
        raise Unknown("not an ELF object file for a known machine")
    start, = struct.unpack_from("<Q", image, 40)
    count, = struct.unpack_from("<H", image, 60)
    sections = [Section(row, image) for row in struct.iter_unpack("<IIQQQQIIQQ", image[start:start + 64 * count])]
    return ImageLayout(sections, imports or {}, machine).place(exports)


class ImageLayout:
    """Where everything goes: code and constants first, then jumps and addresses of outside symbols, then data on pages
    of its own."""

    def __init__(self, sections, imports, machine):
        self.sections, self.imports, self.machine = sections, imports, machine
        table = next(s for s in sections if s.type == SYMBOLS)
        names = sections[table.link]
        self.symbols = [(names.text(name) if name else "", index, value)
                        for name, _, _, index, value, _ in table.rows("<IBBHQQ")]

    def place(self, exports):
        end = 0
        for section in (s for s in self.sections if s.allocated and not s.writable):
            section.place = end = -(-end // section.alignment) * section.alignment
            end += section.size
        outside = [k for k, (name, index, _) in enumerate(self.symbols) if index == 0
                   and name not in ("", "_GLOBAL_OFFSET_TABLE_")]
        end = -(-end // 16) * 16
        self.jumps = {k: end + 16 * n for n, k in enumerate(outside)}
        self.slots = {}
        slots = end + 16 * len(outside)
        self.slots_at = slots  # what relocations call the global offset table
        code = -(-(slots + 8 * len(self.symbols)) // PAGE) * PAGE
        end = code
        for section in (s for s in self.sections if s.allocated and s.writable):
            section.place = end = -(-end // section.alignment) * section.alignment
            end += section.size
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # the default would share data with the children of a fork
        memory = mmap.mmap(-1, max(end, code), flags=private, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self.out, self.base = memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self.fill(outside)
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(self.base), ctypes.c_size_t(code),
                                      mmap.PROT_READ | mmap.PROT_EXEC):
            raise Unknown("this system refuses executable memory")
        # never unmapped: a thread may still run it when the interpreter goes
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
        where = {name: self.address(k) for k, (name, index, _) in enumerate(self.symbols) if index}
        return {name: where[name] for name in exports}

    def fill(self, outside):
        for section in self.sections:
            if section.allocated and section.type != ZEROED:
                self.out[section.place:section.place + section.size] = section.image[section.offset:section.offset
                                                                                        + section.size]
        for k in outside:
            jump = self.machine.jump(self.jumps[k], self.slot(k))
            self.out[self.jumps[k]:self.jumps[k] + len(jump)] = jump
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
        return self.imports.get(name) or in_process(name)

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
        """Where it lies; of what lies outside, a jump there."""
        layout = self.layout
        return layout.jumps[self.k] if self.k in layout.jumps else layout.address(self.k) - layout.base

    def slot(self):
        """The place of 8 bytes that hold its address."""
        return self.layout.slot(self.k)


def in_process(name):
    """The address of a symbol of the libraries that this process has loaded."""
    try:
        return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    except AttributeError:
        raise RuntimeError(f"no symbol {name!r} in this process") from None
