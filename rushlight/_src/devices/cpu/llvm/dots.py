"""Dot products of words: instructions that multiply the small numbers in two vectors of 32-bit words, and add up those
of each word.

x86-64 has them for pairs of shorts (SSE2, AVX2, AVX-512), for pairs of bfloats and for unsigned bytes times signed
ones; AArch64 for pairs of bfloats and for bytes, by NEON or by SVE, and there products of two rows by two columns, too:
each 128 bits of their vectors hold two words of each of two rows, and of two columns, and four sums.
"""
from dataclasses import dataclass

from .types import Type, bf16, i8, i16, i32, i64, scalable, vector
from .values import constant, poison

_SHORTS = {512: "llvm.x86.avx512.pmaddw.d.512", 256: "llvm.x86.avx2.pmadd.wd", 128: "llvm.x86.sse2.pmadd.wd"}


@dataclass(frozen=True)
class Dot:
    """An instruction.  `intrinsic`: LLVM's name; `operand`: the type that it sees in a word; `adds`: it adds the
    products to sums itself; `swapped`: it wants the second operand first; `scalable`: its vectors have no fixed size.
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
    """An instruction that adds products of two rows and two columns.  ``swapped``: the first operand is that of the
    columns, so that a sum's neighbour is that of the other row."""

    def columns(self, b, x, y):
        """Two operands for as many columns as two vectors of words have, which are neighbours along k: those of the
        first half of the columns, and those of the second."""
        lanes = x.type.lanes
        return [b.shuffle(x, y, [part for k in range(first, first + lanes // 2) for part in (k, lanes + k)])
                for first in (0, lanes // 2)]

    def sums_of_rows(self, b, first, second):
        """Two vectors of sums as the instruction has them, of those of two rows."""
        lanes = first.type.lanes
        order = [(row, k) for k in range(0, lanes, 2) for row in (0, lanes)]
        picks = [row + k + j for row, k in order for j in (0, 1)]
        if self.swapped:
            picks = [row + k for k in range(lanes) for row in (0, lanes)]
        return b.shuffle(first, second, picks[:lanes]), b.shuffle(first, second, picks[lanes:])

    def rows_of_sums(self, b, first, second):
        """The other way round."""
        lanes = first.type.lanes
        if self.swapped:
            return [b.shuffle(first, second, [2 * k + row for k in range(lanes)]) for row in (0, 1)]
        return [b.shuffle(first, second, [4 * k + 2 * row + j for k in range(lanes // 2) for j in (0, 1)])
                for row in (0, 1)]


def _scalable(b, value):
    """A vector as one whose size the processor decides, which is the same."""
    type = scalable(value.type.element, 128 // value.type.element.bits)
    return b.intrinsic("llvm.vector.insert", type, [poison(type), value, constant(i64, 0)], [type, value.type])


def of_bfloats(features):
    """The Dot of pairs of bfloats; None where there is none."""
    if not features.bf16:
        return None
    if features.is_x86:
        return Dot(f"llvm.x86.avx512bf16.dpbf16ps.{features.width}", bf16)
    if features.scalable:
        return Dot("llvm.aarch64.sve.bfdot", bf16, scalable=True)
    return Dot("llvm.aarch64.neon.bfdot.v4f32.v8bf16", bf16)


def blocks_of_bfloats(features):
    """The Blocks of bfloats; None where there are none."""
    if features.is_x86 or not features.bf16:
        return None
    if features.scalable:
        return Blocks("llvm.aarch64.sve.bfmmla", bf16, scalable=True)
    return Blocks("llvm.aarch64.neon.bfmmla", bf16)


def blocks_of_bytes(features, signed, b_signed):
    """The Blocks of bytes of either sign; None where there are none."""
    if features.is_x86 or not features.mixed:
        return None
    name, wide = "usmmla" if signed != b_signed else "smmla" if signed else "ummla", features.scalable
    return Blocks(f"llvm.aarch64.{'sve' if wide else 'neon'}.{name}.{'nxv4i32' if wide else 'v4i32.v16i8'}", i8,
                  swapped=signed and not b_signed, scalable=wide)


def of_bytes(features, signed, b_signed):
    """(Dot of four bytes of either sign, whether it wants those of A unsigned though they are not); None where there is
    none."""
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
    """The Dot of pairs of shorts; None where there is none."""
    return Dot(_SHORTS[features.width], i16, adds=False) if features.is_x86 else None
