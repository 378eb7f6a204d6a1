"""Logarithm of the gamma function and its derivatives, the latter by the Hurwitz zeta function."""
from __future__ import annotations

import math
from fractions import Fraction

from ...core.dtypes import float64
from ...core.expr import apply, number, repeated, where
from . import exact, special
from .fits import DIGAMMA_ROOT, FITS
from .pieces import both, either, fitted, fma, greater, lesser, magnitude, polynomial

FAR = 8.0  # argument from which Stirling's series is used
HALF_LOG = 0.9189385332046728  # log(2 pi) / 2


def sine_of_pi(x):
    """sin(pi x) and cos(pi x), after reducing x to the nearest half."""
    n = apply("round", x * 2.0)
    part = x - n * 0.5
    r, lost = exact.two_product(part, number(math.pi, float64))
    lost = fma(part, 1.2246467991473532e-16, lost)
    quarter = n - 4.0 * apply("floor", n * 0.25)
    sine, cosine = apply("sin", r), apply("cos", r)
    sine, cosine = fma(cosine, lost, sine), fma(-sine, lost, cosine)
    s = where(apply("eq", quarter, 0.0), sine,
              where(apply("eq", quarter, 1.0), cosine, where(apply("eq", quarter, 2.0), -sine, -cosine)))
    c = where(apply("eq", quarter, 0.0), cosine,
              where(apply("eq", quarter, 1.0), -sine, where(apply("eq", quarter, 2.0), -cosine, sine)))
    return s, c


def right_lgamma(x):
    """lgamma(x) for x > 0."""
    small = x * fitted(x, FITS["lgamma_1"]) - apply("log", x)
    one, two = x - 1.0, x - 2.0
    near = where(apply("lt", x, 1.5), one * fitted(one, FITS["lgamma_1"]), two * fitted(two, FITS["lgamma_2"])) + 0.0
    big = greater(x, FAR)
    r = 1.0 / big
    log = apply("log", big) - 1.0
    far = fma(big - 0.5, log, HALF_LOG - 0.5) + fitted(r * r, FITS["stirling"]) * r
    out = where(apply("lt", x, FAR), fitted(x, FITS["lgamma_middle"]), far)
    return where(apply("lt", x, 0.5), small, where(apply("lt", x, 2.5), near, out))


@special("lgamma")
def lgamma(x):
    """Left of 0 by the reflection log(pi / |x sin(pi x)|) - lgamma(-x)."""
    a = magnitude(x)
    right = right_lgamma(where(apply("eq", a, math.inf), number(1.0, float64), a))
    sine = magnitude(sine_of_pi(lesser(a, 2.0**53))[0])
    left = apply("log", math.pi / a) - apply("log", sine) - right
    left = where(apply("lt", a, 1e-17), right, left)
    pole = both(apply("le", x, 0.0), apply("eq", apply("floor", x), x))
    out = apply("rarely", apply("lt", x, 0.0), left, right)
    return where(either(pole, apply("eq", a, math.inf)), number(math.inf, float64), out)


def right_digamma(x):
    """digamma(x) for x >= 1."""
    root = ((x - DIGAMMA_ROOT[0]) - DIGAMMA_ROOT[1]) * fitted(x, FITS["digamma_root"])
    big = greater(x, FAR)
    r = 1.0 / big
    far = apply("log", big) + fma(fitted(r * r, FITS["digamma_far"]) * r, r, r * -0.5)
    return where(apply("lt", x, 2.0), root, where(apply("lt", x, FAR), fitted(x, FITS["digamma_middle"]), far))


