"""Modules of WebAssembly, written without a linker: object files of our code generator, and data with pointers into
them.

Memory: the stack (which grows down, so that an overflow traps), data, then what is allocated.  Addresses are 32 bits;
tables that programs read have eight bytes for each, as on other machines.  The address of a function is its number in
the table of functions.  Sources: WebAssembly Core Specification 2.0, chapter 5; the tool conventions' Linking.md.
"""
from __future__ import annotations

import struct

from ..core.llvm.pieces import Piece, placed
from ..core.llvm.relocation import Unknown

STACK = 1 << 20  # bytes
MATHEMATICS = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "exp2", "expm1", "log", "log10",
               "log1p", "log2", "sin", "sinh", "tan", "tanh", "atan2", "pow", "fmod", "cbrt", "hypot")
OUTSIDE = {name + kind for name in MATHEMATICS for kind in ("", "f")}
"""Functions that a program gives the module where kernels call them, by C's names."""
CUSTOM, TYPES, IMPORTS, FUNCTIONS, TABLE, MEMORY, GLOBALS, EXPORTS, START, ELEMENTS, CODE, DATA = range(12)
FUNCTION, DATUM, GLOBAL, SECTION = range(4)  # kinds of symbols
UNDEFINED, LOCAL, NAMED = 0x10, 2, 0x40  # flags of symbols
FUNCTION_INDEX, TABLE_SIGNED, TABLE_WORD, ADDRESS, ADDRESS_SIGNED, ADDRESS_WORD, TYPE_INDEX, GLOBAL_INDEX = range(8)
ADDED = ADDRESS, ADDRESS_SIGNED, ADDRESS_WORD  # relocations with a number that is added


class Reader:
    """Reader of numbers and strings from a part of a file."""

    def __init__(self, data: bytes, at=0):
        self.data, self.at = data, at

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed(self) -> int:
        begin = self.at
        value = self.number()
        bits = 7 * (self.at - begin)
        return value - (1 << bits) if value >> bits - 1 else value

    def bytes(self) -> bytes:
        count = self.number()
        self.at += count
        return self.data[self.at - count:self.at]

    def text(self) -> str:
        return self.bytes().decode()


def number(value: int, padded=0) -> bytes:
    """Encode an unsigned integer as LEB128; ``padded``: to at least this many bytes."""
    out = bytearray()
    while value > 127 or len(out) + 1 < padded:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def signed(value: int, padded=0) -> bytes:
    """Encode a signed integer as LEB128; ``padded``: to at least this many bytes."""
    out = bytearray()
    while not -64 <= value < 64 or len(out) + 1 < padded:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value & 127]))


def text(name: str) -> bytes:
    return number(len(name.encode())) + name.encode()


def vector(rows) -> bytes:
    rows = list(rows)
    return number(len(rows)) + b"".join(rows)


def section(kind: int, data: bytes) -> bytes:
    return bytes([kind]) + number(len(data)) + data


