"""Bessel functions of orders 0 and 1, by polynomials near 0 and by modulus and phase farther out (DLMF 10.17,
10.40)."""
from __future__ import annotations

import math

from ...core.dtypes import float64
from ...core.expr import apply, number, where
from . import exact, special
from .fits import FITS, J0_ROOT, J1_ROOT
from .pieces import fitted, fma, greater, lesser, magnitude, polynomial, with_sign

FAR = 5.0          # arguments from which J and Y are computed by modulus and phase
FAR_MODIFIED = 8.0
SERIES = [[1 / (math.factorial(k) * math.factorial(k + n) * 4.0**k) for k in range(11)] for n in (0, 1)]  # of I near 0


# --- I ----------------------------------------------------------------------------------------------------------------
def scaled_i(a, n):
    """e^-a I(a) for a >= 0."""
    near = fitted(a, FITS[f"i{n}e_near"]) * (a if n else 1.0)
    far = fitted(1.0 / greater(a, FAR_MODIFIED), FITS[f"i{n}e_far"]) / apply("sqrt", a)
    return where(apply("lt", a, FAR_MODIFIED), near, far)


def unscaled(a, scaled):
    """Multiply a scaled value by e^a; the result may be finite where e^a is not."""
    half = apply("exp", lesser(a, 1400.0) * 0.5)
    return half * scaled * half


def grown(a, n):
    """I(a) for a >= 0; infinity propagates."""
    return where(apply("eq", a, math.inf), a, unscaled(a, scaled_i(a, n)))


@special("i0e")
def i0e(x):
    return scaled_i(magnitude(x), 0)


@special("i0")
def i0(x):
    return grown(magnitude(x), 0)


@special("i1e")
def i1e(x):
    return with_sign(scaled_i(magnitude(x), 1), x)


@special("i1")
def i1(x):
    return with_sign(grown(magnitude(x), 1), x)


# --- K ----------------------------------------------------------------------------------------------------------------
def near_k(x, n):
    """K(x) for 0 < x <= 1."""
    z = x * x
    log = apply("log", x * 0.5)
    if n == 0:
        return fma(-log, polynomial(z, SERIES[0]), fitted(z, FITS["k0_near"]))
    return 1.0 / x + x * fma(log * 0.5, polynomial(z, SERIES[1]), fitted(z, FITS["k1_near"]))


def second_kind(x, y, at_zero):
    """``y``, but ``at_zero`` at 0 and NaN below."""
    y = where(apply("eq", x, 0.0), number(at_zero, float64), y)
    return where(apply("lt", x, 0.0), number(math.nan, float64), y)


def far_k(x, n):
    """e^x K(x) for x >= 1."""
    return fitted(1.0 / greater(x, 1.0), FITS[f"k{n}e_far"]) / apply("sqrt", x)


def k(x, n):
    return second_kind(x, where(apply("lt", x, 1.0), near_k(x, n), exact.exp((-x, x * 0.0)) * far_k(x, n)), math.inf)


def scaled_k(x, n):
    return second_kind(x, where(apply("lt", x, 1.0), near_k(x, n) * apply("exp", lesser(x, 1.0)), far_k(x, n)),
                       math.inf)


special("k0")(lambda x: k(x, 0))
special("k1")(lambda x: k(x, 1))
special("k0e")(lambda x: scaled_k(x, 0))
special("k1e")(lambda x: scaled_k(x, 1))


# --- J and Y ----------------------------------------------------------------------------------------------------------
def far_j_and_y(x, n):
    """J(x) and Y(x) for x >= 5: sine and cosine of the phase x - (2 n + 1) pi / 4 follow exactly from those of x."""
    x = greater(x, FAR)
    r = FAR / x
    v = r * r
    p, q = fitted(v, FITS[f"j{n}_p"]), fitted(v, FITS[f"j{n}_q"]) / x
    sine, cosine = apply("sin", x), apply("cos", x)
    c, s = (cosine + sine, sine - cosine) if n == 0 else (sine - cosine, -(sine + cosine))
    size = apply("sqrt", (1 / math.pi) / x)
    return where(apply("eq", x, math.inf), number(0.0, float64), size * (p * c - q * s)), \
        where(apply("eq", x, math.inf), number(0.0, float64), size * (p * s + q * c))


def near_j(x, n):
    """J(x) for |x| <= 5, by its first zero."""
    root, rest = J1_ROOT if n else J0_ROOT
    by_root = ((magnitude(x) - root) - rest) * (magnitude(x) + root)
    near = by_root * fitted(x * x, FITS[f"j{n}_near"])
    return near * x if n else near


def j(x, n):
    a = magnitude(x)
    far = far_j_and_y(a, n)[0]
    return where(apply("lt", a, FAR), near_j(x, n), apply("mul", with_sign(number(1.0, float64), x), far) if n else far)


def y(x, n):
    log = apply("log", x) * (2 / math.pi)
    near = fma(log, near_j(x, n), fitted(x * x, FITS[f"y{n}_near"]) * (x if n else 1.0))
    if n:
        near = near - (2 / math.pi) / x
    return second_kind(x, where(apply("lt", x, FAR), near, far_j_and_y(x, n)[1]), -math.inf)


special("j0")(lambda x: j(x, 0))
special("j1")(lambda x: j(x, 1))
special("y0")(lambda x: y(x, 0))
special("y1")(lambda x: y(x, 1))


SINC = [(-1) ** k / math.factorial(2 * k + 1) for k in range(8)]


@special("spherical_j0")
def spherical_j0(x):
    """sin(x) / x."""
    far = where(apply("eq", magnitude(x), math.inf), number(0.0, float64), apply("sin", x) / x)
    return where(apply("lt", magnitude(x), 0.5), polynomial(x * x, SINC), far)
