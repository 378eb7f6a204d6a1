"""The object-file format of an architecture: its ELF numbers, jumps to outside functions, and relocations. Used to load
such files into a process, and to link them into shared objects.

Source: System V ABI, AMD64 supplement, section 4.4; ELF for the Arm 64-bit Architecture, section 5.7.
"""
from __future__ import annotations

import struct

PC32, PLT32, GOTOFF64, GOT64, GOTPC64, GOT_LOAD = 2, 4, 25, 27, 29, 42


class Unknown(Exception):
    """An object file of a kind that is not read here."""


class Machine:
    """``number``: of the machine in ELF headers; ``page``: the largest page size of its systems; ``absolute``,
    ``global_address``, ``relative``: kinds of relocation that hold eight bytes: a symbol's address, one that the
    dynamic loader looks up, and one within the object.

    ``apply(image, place, kind, found, addend)`` applies a relocation of an object file at a place of an image, which
    has its bytes (``out``) and the start of its table of addresses (``slots_at``); ``found``: an object with the
    ``address`` of the symbol and the place of its ``slot`` in that table. All are relative to the image's beginning,
    which is that of a page. Raises Unknown for a kind that the code generator does not emit.
    """

    number = page = absolute = global_address = relative = 0

    def jump(self, place: int, slot: int) -> bytes:
        """16 bytes at most: a jump to the address that a slot holds."""
        raise NotImplementedError

    def apply(self, image, place: int, kind: int, found, addend: int):
        raise NotImplementedError


class X86(Machine):
    """x86-64."""
    number, page, absolute, global_address, relative = 62, 4096, 1, 6, 8

    def jump(self, place, slot):
        return b"\xff\x25" + struct.pack("<i", slot - place - 6)

    def apply(self, image, place, kind, found, addend):
        table = image.slots_at
        if kind in (PC32, PLT32):
            value, form = found.address() + addend - place, "<i"
        elif kind == GOT_LOAD:
            value, form = found.slot() + addend - place, "<i"
        elif kind == GOTOFF64:
            value, form = found.address() + addend - table, "<q"
        elif kind == GOT64:
            value, form = found.slot() - table + addend, "<q"
        elif kind == GOTPC64:
            value, form = table + addend - place, "<q"
        else:
            raise Unknown(f"relocation {kind}")
        struct.pack_into(form, image.out, place, value)


PREL64, PREL32, PAGE_OF, LOW_ADD, BRANCHES, GOT_PAGE, GOT_LOW = 260, 261, 275, 277, (282, 283), 311, 312
LOW_LOADS = {278: 0, 284: 1, 285: 2, 286: 3, 299: 4}  # logarithms of the bytes loaded


class Arm64(Machine):
    """64-bit ARM."""
    number, page, absolute, global_address, relative = 183, 65536, 257, 1025, 1027

    def jump(self, place, slot):
        # adrp x16, page; ldr x17, [x16, #low]; br x17
        words = pages(0x90000010, slot, place), 0xF9400211 | (slot & 0xFFF) >> 3 << 10, 0xD61F0220
        return struct.pack("<3I", *words)

    def apply(self, image, place, kind, found, addend):
        out = image.out
        if kind in (PREL32, PREL64):
            struct.pack_into("<i" if kind == PREL32 else "<q", out, place, found.address() + addend - place)
            return
        word, = struct.unpack_from("<I", out, place)
        if kind in BRANCHES:
            word = branch(word, found.address() + addend, place)
        elif kind in (PAGE_OF, GOT_PAGE):
            word = pages(word, found.address() + addend if kind == PAGE_OF else found.slot(), place)
        elif kind == LOW_ADD:
            word = low(word, found.address() + addend, 0)
        elif kind == GOT_LOW:
            word = low(word, found.slot(), 3)
        elif kind in LOW_LOADS:
            word = low(word, found.address() + addend, LOW_LOADS[kind])
        else:
            raise Unknown(f"relocation {kind}")
        struct.pack_into("<I", out, place, word)


def branch(word: int, address: int, place: int) -> int:
    """A jump or a call that leads to an address."""
    distance = address - place
    if not -(1 << 27) <= distance < 1 << 27:
        raise Unknown("a branch over more than 128 MB")
    return word | distance >> 2 & 0x3FFFFFF


def low(word: int, address: int, scale: int) -> int:
    """An instruction that uses the offset of an address in its page, in units of 2 ** ``scale`` bytes."""
    return word | (address & 0xFFF) >> scale << 10


def pages(word: int, address: int, place: int) -> int:
    """An ``adrp`` that computes the page of an address."""
    distance = (address >> 12) - (place >> 12)
    if not -(1 << 20) <= distance < 1 << 20:
        raise Unknown("an address that is more than 4 GB away")
    return word | (distance & 3) << 29 | (distance >> 2 & 0x7FFFF) << 5


MACHINES = {machine.number: machine for machine in (X86(), Arm64())}
