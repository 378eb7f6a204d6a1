"""Double-double arithmetic, with twice the precision: for values that cancel, or that are raised to a power."""
from __future__ import annotations

import math

from ...core.dtypes import float64, int64
from ...core.expr import Expr, apply, convert, number, where
from .pieces import bits, fma, greater, lesser, polynomial, whole


def parts(top: int, bottom: int) -> tuple[float, float]:
    """A fraction as a sum of two doubles."""
    high = top / bottom
    n, d = high.as_integer_ratio()
    return high, (top * d - n * bottom) / (d * bottom)


def quick_sum(a, b):
    """a + b exactly, |a| >= |b|."""
    s = a + b
    return s, b - (s - a)


def two_sum(a, b):
    """a + b exactly."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a, b):
    """a b exactly."""
    p = a * b
    return p, fma(a, b, -p)


def add(x, y):
    """The sum of two pairs."""
    s, e = two_sum(x[0], y[0])
    f, g = two_sum(x[1], y[1])
    s, e = quick_sum(s, e + f)
    return quick_sum(s, e + g)


def multiply(x, y):
    """The product of two pairs."""
    p, e = two_product(x[0], y[0])
    return quick_sum(p, fma(x[0], y[1], fma(x[1], y[0], e)))


def times(x, c):
    """Multiply a pair by a double."""
    p, e = two_product(x[0], c)
    return quick_sum(p, fma(x[1], c, e))


def divide(x, y):
    """The quotient of two pairs."""
    q = x[0] / y[0]
    p, e = two_product(q, y[0])
    rest = ((x[0] - p) - e) + x[1] - q * y[1]
    return quick_sum(q, rest / y[0])


def negative(x):
    return -x[0], -x[1]


def pair(c: float, low: float = 0.0):
    return number(c, float64), number(low, float64)


def chosen(condition, x, y):
    return where(condition, x[0], y[0]), where(condition, x[1], y[1])


LN2 = (0.6931471805598903, 5.497923018708371e-14)  # the first has 42 bits, so that integral multiples of it are exact
ODD = [parts(2, 2 * k + 1) for k in range(1, 5)]


def halved(x: Expr):
    """(m, e) with x = m 2^e and m in [sqrt 1/2, sqrt 2) for positive finite x, e a float."""
    small = apply("lt", x, 2.2250738585072014e-308)
    pattern = bits(where(small, x * 2.0**54, x), int64)
    e = apply("right_shift", pattern - 0x3FE6A09E667F3BCD, 52)
    return bits(pattern - apply("left_shift", e, 52),
                float64), convert(e, float64) + where(small, number(-54.0, float64), number(0.0, float64))


def atanh_series(s):
    """2 atanh(s) - 2 s over s^3, as a pair, |s| < 0.18."""
    z = multiply(s, s)
    tail = polynomial(z[0], [2 / (2 * k + 1) for k in range(5, 16)])
    out = quick_sum(number(ODD[3][0], float64), fma(z[0], tail, ODD[3][1]))
    for c in reversed(ODD[:3]):
        out = add(pair(*c), multiply(z, out))
    return z, out


def log(x, low=0.0):
    """The logarithm of a positive finite number (or pair) as a pair: ln m + e ln 2, relative error some 2^-95."""
    m, e = halved(x)
    scale = m / x
    top, below = two_sum(m, number(-1.0, float64)), two_sum(m, number(1.0, float64))
    if isinstance(low, Expr):
        top, below = add(top, (low * scale, number(0.0, float64))), add(below, (low * scale, number(0.0, float64)))
    s = divide(top, below)
    z, series = atanh_series(s)
    near = add(times(s, 2.0), multiply(multiply(s, z), series))
    return add(two_sum(e * LN2[0], e * LN2[1]), near)


STEP = (0.6931471803691238, 1.9082149292705877e-10)  # ln 2 in parts for integral multiples up to 2^11
EXP = [1 / math.factorial(k) for k in range(2, 15)]


def exp(x):
    """e^x of a pair as a double, with an error well below the last place; denormal if it is that small."""
    high = greater(lesser(x[0], 800.0), -800.0)
    low = where(apply("eq", high, x[0]), x[1], number(0.0, float64))
    n = apply("round", high * (1 / math.log(2)))
    r, rest = two_sum(fma(n, -STEP[0], high), fma(n, -STEP[1], low))
    body, lost = quick_sum(number(1.0, float64), r)
    body = body + (lost + fma(r * r, polynomial(r, EXP), rest))
    half = apply("floor", n * 0.5)
    return body * power_of_two(half) * power_of_two(n - half)


def power_of_two(n):
    """2^n for an integral float n within the normal exponents."""
    return bits(apply("left_shift", whole(n, int64) + 1023, 52), float64)


def power(x, y):
    """x^y for positive finite x and finite y, as a double."""
    return exp(times(log(x), y))
