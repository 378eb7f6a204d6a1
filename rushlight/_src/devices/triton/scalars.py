"""Operations of Exprs as expressions of Triton.

Numbers of 8 and 16 bits compute in their own types, float16 and bfloat16 in float32.
"""

from __future__ import annotations

import math
import struct

from ..shared.scalars import COMPARISONS, extreme, fused, infix, logical, rounding
from ..shared.scalars import Operation as Shared

TYPES = {
    "bool": "tl.int1",
    "uint8": "tl.uint8",
    "int8": "tl.int8",
    "int16": "tl.int16",
    "int32": "tl.int32",
    "int64": "tl.int64",
    "float16": "tl.float32",
    "bfloat16": "tl.float32",
    "float32": "tl.float32",
    "float64": "tl.float64",
}
MEMORY = TYPES | {"bool": "tl.int8", "float16": "tl.float16", "bfloat16": "tl.bfloat16"}
POINTERS = {"tl.int8": "*i8", "tl.uint8": "*u8", "tl.int16": "*i16", "tl.int32": "*i32", "tl.int64": "*i64",
            "tl.float16": "*fp16", "tl.bfloat16": "*bf16", "tl.float32": "*fp32", "tl.float64": "*fp64"}
FLOATS = ("tl.float32", "tl.float64")
UNSIGNED = {8: "tl.uint8", 16: "tl.uint16", 32: "tl.uint32", 64: "tl.uint64"}
BITS = {"tl.float32": "tl.int32", "tl.float64": "tl.int64"}


def literal(number, kind: str) -> str:
    """A constant that takes the type of what it meets."""
    if kind == "tl.int1":
        return "True" if number else "False"
    if kind not in FLOATS:
        return f"{int(number)}" if number >= 0 else f"({int(number)})"
    number = float(number)
    if kind == "tl.float32" and math.isfinite(number):
        try:
            number = struct.unpack("<f", struct.pack("<f", number))[0]
        except OverflowError:
            number = math.copysign(math.inf, number)
    if number == 0 and math.copysign(1, number) < 0:  # of a literal the sign would be lost
        return typed("-1 << 31" if kind == "tl.float32" else "-1 << 63", kind)
    if math.isnan(number):
        return 'float("nan")'
    if math.isinf(number):
        return 'float("inf")' if number > 0 else '(-float("inf"))'
    return repr(number) if number > 0 or not number else f"({number!r})"


def typed(text: str, kind: str) -> str:
    """A literal with a type of its own; of a float that needs them, made of its bits."""
    if "<<" in text:
        return f"tl.full([], {text}, {BITS[kind]}).to({kind}, bitcast=True)"
    return f"tl.full([], {text}, {kind})"


def convert(x: str, source, target) -> str:
    """A number of one dtype as another.

    Floats outside an integer's range, and NaN, give the least int64, or its lower bits.
    """
    a, b = TYPES[source.name], TYPES[target.name]
    if a == b:
        return x
    if b == "tl.int1":
        return f"({x} != 0)"
    if a in FLOATS and b not in FLOATS:
        return f"to_whole({x})" if b == "tl.int64" else f"to_whole({x}).to({b})"
    return f"{x}.to({b})"


class Operation(Shared):
    """An operation in Triton."""

    floats, boolean = FLOATS, "tl.int1"

    @property
    def single(self) -> bool:
        return self.kind == "tl.float32"

    def as_truth(self, x):
        return x if self.is_truth else f"({x} != 0)"


def compared(symbol):
    """Return the emitter of a comparison; bools are compared as int8."""
    def write(o):
        if o.is_truth and symbol not in ("==", "!="):
            return f"({o.x[0]}.to(tl.int8) {symbol} {o.x[1]}.to(tl.int8))"
        return f"({o.x[0]} {symbol} {o.x[1]})"

    return write


def called(name):
    """Return the emitter of a call of a Triton function."""
    return lambda o: f"{name}({', '.join(o.x)})"


def quotient(o):
    """A division; of float32 the correctly rounded one."""
    return f"tl.div_rn({o.x[0]}, {o.x[1]})" if o.single else f"({o.x[0]} / {o.x[1]})"


def inverse(o):
    """1 / x; of float32 the correctly rounded one."""
    return f"tl.div_rn(1.0, {o.x[0]})" if o.single else f"(1.0 / {o.x[0]})"


def family(name):
    """Return the emitter of a function that has variants for floats, signed and unsigned integers."""
    def write(o):
        kind = "float" if o.is_float else "whole" if o.dtype.is_signed else "unsigned"
        return f"{name}_{kind}({', '.join(o.x)})"

    return write


def shifted(o):
    """A shift to the right that brings in zeros."""
    bits = UNSIGNED[8 * o.dtype.itemsize]
    return f"({o.x[0]}.to({bits}, bitcast=True) >> {o.x[1]}.to({bits})).to({o.kind}, bitcast=True)"


def signed(o):
    if o.is_truth:
        return o.x[0]
    if not o.is_float and not o.dtype.is_signed:
        return f"tl.minimum({o.x[0]}, 1)"
    return f"(({o.x[0]} > 0).to({o.kind}) - ({o.x[0]} < 0).to({o.kind}))"


def negated(o):
    return f"(-{o.x[0]})" if o.is_float or o.dtype.is_signed else f"(0 - {o.x[0]})"


def rounded_as_stored(o):
    return f"{o.x[0]}.to({MEMORY[o.dtype.name]}).to(tl.float32)"


OPERATIONS = {
    "add": infix("+"),
    "sub": infix("-"),
    "mul": infix("*"),
    "div": quotient,
    "neg": negated,
    "fma": fused("tl.fma"),
    **{name: compared(symbol) for name, symbol in COMPARISONS.items()},
    "floor": rounding("tl.floor"),
    "ceil": rounding("tl.ceil"),
    "sqrt": lambda o: f"tl.sqrt_rn({o.x[0]})" if o.single else f"tl.sqrt({o.x[0]})",
    "trunc": rounding("toward_zero"),
    "round": rounding("nearest"),
    "bitwise_and": infix("&"),
    "bitwise_or": infix("|"),
    "bitwise_xor": infix("^"),
    "bitwise_not": lambda o: f"(~{o.x[0]})",
    "logical_and": logical("&"),
    "logical_or": logical("|"),
    "logical_xor": logical("^"),
    "logical_not": lambda o: f"(~{o.x[0]})" if o.is_truth else f"({o.x[0]} == 0)",
    "left_shift": infix("<<"),
    "right_shift": infix(">>"),
    "shift_right_logical": shifted,
    "maximum": extreme("|", "greater", "greater"),
    "minimum": extreme("&", "lesser", "lesser"),
    "abs": lambda o: f"tl.abs({o.x[0]})" if o.is_float or o.dtype.is_signed and not o.is_truth else o.x[0],
    "sign": signed,
    "floor_divide": family("floor_divide"),
    "remainder": family("remainder"),
    "fmod": family("fmod"),
    "reciprocal": inverse,
    "copysign": called("with_sign"),
    "where": lambda o: f"tl.where({', '.join(o.x)})",
    "isnan": lambda o: f"({o.x[0]} != {o.x[0]})",
    "as_stored": rounded_as_stored,
    "whole": lambda o: f"{o.x[0]}.to({o.result})",
    "bitcast": lambda o: f"{o.x[0]}.to({o.result}, bitcast=True)",
}  # "convert" and "table" are the emitter's
