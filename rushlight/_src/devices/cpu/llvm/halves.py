"""Conversion between floats, with exact roundings on CPUs that lack the instructions.

Left to itself LLVM calls library routines for these, which a JIT process need not have.
"""

from .types import bf16, f16, f32, i1, i16, i32

_DENORMAL = 0x20  # the class of floats in vfpclassps

def convert(b, a, target):
    """The float `a` as element type `target`, rounded to nearest even.

    Double to half rounds once more on the way, through float.
    """
    source = a.type.element
    if source is target:
        return a
    if source is bf16:
        return convert(b, _bfloat_to_float(b, a), target)
    if source is f16 and not b.features.f16c:
        return convert(b, _half_to_float(b, a), target)
    if target is bf16:
        return _float_to_bfloat(b, convert(b, a, f32))
    if target is f16 and (b.features.is_x86 or not b.features.f16c):
        a = convert(b, a, f32)
        if not b.features.f16c:
            return _float_to_half(b, a)
    wider = target.bits > a.type.element.bits
    return b.cast("fpext" if wider else "fptrunc", a, a.type.with_element(target))


def _bfloat_to_float(b, a):
    bits = b.cast("zext", b.bitcast(a, a.type.with_element(i16)), a.type.with_element(i32))
    return b.bitcast(b.shl(bits, 16), a.type.with_element(f32))


def _float_to_bfloat(b, a):
    features = b.features
    if not features.bf16 or features.scalable or features.is_x86 and a.type.lanes not in (8, 16):
        return _rounded_bits(b, a)  # SVE: LLVM has no fixed-size vectors of bfloat16
    if not features.is_x86:
        return b.cast("fptrunc", a, a.type.with_element(bf16))
    # the instruction takes denormal floats for zero
    return b.when(b.reduce("or", _denormal(b, a)), lambda: [_rounded_bits(b, a)],
                  lambda: [rounded_operand(b, a, bf16)])[0]


def _denormal(b, a):
    """Mask of the denormal lanes, without zeros."""
    name, lanes = f"llvm.x86.avx512.fpclass.ps.{a.type.bits}", a.type.with_element(i1)
    b.module.declare(name, lanes, [a.type, f"{i32} immarg"])
    return b.value(lanes, f"call {lanes} @{name}({a.type} {a.text}, i32 {_DENORMAL})")


def _rounded_bits(b, a):
    """Round to bfloat16 by integer arithmetic."""
    bits = b.bitcast(a, a.type.with_element(i32))
    odd = b.and_(b.lshr(bits, 16), 1)
    rounded = b.lshr(b.add(b.add(bits, odd), 0x7FFF), 16)
    # a NaN whose payload sits in the dropped bits must not round to infinity
    quiet = b.or_(b.lshr(bits, 16), 0x40)
    narrow = b.cast("trunc", b.select(b.is_nan(a), quiet, rounded), a.type.with_element(i16))
    return b.bitcast(narrow, a.type.with_element(bf16))


def rounded_operand(b, a, target):
    """A vector of floats rounded to `target` for matmuls that treat denormals as zero: one instruction for bfloat16, if
    the CPU has it."""
    if target is not bf16 or not b.features.bf16 or a.type.element is not f32 or not b.features.is_x86:
        return convert(b, a, target)
    return b.call(f"llvm.x86.avx512bf16.cvtneps2bf16.{a.type.bits}", [a], a.type.with_element(bf16))


def _half_to_float(b, a):
    type = a.type.with_element(f32)
    bits = b.cast("zext", b.bitcast(a, a.type.with_element(i16)), a.type.with_element(i32))
    sign = b.shl(b.and_(bits, 0x8000), 16)
    magnitude = b.shl(b.and_(bits, 0x7FFF), 13)
    # scaling by 2^112 moves the exponent bias and makes subnormal float16 values normal floats
    scaled = b.mul(b.bitcast(magnitude, type), 2.0 ** 112)
    special = b.compare(">=", magnitude, 0x7C00 << 13)
    infinite = b.or_(magnitude, 0x7F800000)
    result = b.select(special, infinite, b.bitcast(scaled, magnitude.type))
    return b.bitcast(b.or_(result, sign), type)


def _float_to_half(b, a):
    ints = a.type.with_element(i32)
    bits = b.bitcast(a, ints)
    sign = b.and_(b.lshr(bits, 16), 0x8000)
    magnitude = b.and_(bits, 0x7FFFFFFF)
    # subnormal results: adding 0.5 lines the half's last bit up with the float's, so the addition rounds for us
    tiny = b.sub(b.bitcast(b.add(b.bitcast(magnitude, a.type), 0.5), ints), 0x3F000000)
    odd = b.and_(b.lshr(magnitude, 13), 1)
    normal = b.lshr(b.add(b.add(magnitude, odd), (-112 << 23) + 0xFFF), 13)
    result = b.select(b.compare("<", magnitude, 113 << 23), tiny, normal)
    result = b.select(b.compare(">=", magnitude, 0x477FF000), 0x7C00, result)
    result = b.select(b.compare(">", magnitude, 0x7F800000), 0x7E00, result)
    narrow = b.cast("trunc", b.or_(result, sign), a.type.with_element(i16))
    return b.bitcast(narrow, a.type.with_element(f16))