class ObjectFile:
    """One object file: its functions' types and bodies, its data as Pieces, its symbols, its relocations.

    ``symbols``: (kind, name, whether it is defined, number, offset); ``defined``: by name, (Piece, offset) or (the
    object, number of a function).  Unknown for what the code generator does not write.
    """

    def __init__(self, image: bytes, renamed: dict):
        if image[:8] != b"\0asm\1\0\0\0":
            raise Unknown("not an object file of WebAssembly")
        self.types, self.imported, self.own, self.bodies, self.pieces = [], [], [], [], []
        self.code, self.symbols, self.relocated, self.spans = bytearray(), [], [], []
        readers = {TYPES: self.read_types, IMPORTS: self.read_imports, FUNCTIONS: self.read_functions,
                   CODE: self.read_code, DATA: self.read_data, CUSTOM: self.read_custom}
        r, self.kinds = Reader(image, 8), []
        while r.at < len(image):
            kind = image[r.at]
            r.at += 1
            self.kinds.append(kind)
            if kind in readers:
                readers[kind](r.bytes())
            else:
                r.bytes()
        self.defined = {}
        for kind, name, defined, k, offset in self.symbols:
            if defined and name is not None and (name in renamed or not renamed):
                self.defined[renamed.get(name, name)] = (self, k) if kind == FUNCTION else (self.pieces[k], offset)

    def read_types(self, data):
        r = Reader(data)
        for _ in range(r.number()):
            begin = r.at
            r.at += 1
            r.bytes()
            r.bytes()
            self.types.append(data[begin:r.at])

    def read_imports(self, data):
        r = Reader(data)
        for _ in range(r.number()):
            r.bytes()
            name, kind = r.text(), data[r.at]
            r.at += 1
            if kind == 0:
                self.imported.append((name, r.number()))
            elif kind == 3:
                r.at += 2
            else:  # of memory or the table: their limits
                r.at += kind == 1
                limited = r.number() & 1
                for _ in range(1 + limited):
                    r.number()

    def read_functions(self, data):
        r = Reader(data)
        self.own = [r.number() for _ in range(r.number())]

    def read_code(self, data):
        self.code, r = bytearray(data), Reader(data)
        for _ in range(r.number()):
            begin = r.at
            r.bytes()
            self.bodies.append((begin, r.at))

    def read_data(self, data):
        r = Reader(data)
        for _ in range(r.number()):
            if r.number():
                raise Unknown("data that is not there from the beginning")
            r.at += 1  # i32.const
            r.number()
            r.at += 1  # end
            held = r.bytes()
            self.spans.append(r.at - len(held))
            self.pieces.append(Piece(bytearray(held), 16, True))

    def read_custom(self, data):
        r = Reader(data)
        name = r.text()
        if name == "linking":
            r.number()  # version
            while r.at < len(data):
                kind = data[r.at]
                r.at += 1
                part = Reader(r.bytes())
                if kind == 5:
                    self.read_segments(part)
                elif kind == 8:
                    self.read_symbols(part)
        elif name.startswith("reloc."):
            where = self.kinds[r.number()]
            for _ in range(r.number()):
                kind = data[r.at]
                r.at += 1
                offset, index = r.number(), r.number()
                self.relocated.append((where, offset, kind, index, r.signed() if kind in ADDED else 0))

    def read_segments(self, r):
        for piece in self.pieces[:r.number()]:
            r.bytes()
            piece.alignment = 1 << r.number()
            r.number()

    def read_symbols(self, r):
        for _ in range(r.number()):
            kind = r.data[r.at]
            r.at += 1
            flags = r.number()
            name, index, offset, defined = None, 0, 0, not flags & UNDEFINED
            if kind == DATUM:
                name = r.text()
                if defined:
                    index, offset, _ = r.number(), r.number(), r.number()
            else:
                index = r.number()
                if kind == FUNCTION and not defined and not flags & NAMED:
                    name = self.imported[index][0]
                elif kind != SECTION and (defined or flags & NAMED):
                    name = r.text()
            self.symbols.append((kind, None if flags & LOCAL else name, defined, index, offset))

    def type_of(self, k: int) -> bytes:
        """The type of a function by its number in this file."""
        return self.types[self.imported[k][1] if k < len(self.imported) else self.own[k - len(self.imported)]]


