"""Makes an object file part of this process without LLVM, which then is needed only where something is compiled anew.

Covers what our code generator writes for x86-64 Linux: ELF sections of code, constants and zeroed data, and six kinds
of relocation.  ``load`` raises ``Unknown`` for anything else, and LLVM links it.  Source: System V ABI, AMD64
supplement, section 4.4 (relocations).
"""
import ctypes
import mmap
import struct

PAGE = mmap.PAGESIZE
ALLOCATED, WRITABLE = 2, 1  # section flags
RELOCATIONS, SYMBOLS, ZEROED = 4, 2, 8  # section types
ABSOLUTE = 0xFFF1
PC32, PLT32, GOTOFF64, GOT64, GOTPC64, GOT_LOAD = 2, 4, 25, 27, 29, 42
JUMP = b"\xff\x25\x00\x00\x00\x00"  # jmp through the 8 bytes that follow


class Unknown(Exception):
    """An object file of a kind that this loader does not read."""


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
    if len(image) < 64 or image[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", image, 18)[0] != 62:
        raise Unknown("not an object file for x86-64 ELF")
    start, = struct.unpack_from("<Q", image, 40)
    count, = struct.unpack_from("<H", image, 60)
    sections = [Section(row, image) for row in struct.iter_unpack("<IIQQQQIIQQ", image[start:start + 64 * count])]
    return ImageLayout(sections, imports or {}).place(exports)


class ImageLayout:
    """Where everything goes: code and constants first, then jumps and addresses of outside symbols, then data on pages
    of its own."""

    def __init__(self, sections, imports):
        self.sections, self.imports = sections, imports
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
        self.table = slots  # what relocations call the global offset table
        code = -(-(slots + 8 * len(self.symbols)) // PAGE) * PAGE
        end = code
        for section in (s for s in self.sections if s.allocated and s.writable):
            section.place = end = -(-end // section.alignment) * section.alignment
            end += section.size
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # the default would share data with the children of a fork
        memory = mmap.mmap(-1, max(end, code), flags=private, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self.memory, self.base = memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))
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
                self.memory[section.place:section.place + section.size] = section.image[section.offset:section.offset
                                                                                        + section.size]
        for k in outside:
            self.memory[self.jumps[k]:self.jumps[k] + 14] = JUMP + struct.pack("<Q", self.address(k))
        for section in self.sections:
            target = self.sections[section.info] if section.type == RELOCATIONS else None
            if target is not None and target.allocated:
                for offset, info, addend in section.rows("<QQq"):
                    self.relocate(target.place + offset, info & 0xFFFFFFFF, info >> 32, addend)

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
            place = self.slots[k] = self.table + 8 * len(self.slots)
            struct.pack_into("<Q", self.memory, place, self.address(k))
        return self.slots[k]

    def relocate(self, place, kind, k, addend):
        table = self.base + self.table
        if kind in (PC32, PLT32):
            target = self.base + self.jumps[k] if k in self.jumps else self.address(k)
            value, format = target + addend - self.base - place, "<i"
        elif kind == GOT_LOAD:
            value, format = self.slot(k) + addend - place, "<i"
        elif kind == GOTOFF64:
            value, format = self.address(k) + addend - table, "<q"
        elif kind == GOT64:
            value, format = self.slot(k) - self.table + addend, "<q"
        elif kind == GOTPC64:
            value, format = table + addend - self.base - place, "<q"
        else:
            raise Unknown(f"relocation {kind}")
        struct.pack_into(format, self.memory, place, value)


def in_process(name):
    """The address of a symbol of the libraries that this process has loaded."""
    try:
        return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    except AttributeError:
        raise RuntimeError(f"no symbol {name!r} in this process") from None
