"""The error function, its complement and inverse, and the normal distribution function."""
from __future__ import annotations

import math

from ...core.dtypes import float64
from ...core.expr import apply, number, where
from . import exact, special
from .fits import FITS
from .pieces import both, either, fitted, fma, lesser, magnitude, with_sign


def scaled_complement(a):
    """e^(a^2) erfc(a) for a >= 0."""
    t = 1.0 - 4.0 / (a + 2.0)
    return fitted(t, FITS["erfcx"]) / fma(a, 2.0, 1.0)


def bell(a, scale=1.0):
    """e^(-scale a^2), scale 1 or 1/2, accurate to the last place also for large squares."""
    square, lost = exact.two_product(lesser(a, 40.0), lesser(a, 40.0))
    return exact.exp((square * -scale, lost * -scale))


def near_zero(x):
    return x * fitted(x * x, FITS["erf"])


@special("erf")
def erf(x):
    a = magnitude(x)
    far = with_sign(1.0 - bell(a) * scaled_complement(a), x)
    return where(apply("gt", a, 1.0), far, near_zero(x))


@special("erfc")
def erfc(x):
    a = magnitude(x)
    upper = bell(a) * scaled_complement(a)
    far = where(apply("lt", x, 0.0), 2.0 - upper, upper)
    return where(apply("lt", a, 0.5), 1.0 - near_zero(x), far)


@special("erfcx")
def erfcx(x):
    a = magnitude(x)
    upper = scaled_complement(a)
    square, lost = exact.two_product(lesser(a, 30.0), lesser(a, 30.0))
    return where(apply("lt", x, 0.0), 2.0 * exact.exp((square, lost)) - upper, upper)


def inverse(v, rest):
    """erfinv(v), given 1 - v^2 as ``rest``."""
    w = -apply("log", rest)
    slope = where(apply("lt", w, 6.25), fitted(w, FITS["erfinv_near"]), fitted(apply("sqrt", w), FITS["erfinv_far"]))
    return slope * v


def at_ends(v, end, y):
    """Infinite at +-end, NaN beyond."""
    y = where(apply("eq", magnitude(v), end), v * math.inf, y)
    return where(apply("gt", magnitude(v), end), number(math.nan, float64), y)


@special("erfinv")
def erfinv(v):
    return at_ends(v, 1.0, inverse(v, (1.0 - v) * (v + 1.0)))


@special("ndtri")
def ndtri(p):
    """sqrt 2 erfinv(2 p - 1); 4 p (1 - p) is 1 less the square of 2 p - 1."""
    v = (p - 0.5) * 2.0
    y = inverse(v, 4.0 * (p * (1.0 - p))) * math.sqrt(2.0)
    y = where(apply("eq", p, 0.0), number(-math.inf, float64), where(apply("eq", p, 1.0), number(math.inf, float64), y))
    return where(either(apply("lt", p, 0.0), apply("gt", p, 1.0)), number(math.nan, float64), y)


HALF = math.sqrt(0.5)


@special("log_ndtr")
def log_ndtr(x):
    a = magnitude(x)
    scaled = scaled_complement(a * HALF) * 0.5
    tail = bell(a, 0.5) * scaled
    upper = apply("log1p", where(apply("gt", a, 1.0), -tail, fma(near_zero(x * HALF), 0.5, -0.5)))
    return where(apply("lt", x, -1.0), apply("log", scaled) - a * a * 0.5, upper)
