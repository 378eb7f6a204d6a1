"""Dot products of words: instructions that multiply the small elements in two vectors of 32-bit words, and add up those
of each word.

x86-64 has them for pairs of int16 (SSE2, AVX2, AVX-512), for pairs of bfloat16 and for uint8 times int8; AArch64 for
pairs of bfloat16 and for 8-bit integers, by NEON or by SVE, which also have multiplications of two rows by two columns:
each 128 bits of their vectors hold two words of each of two rows, or of two columns, or four sums.
"""
from dataclasses import dataclass

from .types import Type, bf16, i8, i16, i32, i64, scalable, vector
from .values import constant, poison

_SHORTS = {512: "llvm.x86.avx512.pmaddw.d.512", 256: "llvm.x86.avx2.pmadd.wd", 128: "llvm.x86.sse2.pmadd.wd"}


@dataclass(frozen=True)
class Dot:
    """A dot-product instruction.  `intrinsic`: LLVM's name; `operand`: the operand's element type in LLVM; `adds`: it
    also accumulates; `swapped`: it takes the second operand first; `scalable`: its vectors have no fixed size.
    """

    intrinsic: str
    operand: Type
    adds: bool = True
    swapped: bool = False
    scalable: bool = False

    def emit(self, b, sum, x, y):
        """sum + x * y, for vectors of words."""
        type, lanes = sum.type, sum.type.lanes * (32 // self.operand.bits)
        pair = [b.bitcast(operand, vector(self.operand, lanes)) for operand in ((y, x) if self.swapped else (x, y))]
        if not self.scalable:
            found = b.call(self.intrinsic, [sum, *pair] if self.adds else pair, type)
            return found if self.adds else b.add(sum, found)
        inner = [_scalable(b, operand) for operand in (sum, *pair)]
        found = b.call(self.intrinsic, inner, inner[0].type)
        return b.intrinsic("llvm.vector.extract", type, [found, constant(i64, 0)], [type, found.type])


@dataclass(frozen=True)
class Blocks(Dot):
    """An instruction that multiplies two rows by two columns and accumulates.  ``swapped``: the first operand is the
    columns, so that adjacent sums belong to different rows."""

    def columns(self, b, x, y):
        """Two operands made of two vectors of words adjacent along k: the first half of the columns, and the second
        half."""
        lanes = x.type.lanes
        return [b.shuffle(x, y, [part for k in range(first, first + lanes // 2) for part in (k, lanes + k)])
                for first in (0, lanes // 2)]

    def sums_of_rows(self, b, first, second):
        """Convert the sums of two rows to two vectors in the instruction's order."""
        lanes = first.type.lanes
        order = [(row, k) for k in range(0, lanes, 2) for row in (0, lanes)]
        picks = [row + k + j for row, k in order for j in (0, 1)]
        if self.swapped:
            picks = [row + k for k in range(lanes) for row in (0, lanes)]
        return b.shuffle(first, second, picks[:lanes]), b.shuffle(first, second, picks[lanes:])

    def rows_of_sums(self, b, first, second):
        """The inverse of ``sums_of_rows``."""
        lanes = first.type.lanes
        if self.swapped:
            return [b.shuffle(first, second, [2 * k + row for k in range(lanes)]) for row in (0, 1)]
        return [b.shuffle(first, second, [4 * k + 2 * row + j for k in range(lanes // 2) for j in (0, 1)])
                for row in (0, 1)]


def _scalable(b, value):
    """A fixed-size vector as a scalable one of the same size."""
    type = scalable(value.type.element, 128 // value.type.element.bits)
    return b.intrinsic("llvm.vector.insert", type, [poison(type), value, constant(i64, 0)], [type, value.type])


def of_bfloats(features):
    """The Dot of pairs of bfloat16, or None."""
    if not features.bf16:
        return None
    if features.is_x86:
        return Dot(f"llvm.x86.avx512bf16.dpbf16ps.{features.width}", bf16)
    if features.scalable:
        return Dot("llvm.aarch64.sve.bfdot", bf16, scalable=True)
    return Dot("llvm.aarch64.neon.bfdot.v4f32.v8bf16", bf16)


def blocks_of_bfloats(features):
    """The Blocks of bfloat16, or None."""
    if features.is_x86 or not features.bf16:
        return None
    if features.scalable:
        return Blocks("llvm.aarch64.sve.bfmmla", bf16, scalable=True)
    return Blocks("llvm.aarch64.neon.bfmmla", bf16)


def blocks_of_bytes(features, signed, b_signed):
    """The Blocks of 8-bit integers of the given signedness, or None."""
    if features.is_x86 or not features.mixed:
        return None
    name, wide = "usmmla" if signed != b_signed else "smmla" if signed else "ummla", features.scalable
    return Blocks(f"llvm.aarch64.{'sve' if wide else 'neon'}.{name}.{'nxv4i32' if wide else 'v4i32.v16i8'}", i8,
                  swapped=signed and not b_signed, scalable=wide)


def of_bytes(features, signed, b_signed):
    """Return (the Dot of four 8-bit integers of the given signedness, True if it needs a signed A flipped to unsigned),
    or None."""
    if features.is_x86:
        found = b_signed and features.vnni and features.width == 512
        return (Dot(f"llvm.x86.avx512.vpdpbusd.{features.width}", i32), signed) if found else None
    name = "usdot" if signed != b_signed else "sdot" if signed else "udot"
    if not (features.mixed if name == "usdot" else features.vnni):
        return None
    wide = features.scalable
    return Dot(f"llvm.aarch64.{'sve' if wide else 'neon'}.{name}.{'nxv4i32' if wide else 'v4i32.v16i8'}", i8,
               swapped=signed and not b_signed, scalable=wide), False


def of_shorts(features):
    """The Dot of pairs of int16, or None."""
    return Dot(_SHORTS[features.width], i16, adds=False) if features.is_x86 else None
