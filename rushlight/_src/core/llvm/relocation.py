"""How places of an object file are told where something lies, for each kind of processor whose files ``loader`` reads.

A class has the ELF number of its machine, ``jump(address)``, the code of a jump to anywhere, of at most 16 bytes, and
``relocate(layout, place, kind, symbol, addend)``, which writes into the layout's memory.  Sources: System V ABI, AMD64
supplement, section 4.4; ELF for the Arm 64-bit Architecture, section 5.7.
"""
import struct


class Unknown(Exception):
    """An object file of a kind that this loader does not read."""


class X86:
    """x86-64, position-independent code of the small and of the large code model."""

    number = 62
    PC32, PLT32, GOTOFF64, GOT64, GOTPC64, GOT_LOAD = 2, 4, 25, 27, 29, 42

    @staticmethod
    def jump(address):
        return b"\xff\x25\x00\x00\x00\x00" + struct.pack("<Q", address)  # through the 8 bytes that follow

    @classmethod
    def relocate(cls, layout, place, kind, k, addend):
        table = layout.base + layout.table
        if kind in (cls.PC32, cls.PLT32):
            value, format = layout.callee(k) + addend - layout.base - place, "<i"
        elif kind == cls.GOT_LOAD:
            value, format = layout.slot(k) + addend - place, "<i"
        elif kind == cls.GOTOFF64:
            value, format = layout.address(k) + addend - table, "<q"
        elif kind == cls.GOT64:
            value, format = layout.slot(k) - layout.table + addend, "<q"
        elif kind == cls.GOTPC64:
            value, format = table + addend - layout.base - place, "<q"
        else:
            raise Unknown(f"relocation {kind}")
        struct.pack_into(format, layout.memory, place, value)


class Arm:
    """AArch64, position-independent code of the small code model.

    Code that is written into fresh pages need not be flushed from caches: Linux does so when they become executable.
    """

    number = 183
    PAGE = 12
    ABS64, PREL64, PREL32, PAGE_HIGH, ADD_LOW, JUMP26, CALL26, GOT_PAGE, GOT_LOW = (
        257, 260, 261, 275, 277, 282, 283, 311, 312)
    LOADS = {278: 0, 284: 1, 285: 2, 286: 3, 299: 4}  # loads and stores: log2 of the bytes that their distance counts

    @staticmethod
    def jump(address):
        return struct.pack("<IIQ", 0x58000050, 0xD61F0200, address)  # ldr x16, 8 bytes on; br x16

    @classmethod
    def relocate(cls, layout, place, kind, k, addend):
        at = layout.base + place
        if kind in (cls.ABS64, cls.PREL64, cls.PREL32):
            value = layout.address(k) + addend - (0 if kind == cls.ABS64 else at)
            struct.pack_into("<i" if kind == cls.PREL32 else "<q", layout.memory, place,
                             value if value < 1 << 63 else value - (1 << 64))
            return
        if kind in (cls.JUMP26, cls.CALL26):
            bits = (layout.callee(k) + addend - at) >> 2 & 0x3FFFFFF
        elif kind in (cls.PAGE_HIGH, cls.GOT_PAGE):
            target = layout.base + layout.slot(k) if kind == cls.GOT_PAGE else layout.address(k)
            pages = (target + addend >> cls.PAGE) - (at >> cls.PAGE)
            bits = (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
        elif kind == cls.GOT_LOW:
            bits = (layout.base + layout.slot(k) + addend & 0xFFF) >> 3 << 10
        elif kind == cls.ADD_LOW:
            bits = (layout.address(k) + addend & 0xFFF) << 10
        elif kind in cls.LOADS:
            bits = (layout.address(k) + addend & 0xFFF) >> cls.LOADS[kind] << 10
        else:
            raise Unknown(f"relocation {kind}")
        word, = struct.unpack_from("<I", layout.memory, place)
        struct.pack_into("<I", layout.memory, place, word | bits)


MACHINES = {machine.number: machine for machine in (X86, Arm)}