@special("digamma")
def digamma(x):
    """Below 1 by digamma(x + 1) - 1 / x, left of 0 by digamma(1 - x) - pi / tan(pi x)."""
    negative, below = apply("lt", x, 0.0), apply("lt", x, 1.0)
    a = lesser(where(negative, 1.0 - x, where(below, x + 1.0, x)), 1e300)
    sine, cosine = sine_of_pi(x)
    out = right_digamma(a) - where(below, 1.0 / x, number(0.0, float64))
    out = apply("rarely", negative, right_digamma(a) - math.pi * cosine / sine, out)
    out = where(apply("eq", x, 0.0), apply("copysign", number(math.inf, float64), -x), out)
    out = where(apply("eq", x, math.inf), x, out)
    return where(both(negative, apply("eq", apply("floor", x), x)), number(math.nan, float64), out)


# --- the Hurwitz zeta function ----------------------------------------------------------------------------------------
def bernoulli(count):
    """The first Bernoulli numbers of even index, from B_2 on."""
    found = [Fraction(1)]
    for m in range(1, 2 * count + 1):
        found.append(-sum(math.comb(m + 1, k) * found[k] for k in range(m)) / (m + 1))
    return found[2::2]


FIRST, LATER = 10, 12  # terms that are added up, and of the series for the rest (Euler & Maclaurin)
FACTORS = [float(b / math.factorial(2 * k)) for k, b in enumerate(bernoulli(LATER), 1)]


def to_minus(q, s):
    """q^-s for a pair q > 0; for small integers s by multiplication."""
    if s.op == "number" and s.arg == int(s.arg) and 1 <= s.arg <= 4:
        out = q[0]
        for _ in range(int(s.arg) - 1):
            out = out * q[0]
        out = 1.0 / out
    else:
        out = apply("pow", q[0], -s)
    return fma(out, -s * (q[1] / q[0]), out)  # for large s, rounding errors of the sum matter


def right_zeta(s, q):
    """Hurwitz zeta function of s > 1 and a pair q > 0."""
    far = exact.two_sum(q[0], number(float(FIRST), float64))
    far = far[0], far[1] + q[1]
    power, r = to_minus(far, s), 1.0 / far[0]
    rest, term, factor, step = number(0.0, float64), power * r, s, r * r
    for k, c in enumerate(FACTORS):
        rest = fma(factor * term, c, rest)
        term = term * step
        factor = factor * ((s + (2.0 * k + 1.0)) * (s + (2.0 * k + 2.0)))
    rest = where(apply("eq", power, 0.0), power, rest)
    total = fma(power, 0.5, rest) + far[0] * power / (s - 1.0)

    def add(k, total):
        at, lost = exact.two_sum(q[0], (FIRST - 1.0) - k)
        return total + to_minus((at, lost + q[1]), s)

    return repeated(FIRST, total, add)


@special("zeta")
def zeta(s, q):
    """Left of 0, for integral s, the terms up to 0 are those of two more such sums."""
    floor = apply("floor", q)
    negative, none = apply("lt", q, 0.0), number(0.0, float64)
    right = right_zeta(s, exact.chosen(negative, exact.two_sum(q, -floor), (q, none)))
    sign = where(apply("eq", apply("floor", s * 0.5) * 2.0, s), number(1.0, float64), number(-1.0, float64))
    left = right + sign * (right_zeta(s, ((floor + 1.0) - q, none))
                           - right_zeta(s, exact.two_sum(-q, number(1.0, float64))))
    out = apply("rarely", negative, left, right)
    pole = both(apply("le", q, 0.0), apply("eq", floor, q))
    out = where(both(negative, apply("ne", apply("floor", s), s)), number(math.nan, float64), out)
    out = where(either(apply("eq", s, 1.0), pole), number(math.inf, float64), out)
    out = where(either(apply("eq", q, math.inf), apply("eq", s, math.inf)),
                where(either(apply("gt", q, 1.0), apply("eq", q, math.inf)), number(0.0, float64),
                      where(apply("eq", q, 1.0), number(1.0, float64), out)), out)
    out = where(apply("lt", s, 1.0), number(math.nan, float64), out)
    return where(either(apply("isnan", s), apply("isnan", q)), number(math.nan, float64), out)
