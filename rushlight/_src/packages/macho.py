"""Libraries of macOS on 64-bit ARM (Mach-O), written without a linker: object files of our code generator, and data
that may point into them.

Places in the file are places in memory from the library's base on.  Segments: headers, code and constants with jumps to
outside functions; addresses and data that may be written; read-only data; what the loader reads (which addresses move,
which are looked up, a tree of the public names), with a signature of hashes, without which that system runs nothing.
Sources: Apple's mach-o/loader.h, nlist.h, arm64/reloc.h; cs_blobs.h of its kernel.
"""
from __future__ import annotations

import hashlib
import struct

from ..core.llvm.macho import ARM64, DEFINED, EXTERNAL, MAGIC, SEGMENT, SYMBOLS, ObjectFile
from ..core.llvm.pieces import placed, rounded
from ..core.llvm.relocation import Arm64, Unknown
from . import image
from .wasm import number

PAGE, HASHED = 1 << 14, 1 << 12  # of the system; that the signature hashes
LIBRARY = 6
DYNAMIC_SYMBOLS, LOADED, OWN_NAME, UNIQUE, SIGNATURE, VERSION, INFO = (
    0xB, 0xC, 0xD, 0x1B, 0x1D, 0x32, 0x80000022)  # load commands
OURS = "/usr/lib/libSystem.B.dylib"
MACOS, LEAST = 1, 11 << 16  # platform, version


