"""Dot products of words: instructions that multiply the small numbers in two vectors of 32-bit words, and add up those
of each word.

x86-64 has them for pairs of shorts (SSE2, AVX2, AVX-512), for pairs of bfloats and for unsigned bytes times signed
ones; AArch64 for pairs of bfloats and for bytes, by NEON or by SVE.
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
