"""The Airy function Ai: polynomials near 0, its modulus and phase to the left, its quotient by the exponential decay to
the right (DLMF 9.7)."""
from __future__ import annotations

import math

from ...core.dtypes import float64
from ...core.expr import apply, number, where
from . import exact, special
from .fits import FITS
from .pieces import fitted, fma, greater, lesser, magnitude

LEFT, RIGHT = -4.0, 2.0


def zeta(a):
    """2/3 a^(3/2) as a pair."""
    root = apply("sqrt", a)
    rest = fma(-root, root, a) / (2.0 * root)
    p, lost = exact.two_product(a, root)
    return exact.multiply(exact.quick_sum(p, fma(a, rest, lost)), exact.pair(2 / 3, 3.700743415417188e-17))


@special("airy_ai")
def airy_ai(x):
    size = greater(magnitude(x), RIGHT)
    high, low = zeta(lesser(size, 1e200))
    quarter = apply("sqrt", apply("sqrt", size))
    right = exact.exp((-high, -low)) * fitted(1.0 / high, FITS["airy_right"]) / (quarter * (2 * math.sqrt(math.pi)))
    v = 1.0 / (high * high)
    sine, cosine = apply("sin", high), apply("cos", high)
    low = where(apply("lt", magnitude(low), 1.0), low, number(0.0, float64))
    sine, cosine = fma(cosine, low, sine), fma(-sine, low, cosine)
    p, q = fitted(v, FITS["airy_p"]), fitted(v, FITS["airy_q"]) / high
    left = (p * (cosine + sine) + q * (sine - cosine)) / (quarter * math.sqrt(2 * math.pi))
    out = where(apply("lt", x, LEFT), left, where(apply("gt", x, RIGHT), right, fitted(x, FITS["airy_middle"])))
    return where(apply("eq", magnitude(x), math.inf), number(0.0, float64), out)