class Image(image.Image):
    """A library of macOS."""

    def __init__(self, made, public, name, starts, ends):
        super().__init__(made, sorted(public), name, (one for o in made.objects for one in o.outside()))
        self.starts, self.ends, self.rebased = starts, ends, []
        self.code_at = rounded(32 + 2048, 64)
        self.code_end = self.stubs_after(placed((p for p in self.code if not p.writable), self.code_at))
        self.slots_at = rounded(self.code_end, PAGE)
        self.calls_at = self.slots_at + 8 * len(self.outside)
        self.calls_end = self.calls_at + 8 * (len(starts) + len(ends))
        self.writable_end = placed((p for p in self.pieces if p.writable), self.calls_end)
        self.constants_at = rounded(self.writable_end, PAGE)
        self.constants_end = placed((p for p in made.data if not p.writable), self.constants_at)
        self.linked_at = rounded(self.constants_end, PAGE)

    def outside_slot(self, name: str) -> int:
        """The place of eight bytes with the address of an outside symbol."""
        if name not in self.outside:
            raise Unknown(f"the address of {name} by way of a table")
        return self.slots_at + 8 * self.outside.index(name)

    def slot(self, o, k) -> int:
        return self.outside_slot(o.symbols[k][0])

    def jump(self, at: int, name: str) -> bytes:
        return Arm64().jump(at, self.outside_slot(name))

    def pointer(self, place: int, address: int):
        struct.pack_into("<Q", self.out, place, address)
        self.rebased.append(place)

    def written(self) -> bytes:
        self.put_pieces(self.linked_at)
        for o in self.made.objects:
            o.relocate(self)
        self.put_pointers()
        for k, name in enumerate((*self.starts, *self.ends)):
            self.pointer(self.calls_at + 8 * k, self.address(name))
        return self.finished()

    # --- what the loader reads ----------------------------------------------------------------------------------------
    def rebasing(self) -> bytes:
        rows = (b"\x21" + number(place - self.slots_at) + b"\x51" for place in sorted(self.rebased))
        return b"\x11" + b"".join(rows) + b"\0"

    def binding(self) -> bytes:
        rows = (b"\x40_" + name.encode() + b"\0\x51\x71" + number(8 * k) + b"\x90"
                for k, name in enumerate(self.outside))
        return b"\x11" + b"".join(rows) + b"\0"

    def tree(self) -> bytes:
        """The public names, letter by letter, with their places."""
        root: dict = {}
        for name in self.public:
            node = root
            for letter in "_" + name:
                node = node.setdefault(letter, {})
            node[""] = self.address(name)
        out = bytearray()

        def write(node) -> int:
            begin, told = len(out), number(0) + number(node[""]) if "" in node else b""
            out.extend(number(len(told)) + told)
            children = [(letter, one) for letter, one in node.items() if letter]
            out.append(len(children))
            places = []
            for letter, _ in children:
                out.extend(letter.encode() + b"\0")
                places.append(len(out))
                out.extend(bytes(4))
            for place, (_, one) in zip(places, children):
                found = number(write(one), 4)
                out[place:place + 4] = found
            return begin

        write(root)
        return bytes(out)

    def names(self) -> tuple:
        """(symbols, strings): those that are public, then those that are looked up."""
        strings, rows = bytearray(b" \0"), bytearray()
        for name in (*self.public, *self.outside):
            own = name in self.made.defined
            place = self.address(name) if own else 0
            section = 0 if not own else 1 if place < self.code_end else 2
            rows += struct.pack("<IBBHQ", len(strings), EXTERNAL | (DEFINED if own else 0), section,
                                0 if own else 1 << 8, place)
            strings += b"_" + name.encode() + b"\0"
        return bytes(rows), bytes(strings + bytes(-len(strings) % 8))

    def finished(self) -> bytes:
        symbols, strings = self.names()
        parts, places, at = [self.rebasing(), self.binding(), self.tree(), symbols, strings], [], self.linked_at
        for part in parts:
            places.append(at)
            self.out += part + bytes(-len(part) % 8)
            at = len(self.out)
        signed_at = rounded(at, 16)
        self.out += bytes(signed_at - at)
        nbytes = signature_bytes(self.name, signed_at)
        self.put_headers(places, [len(part) for part in parts], signed_at, nbytes)
        return bytes(self.out) + signature(self.out, self.name, self.code_end)

    def segment(self, name, begin, end, protection, sections=(), file_end=None):
        """A segment's command; ``sections``: (name, begin, end, flags)."""
        size = rounded(end - begin, PAGE)
        rows = [struct.pack("<16s16sQQ8I", own, name, first, last - first, first, 3, 0, 0, flags, 0, 0, 0)
                for own, first, last, flags in sections]
        return struct.pack("<II16sQQQQiiII", SEGMENT, 72 + 80 * len(rows), name, begin, size, begin,
                           (file_end or begin + size) - begin, protection, protection, len(rows), 0) + b"".join(rows)

    def put_headers(self, places, sizes, signed_at, nbytes):
        def named(command, text, *words):
            padded = text.encode() + b"\0"
            padded += bytes(-len(padded) % 8)
            return struct.pack(f"<III{len(words)}I", command, 12 + 4 * len(words) + len(padded),
                               12 + 4 * len(words), *words) + padded

        first_end = self.calls_at + 8 * len(self.starts)
        calls = [row for row in ((b"__mod_init_func", self.calls_at, first_end, 9),
                                 (b"__mod_term_func", first_end, self.calls_end, 10)) if row[2] > row[1]]
        end = signed_at + nbytes
        commands = [
            self.segment(b"__TEXT", 0, self.slots_at, 5, [(b"__text", self.code_at, self.code_end, 0x80000400)]),
            self.segment(b"__DATA", self.slots_at, self.constants_at, 3,
                         [(b"__data", self.slots_at, self.writable_end, 0)] if not calls else
                         [(b"__got", self.slots_at, self.calls_at, 0), *calls,
                          (b"__data", self.calls_end, self.writable_end, 0)]),
            *([self.segment(b"__CONST", self.constants_at, self.linked_at, 1)]
              if self.linked_at > self.constants_at else []),
            self.segment(b"__LINKEDIT", self.linked_at, end, 1, (), end),
            named(OWN_NAME, f"@rpath/{self.name}", 2, 1 << 16, 1 << 16),
            struct.pack("<12I", INFO, 48, places[0], sizes[0], places[1], sizes[1], 0, 0, 0, 0, places[2], sizes[2]),
            struct.pack("<6I", SYMBOLS, 24, places[3], sizes[3] // 16, places[4], sizes[4]),
            struct.pack("<20I", DYNAMIC_SYMBOLS, 80, 0, 0, 0, len(self.public), len(self.public), len(self.outside),
                        *[0] * 12),
            struct.pack("<II16s", UNIQUE, 24, hashlib.sha256(self.out).digest()[:16]),
            struct.pack("<6I", VERSION, 24, MACOS, LEAST, LEAST, 0),
            named(LOADED, OURS, 2, 1 << 16, 1 << 16),
            struct.pack("<4I", SIGNATURE, 16, signed_at, nbytes)]
        held = b"".join(commands)
        # no undefined symbols, two-level namespace, no re-exported libraries
        flags = 0x1 | 0x4 | 0x80 | 0x100000
        self.put(0, struct.pack("<8I", MAGIC, ARM64, 0, LIBRARY, len(commands), len(held), flags, 0) + held)
        if 32 + len(held) > self.code_at:
            raise Unknown("more load commands than there is room for")


def signature_bytes(name: str, covered: int) -> int:
    return rounded(20 + 88 + len(name.encode()) + 1 + 32 * -(-covered // HASHED), 16)


def signature(data: bytes, name: str, code_end: int) -> bytes:
    """Hashes of all pages, without anybody's name: what makes a file that was not changed."""
    identifier, count = name.encode() + b"\0", -(-len(data) // HASHED)
    head = 88 + len(identifier)
    hashes = b"".join(hashlib.sha256(data[k:k + HASHED]).digest() for k in range(0, len(data), HASHED))
    directory = struct.pack(">9I4B4IQQQQ", 0xFADE0C02, head + len(hashes), 0x20400, 0x20002, head, 88, 0, count,
                            len(data), 32, 2, 0, 12, 0, 0, 0, 0, 0, 0, rounded(code_end, PAGE), 0) + identifier + hashes
    whole = struct.pack(">5I", 0xFADE0CC0, 20 + len(directory), 1, 0, 20) + directory
    return whole + bytes(signature_bytes(name, len(data)) - len(whole))


class Format:
    """Object files and libraries of Mach-O."""

    def read(self, image, renamed):
        return ObjectFile(image, renamed)

    def written(self, made, public, name, starts, ends) -> bytes:
        return Image(made, public, name, starts, ends).written()