class Image:
    """A module: the addresses of its parts, and its bytes."""

    def __init__(self, made, public, starts):
        self.made, self.public, self.starts = made, public, starts
        self.types, self.outside, self.table = {}, {}, {}
        self.pieces = [p for o in made.objects for p in o.pieces] + made.data
        heap = Piece(b"", 64)
        placed([*self.pieces, heap], STACK)
        self.named = {**made.defined, "__heap_base": (heap, 0)}
        for o in made.objects:
            for kind, name, defined, k, _ in o.symbols:
                if kind == FUNCTION and not defined and name not in self.named:
                    self.outside.setdefault(name, o.type_of(k))
        unknown = sorted(self.outside.keys() - OUTSIDE)
        if unknown:
            raise Unknown(f"functions that WebAssembly does not have: {', '.join(unknown)}")
        self.numbers, at = {}, len(self.outside)  # of the first own function of each object
        for o in made.objects:
            self.numbers[o] = at
            at += len(o.own)

    def type(self, form: bytes) -> int:
        return self.types.setdefault(form, len(self.types))

    def function(self, o: ObjectFile, k: int) -> int:
        """The number in the module of an object's function."""
        if k >= len(o.imported):
            return self.numbers[o] + k - len(o.imported)
        return self.named_function(o.imported[k][0])

    def named_function(self, name: str) -> int:
        if name in self.named:
            return self.function(*self.named[name])
        return list(self.outside).index(name)

    def symbol_function(self, o, k) -> int:
        _, name, defined, index, _ = o.symbols[k]
        return self.function(o, index) if defined or name is None else self.named_function(name)

    def in_table(self, f: int) -> int:
        """The number of a function in the table, whose first entry is no function."""
        return self.table.setdefault(f, 1 + len(self.table))

    def address(self, name: str) -> int:
        """Return the value of a pointer to a name."""
        where, offset = self.named[name]
        return self.in_table(self.function(where, offset)) if isinstance(where, ObjectFile) else where.place + offset

    def symbol_address(self, o, k) -> int:
        _, name, defined, index, offset = o.symbols[k]
        return o.pieces[index].place + offset if defined else self.address(name)

    def relocate(self, o, where, offset, kind, index, addend):
        if where == DATA:
            piece, begin = next((p, s) for p, s in zip(reversed(o.pieces), reversed(o.spans)) if s <= offset)
            out, offset = piece.data, offset - begin
        else:
            out = o.code
        if kind == FUNCTION_INDEX:
            value = number(self.symbol_function(o, index), 5)
        elif kind in (TABLE_SIGNED, TABLE_WORD):
            found = self.in_table(self.symbol_function(o, index))
            value = signed(found, 5) if kind == TABLE_SIGNED else struct.pack("<I", found)
        elif kind in ADDED:
            found = self.symbol_address(o, index) + addend
            value = (number(found, 5) if kind == ADDRESS else signed(found, 5) if kind == ADDRESS_SIGNED
                     else struct.pack("<I", found & 0xFFFFFFFF))
        elif kind == TYPE_INDEX:
            value = number(self.type(o.types[index]), 5)
        elif kind == GLOBAL_INDEX:
            value = number(0, 5)  # the stack pointer, the only one
        else:
            raise Unknown(f"relocation {kind}")
        out[offset:offset + len(value)] = value

    def written(self) -> bytes:
        for o in self.made.objects:
            for row in o.relocated:
                if row[0] in (CODE, DATA):
                    self.relocate(o, *row)
        for piece in self.made.data:
            data = piece.data = bytearray(piece.data)
            for offset, (name, addend) in piece.pointers.items():
                struct.pack_into("<Q", data, offset, self.address(name) + addend)
        end = max((p.place + p.size for p in self.pieces), default=STACK)
        imports = [text("env") + text(name) + b"\0" + number(self.type(form)) for name, form in self.outside.items()]
        functions = [number(self.type(o.types[t])) for o in self.made.objects for t in o.own]
        exports = [text(name) + b"\0" + number(self.named_function(name)) for name in self.public]
        bodies = [bytes(o.code[begin:stop]) for o in self.made.objects for begin, stop in o.bodies]
        count = 1 + len(self.table)
        parts = [(TYPES, vector(self.types)), (IMPORTS, vector(imports)), (FUNCTIONS, vector(functions)),
                 (TABLE, b"\1\x70\1" + number(count) * 2), (MEMORY, b"\1\0" + number(1 + (end + 64 >> 16))),
                 (GLOBALS, b"\1\x7f\1\x41" + signed(STACK) + b"\x0b"),
                 (EXPORTS, vector([text("memory") + b"\2\0", *exports])),
                 *((START, number(self.named_function(name))) for name in self.starts),
                 (ELEMENTS, vector([b"\0\x41\1\x0b" + vector(map(number, self.table))] if self.table else [])),
                 (CODE, vector(bodies)), (DATA, vector(self.segments()))]
        return b"\0asm\1\0\0\0" + b"".join(section(*part) for part in parts)

    def segments(self):
        """Yield the initial contents of memory, without trailing zeros of each piece."""
        for piece in self.pieces:
            data = bytes(piece.data).rstrip(b"\0")
            if data:
                yield b"\0\x41" + signed(piece.place) + b"\x0b" + number(len(data)) + data


class Format:
    """Object files and modules of WebAssembly."""

    def read(self, image, renamed):
        return ObjectFile(image, renamed)

    def written(self, made, public, name, starts, ends) -> bytes:
        return Image(made, public, starts).written()
