"""LLVM types as small interned objects: equal types are one object."""

import functools
import struct


class Type:
    """An LLVM type: its name, its element type and lane count (0 for a scalar), and its size in bytes."""

    __slots__ = ("text", "kind", "element", "lanes", "bits", "mangled")

    def __init__(self, text, kind, bits, element=None, lanes=0, mangled=None):
        self.text = text
        self.kind = kind  # "int", "float", "pointer" or "void"
        self.bits = bits
        self.element = element or self
        self.lanes = lanes
        self.mangled = mangled or text

    @property
    def bytes(self):
        """Bytes one value takes in memory (an i1 takes one)."""
        return max(1, self.element.bits // 8) * (self.lanes or 1)

    @property
    def is_float(self):
        return self.kind == "float"

    @property
    def is_int(self):
        return self.kind == "int"

    def with_element(self, element):
        """The same shape (scalar or lanes) with another element type."""
        return vector(element, self.lanes) if self.lanes else element

    def __repr__(self):
        return self.text


void = Type("void", "void", 0)
ptr = Type("ptr", "pointer", 64, mangled="p0")
i1, i8, i16, i32, i64 = (Type(f"i{bits}", "int", bits) for bits in (1, 8, 16, 32, 64))
f16 = Type("half", "float", 16, mangled="f16")
bf16 = Type("bfloat", "float", 16, mangled="bf16")
f32 = Type("float", "float", 32, mangled="f32")
f64 = Type("double", "float", 64, mangled="f64")

_vectors = {}


def vector(element, lanes):
    """The type `<lanes x element>`; a lane count of 0 gives the scalar type itself.

    Example:
        >>> vector(f32, 16)
        <16 x float>
    """
    if not lanes:
        return element
    key = (element, lanes)
    found = _vectors.get(key)
    if found is None:
        found = Type(f"<{lanes} x {element.text}>", element.kind, element.bits * lanes,
                     element, lanes, f"v{lanes}{element.mangled}")
        found = _vectors.setdefault(key, found)
    return found


@functools.cache
def scalable(element, lanes):
    """The type of scalable vectors: a multiple of `lanes` elements, set by the CPU."""
    return Type(f"<vscale x {lanes} x {element.text}>", element.kind, 0, element, lanes,
                f"nxv{lanes}{element.mangled}")


def _rounded(element, number):
    """The double that holds `number` rounded to the precision of `element`: LLVM accepts only exact literals."""
    if number != number or number in (float("inf"), float("-inf")) or element is f64:
        return number
    if element is f16:
        try:
            return struct.unpack("<e", struct.pack("<e", number))[0]
        except OverflowError:
            return float("inf") if number > 0 else float("-inf")
    try:
        bits = struct.unpack("<I", struct.pack("<f", number))[0]
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
    if element is bf16:
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def literal(element, number):
    """Return the source of a scalar constant of type `element`."""
    if element.kind == "pointer":
        return "null" if not number else f"inttoptr (i64 {int(number)} to ptr)"
    if element.kind == "int":
        return str(int(number))
    value = _rounded(element, float(number))
    if element is f16:
        return "0xH%04X" % struct.unpack("<H", struct.pack("<e", value))[0]
    if element is bf16:
        return "0xR%04X" % (struct.unpack("<I", struct.pack("<f", value))[0] >> 16)
    return "0x%016X" % struct.unpack("<Q", struct.pack("<d", value))[0]
