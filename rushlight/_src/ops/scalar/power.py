"""Powers: x^y."""
from __future__ import annotations

import math

from ...core.dtypes import float64
from ...core.expr import apply, number, where
from . import exact, special
from .pieces import both, either, magnitude


@special("pow")
def power(x, y):
    """e^(y ln |x|) with the logarithm in double-double, and the sign of odd integral powers of negative numbers."""
    a = magnitude(x)
    usual = both(apply("gt", a, 0.0), apply("lt", a, math.inf))
    size = exact.power(where(usual, a, number(1.0, float64)),
                       where(apply("lt", magnitude(y), 1e300), y, number(0.0, float64)))
    rising = apply("eq", apply("gt", a, 1.0), apply("gt", y, 0.0))
    beyond = where(apply("eq", a, 1.0), number(1.0, float64),
                   where(rising, number(math.inf, float64), number(0.0, float64)))
    size = where(both(usual, apply("lt", magnitude(y), 1e300)), size, beyond)
    whole = apply("eq", apply("floor", y), y)
    odd = both(whole, apply("ne", apply("floor", y * 0.5), y * 0.5))
    size = where(odd, apply("copysign", size, x), size)
    unreal = both(apply("logical_not", whole), both(apply("lt", x, 0.0), apply("gt", x, -math.inf)))
    size = where(either(unreal, either(apply("isnan", x), apply("isnan", y))), number(math.nan, float64), size)
    size = where(apply("eq", y, 1.0), x, size)
    return where(either(apply("eq", y, 0.0), apply("eq", x, 1.0)), number(1.0, float64), size)
