"""Operations of Exprs as expressions of WGSL."""

from __future__ import annotations

import math
import re
import struct

from ..shared.scalars import COMPARISONS, extreme, fused, infix, logical, rounding
from ..shared.scalars import Operation as Shared

TYPES = {
    "bool": "bool",
    "uint8": "u32",
    "int8": "i32",
    "int16": "i32",
    "int32": "i32",
    "int64": "i64",
    "float16": "f32",
    "bfloat16": "f32",
    "float32": "f32",
    "float64": "f64",
}
WIDTHS = {"uint8": 8, "int8": 8, "int16": 16}  # integers that are computed in 32 bits


def bits_of(number: float) -> int:
    """The bits of a number rounded to float32."""
    try:
        return struct.unpack("<I", struct.pack("<f", number))[0]
    except OverflowError:
        return 0x7F800000 if number > 0 else 0xFF800000


def literal(number, kind: str) -> str:
    """A constant of a WGSL type.

    What literals cannot say (infinities, NaN, the sign of zero) is made of its bits, by a function, so that it is not
    evaluated early.
    """
    if kind == "bool":
        return "true" if number else "false"
    if kind == "f32":
        bits = bits_of(float(number))
        usual = 0x00800000 <= bits & 0x7FFFFFFF < 0x7F800000 or not bits
        return f"{struct.unpack('<f', struct.pack('<I', bits))[0]!r}f" if usual else f"from_bits({bits}u)"
    if kind == "f64":
        bits = struct.unpack("<Q", struct.pack("<d", number))[0]
        usual = math.isfinite(number) and abs(number) >= 2.0**-1022 or not bits
        return f"{float(number)!r}lf" if usual else f"from_wide({bits}lu)"
    if kind == "u32":
        return f"{int(number)}u"
    number, suffix, bits = int(number), {"i32": "i", "i64": "li"}[kind], {"i32": 32, "i64": 64}[kind]
    if number == -(1 << bits - 1):
        return f"({number + 1}{suffix} - 1{suffix})"
    return f"{number}{suffix}" if number >= 0 else f"({number}{suffix})"


def wrapped(text: str, dtype) -> str:
    """Wrap an integer that is computed in 32 bits to the width of its dtype."""
    bits = WIDTHS.get(dtype.name)
    if bits is None:
        return text
    return (
        f"(({text}) & {(1 << bits) - 1}u)" if not dtype.is_signed else f"((({text}) << {32 - bits}u) >> {32 - bits}u)"
    )


def convert(x: str, source, target, f64="f64") -> str:
    """A number of one dtype as another.

    Floats outside an integer's range, and NaN, give the least int64, or its lower bits.
    """
    a, b = (TYPES[d.name] if TYPES[d.name] != "f64" else f64 for d in (source, target))
    if target.name == "bool":
        return x if a == "bool" else f"(!({x} == {literal(0, a)}))"
    if a == "bool":
        return f"select({literal(0, b)}, {literal(1, b)}, {x})"
    if a in ("f32", "f64") and b in ("i32", "u32", "i64"):
        wide = f"to_whole_{a}({x})"
        return wide if b == "i64" else wrapped(f"{b}({wide})", target)
    if a == b:
        return (
            wrapped(x, target)
            if WIDTHS.get(target.name, 32) < WIDTHS.get(source.name, 32)
            or target.name in WIDTHS
            and source.is_signed != target.is_signed
            else x
        )
    return wrapped(f"{b}({x})", target) if target.name in WIDTHS else f"{b}({x})"


class Operation(Shared):
    """An operation in WGSL; numbers of 8 and 16 bits are computed in 32."""

    floats, boolean = ("f32", "f64"), "bool"

    def as_truth(self, x):
        return x if self.is_truth else f"(!({x} == {literal(0, self.kind)}))"

    def stored(self, text):
        return wrapped(text, self.dtype)


def compared(symbol):
    def write(o):
        if o.is_truth and symbol not in ("==", "!="):
            return f"(u32({o.x[0]}) {symbol} u32({o.x[1]}))"
        if symbol == "!=":  # of NaN, unequal is what is not equal
            return f"(!({o.x[0]} == {o.x[1]}))"
        return f"({o.x[0]} {symbol} {o.x[1]})"

    return write


def bitwise(symbol, of_truths):
    return lambda o: f"({o.x[0]} {of_truths if o.kind == 'bool' else symbol} {o.x[1]})"


