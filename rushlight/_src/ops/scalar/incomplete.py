"""The regularized incomplete gamma functions P and Q: the smaller of the two is computed, the other is 1 less it.

Below ``x = a`` by a series, above it by a continued fraction (DLMF 8.7.1, 8.9.2), near it for large a by the uniform
expansion (8.12, Temme 1979), and for small a and x by 1 less two series (8.7.3).  Their common factor, x^a e^-x /
Gamma(a + 1), has a double-double exponent.
"""
from __future__ import annotations

import math

from ...core.dtypes import float64
from ...core.expr import apply, number, repeated, where
from . import exact, special
from .error import ndtri, scaled_complement
from .fits import FITS
from .pieces import both, either, fitted, fma, greater, lesser, polynomial

TERMS, FRACTIONS = 64, 64
LEAST, NEAR = 1.5, (0.5, 1.7)  # where the fraction begins; x / a where the uniform expansion is used, from
LARGE = 20.0                   # this a on


def density(a, x):
    """x^a e^-x / Gamma(a + 1) = e^(a log(x / (a + 1)) + a - x) / (sqrt(a + 1) G), with what is left of the gamma
    function."""
    one = number(1.0, float64)
    above = exact.two_sum(a, one)
    ratio = exact.divide((x, number(0.0, float64)), above)
    exponent = exact.add(exact.times(exact.log(*ratio), a), exact.two_sum(a, -x))
    return exact.exp(exponent) / (apply("sqrt", above[0]) * fitted(1.0 / above[0], FITS["rest_of_gamma"]))


def lower_series(a, x):
    """P over the density, for x < max(a, 1.5)."""
    return repeated(TERMS, number(1.0, float64), lambda k, out: fma(out, x / (a + (TERMS - k)), 1.0))


def upper_fraction(a, x):
    """Q over the density, for x > max(a, 1.5)."""
    first = x - a

    def under(k, out):
        n = FRACTIONS - k
        return (first + (2.0 * n - 1.0)) - (n - a) * n / out

    return a / repeated(FRACTIONS, first + (2.0 * FRACTIONS + 1.0), under)


def uniform(a, x):
    """Q for x > a, P for x < a: large a, x not far from it."""
    offset = exact.two_sum(x, -a)
    log = exact.log(*exact.divide((x, number(0.0, float64)), (a, number(0.0, float64))))
    y = exact.add(offset, exact.negative(exact.times(log, a)))
    y = greater(y[0], 0.0), y[1]
    eta = apply("copysign", apply("sqrt", 2.0 * y[0] / a), offset[0])
    r, total = 1.0 / a, number(0.0, float64)
    for k in reversed(range(13)):
        total = fma(total, r, fitted(eta, FITS[f"uniform_{k}"]))
    total = total * apply("sqrt", (0.5 / math.pi) * r)
    total = where(apply("lt", offset[0], 0.0), -total, total)
    return exact.exp(exact.negative(y)) * fma(scaled_complement(apply("sqrt", y[0])), 0.5, total)


def small_upper(a, x):
    """Q for a < 1/2, x < 1.5."""
    exponent = a * (apply("log", x) - fitted(a, FITS["lgamma_1"]))
    series, term = number(0.0, float64), None
    for n in reversed(range(1, 24)):
        term = (-1) ** (n + 1) / math.factorial(n) / (a + float(n))
        series = fma(series, x, term)
    return fma(apply("exp", exponent) * a, series * x, -apply("expm1", exponent))


def sides(a, x):
    """(P, Q) for positive finite a and x."""
    lower = apply("lt", x, where(apply("gt", a, LEAST), a, number(LEAST, float64)))
    small = both(apply("lt", a, 0.5), apply("lt", x, LEAST))
    near = both(apply("gt", a, LARGE), both(apply("gt", x, a * NEAR[0]), apply("lt", x, a * NEAR[1])))
    front = density(a, x)
    far = apply("logical_not", near)
    rising, falling = both(far, lower), both(far, apply("logical_not", lower))
    one = uniform(where(near, a, number(30.0, float64)), where(near, x, number(30.0, float64)))
    one = apply("rarely", rising, front * lower_series(a, where(rising, x, a)), one)
    one = apply("rarely", falling, front * upper_fraction(a, where(falling, x, a + 2.0)), one)
    # powers of such large numbers overflow
    one = where(apply("isnan", one), number(0.0, float64), lesser(one, 1.0))
    p, q = where(lower, one, 1.0 - one), where(lower, 1.0 - one, one)
    return p, apply("rarely", small,
                    small_upper(where(small, a, number(0.25, float64)), where(small, x, number(1.0, float64))), q)


def regular(a, x, which):
    """P or Q, including limits: a step for a = 0 and infinite a, NaN for negative arguments."""
    usual = both(both(apply("gt", a, 0.0), apply("lt", a, math.inf)),
                 both(apply("gt", x, 0.0), apply("lt", x, math.inf)))
    found = sides(where(usual, a, number(1.0, float64)), where(usual, x, number(1.0, float64)))[which]
    none, one = number(0.0, float64), number(1.0, float64)
    whole, rest = (one, none) if which == 0 else (none, one)  # x far above a, far below it
    ends = where(either(apply("eq", a, 0.0), apply("eq", x, math.inf)), whole, rest)
    undecided = either(both(apply("eq", a, 0.0), apply("eq", x, 0.0)),
                       both(apply("eq", a, math.inf), apply("eq", x, math.inf)))
    outside = either(either(apply("lt", a, 0.0), apply("lt", x, 0.0)), either(apply("isnan", a), apply("isnan", x)))
    return where(usual, found, where(either(undecided, outside), number(math.nan, float64), ends))


@special("igamma")
def igamma(a, x):
    return regular(a, x, 0)


@special("igammac")
def igammac(a, x):
    return regular(a, x, 1)


SEARCHED, STEPS = 64.0, 150  # rates up to which a Poisson distribution is searched from 0 on, and how far; beyond,
BEFORE, AFTER = 6.0, 16      # from BEFORE below the value of Cornish and Fisher's expansion (1938)


@special("poisson_quantile")
def poisson_quantile(u, rate):
    """The least k up to which a Poisson variable is with probability u or more, 0 <= u < 1: the distribution's terms
    are taken from u one by one.

    What is left of u is kept in units of the next term, and counts down below 0 once that term is more.
    """
    large = apply("gt", rate, SEARCHED)

    def searched(rate, first, left, steps):
        each = 1.0 / rate

        def step(k, left):
            rest = (left - 1.0) * ((first + (k + 1.0)) * each)
            return where(apply("lt", left, 0.0), left, where(apply("le", left, 1.0), -1.0 - k, rest))

        return first - 1.0 - repeated(steps, greater(left, 0.0), step, lambda left: apply("ge", left, 0.0))

    few = where(large, number(1.0, float64), rate)
    small = searched(few, number(0.0, float64), u * apply("exp", few), STEPS)
    many = lesser(where(large, rate, number(100.0, float64)), 1e15)
    z, root = ndtri(greater(u, 2.0**-54)), apply("sqrt", many)
    guess = many + z * root + (z * z - 1.0) / 6.0 + (z - z * z * z) / (72.0 * root)
    first = greater(apply("floor", guess) - BEFORE, 1.0)
    far = searched(many, first, (u - sides(first, many)[1]) / density(first, many), AFTER)
    out = apply("rarely", large, far, where(apply("eq", rate, 0.0), rate, small))
    return where(apply("ge", rate, 0.0), out, number(math.nan, float64))
