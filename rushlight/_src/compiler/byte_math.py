"""float8 values and their encodings in integer arithmetic; encodings are integral float32."""
from __future__ import annotations

import math

from ..core.dtypes import float32, int32
from ..core.expr import Expr, apply, convert, number, where
from ..core.narrow import FORMATS, Format
from ..ops.scalar.pieces import bits, magnitude, whole

DIGITS, BIAS = 23, 127  # of float32


def value_of(format: Format):
    """A function that decodes an encoding."""
    digits, lift = format.mantissa, BIAS - format.bias

    def run(code: Expr) -> Expr:
        word = whole(code, int32)
        size = apply("bitwise_and", word, 127)
        small = convert(size, float32) * 2.0 ** (1 - format.bias - digits)
        normal = bits(apply("left_shift", size + (lift << digits), DIGITS - digits), float32)
        found = where(apply("lt", size, 1 << digits), small, normal)
        nan, top = number(math.nan, float32), 127 >> digits << digits
        if format.kind == "infinite":
            found = where(apply("gt", size, top), nan, where(apply("eq", size, top), number(math.inf, float32), found))
        elif format.kind == "finite":
            found = where(apply("eq", size, 127), nan, found)
        found = where(apply("gt", word, 127), -found, found)
        return where(apply("eq", word, 128), nan, found) if format.kind == "unsigned" else found
    return run


def code_of(format: Format):
    """A function that encodes a number, rounding to nearest even."""
    digits, lift = format.mantissa, BIAS - format.bias

    def run(x: Expr) -> Expr:
        size, word = magnitude(x), bits(x, int32)
        plain = bits(size, int32)
        odd = apply("bitwise_and", apply("right_shift", plain, DIGITS - digits), 1)
        near = apply("right_shift", plain + (odd + ((1 << DIGITS - digits - 1) - 1)),
                     DIGITS - digits) - (lift << digits)
        small = whole(apply("round", size * 2.0 ** (format.bias - 1 + digits)), int32)
        found = where(apply("lt", size, 2.0 ** (1 - format.bias)), small, near)
        negative = apply("lt", word, 0)
        if format.kind == "unsigned":  # minus zero encodes NaN and overflow
            signed = where(apply("logical_and", negative, apply("gt", found, 0)), found + 128, found)
            lost = apply("logical_or", apply("isnan", x), apply("gt", found, 127))
            return convert(where(lost, number(128, int32), signed), float32)
        most = 126 if format.kind == "finite" else 127 >> digits << digits
        found = where(apply("gt", found, most), number(most, int32), found)
        found = where(apply("isnan", x), number(127, int32), found)
        return convert(where(negative, found + 128, found), float32)
    return run


EXPANSIONS = {f"number_{name}": value_of(one) for name, one in FORMATS.items()} | {
    f"code_{name}": code_of(one) for name, one in FORMATS.items()}