def called(name):
    return lambda o: f"{name}_{o.kind}({', '.join(o.x)})"


def signed_bits(o) -> str:
    """The unsigned type of as many bits."""
    return "u64" if o.kind == "i64" else "u32"


def count(o) -> str:
    """By how much is shifted; constants of 64 bits are not cast."""
    number = re.fullmatch(r"(\d+)(?:i|li|u)", o.x[1])
    return f"{number[1]}u" if number else f"u32({o.x[1]})"


def shifted(o):
    bits = WIDTHS.get(o.dtype.name)
    mask = f" & {(1 << bits) - 1}u" if bits else ""
    return (
        f"{o.kind}(({signed_bits(o)}({o.x[0]}){mask}) >> {count(o)})"
        if bits
        else f"bitcast<{o.kind}>(bitcast<{signed_bits(o)}>({o.x[0]}) >> {count(o)})"
    )


def absolute(o):
    return o.x[0] if o.kind in ("bool", "u32") else o.stored(f"abs({o.x[0]})")


def signed(o):
    if o.kind in ("bool", "u32"):
        return o.x[0] if o.is_truth else f"min({o.x[0]}, 1u)"
    kind = o.kind if o.kind.startswith("i") else "i32"  # drivers would make -0.0 of a choice of floats for -0.0
    zero, (none, one, minus) = literal(0, o.kind), (literal(n, kind) for n in (0, 1, -1))
    found = f"select(select({none}, {minus}, {o.x[0]} < {zero}), {one}, {o.x[0]} > {zero})"
    return found if kind == o.kind else f"{o.kind}({found})"


def negated(o):
    return f"(0u - {o.x[0]}) & 255u" if o.kind == "u32" else o.stored(f"(-{o.x[0]})")


def as_bits(o):
    return f"bitcast<{o.result}>({o.x[0]})"


def rounded_as_stored(o):
    name = "half" if o.dtype.name == "float16" else "brain"
    return f"{name}_to_f32(f32_to_{name}({o.x[0]}))"


OPERATIONS = {
    "add": infix("+"),
    "sub": infix("-"),
    "mul": infix("*"),
    "div": infix("/"),
    "neg": negated,
    "fma": fused("fma"),
    **{name: compared(symbol) for name, symbol in COMPARISONS.items()},
    "floor": rounding("floor"),
    "ceil": rounding("ceil"),
    "sqrt": rounding("sqrt"),
    "trunc": rounding("trunc"),
    "round": rounding("round"),
    "bitwise_and": bitwise("&", "&"),
    "bitwise_or": bitwise("|", "|"),
    "bitwise_xor": bitwise("^", "!="),
    "bitwise_not": lambda o: f"(!{o.x[0]})" if o.is_truth else o.stored(f"(~{o.x[0]})"),
    "logical_and": logical("&"),
    "logical_or": logical("|"),
    "logical_xor": logical("!="),
    "logical_not": lambda o: f"(!{o.as_truth(o.x[0])})",
    "left_shift": lambda o: o.stored(f"({o.x[0]} << {count(o)})"),
    "right_shift": lambda o: f"({o.x[0]} >> {count(o)})",
    "shift_right_logical": shifted,
    "maximum": extreme("|", "maximum_{}", "max"),
    "minimum": extreme("&", "minimum_{}", "min"),
    "abs": absolute,
    "sign": signed,
    "floor_divide": lambda o: o.stored(called("floor_divide")(o)),
    "remainder": called("remainder"),
    "fmod": called("fmod"),
    "reciprocal": lambda o: f"({literal(1, o.kind)} / {o.x[0]})",
    "copysign": called("copysign"),
    "where": lambda o: f"select({o.x[2]}, {o.x[1]}, {o.x[0]})",
    "isnan": called("is_nan"),
    "as_stored": rounded_as_stored,
    "whole": lambda o: f"{o.result}({o.x[0]})",
    "bitcast": as_bits,
}  # "convert" and "table" are the emitter's


# Of float32, where there is no float64 to compute in: what WGSL has itself.
BUILTINS = {
    name: name + "({0})"
    for name in (
        "sin",
        "cos",
        "tan",
        "atan",
        "asin",
        "acos",
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atanh",
        "exp2",
        "log2",
    )
} | {
    "atan2": "atan2({0}, {1})",
    "log10": "(log2({0}) * 0.30102999566f)",
    "pow": "power({0}, {1})",
    "hypot": "length(vec2<f32>({0}, {1}))",
    "expm1": "expm1({0})",
}
