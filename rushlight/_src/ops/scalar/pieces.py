"""Building blocks of functions of scalars: multiply-add, polynomials, bit casts, selection."""
from __future__ import annotations

from ...core.dtypes import float32, float64
from ...core.expr import Expr, apply, convert, number, where


def fma(a, b, c):
    like = next(x for x in (a, b, c) if isinstance(x, Expr)).dtype
    return apply("fma", *(x if isinstance(x, Expr) else number(x, like) for x in (a, b, c)))


def polynomial(x: Expr, coefficients) -> Expr:
    """c[0] + c[1] x + c[2] x^2 + ... by Horner's rule."""
    out = number(coefficients[-1], x.dtype)
    for c in reversed(coefficients[:-1]):
        out = fma(out, x, c)
    return out


def bits(x: Expr, dtype) -> Expr:
    return apply("bitcast", x, dtype=dtype)


def lesser(a, b: float):
    """Minimum of a and a bound; NaN propagates."""
    return where(apply("gt", a, b), number(b, a.dtype), a)


def greater(a, b: float):
    """Maximum of a and a bound; NaN propagates."""
    return where(apply("lt", a, b), number(b, a.dtype), a)


def whole(x: Expr, dtype) -> Expr:
    """Convert an integral float known to fit to an integer, without the checks of a conversion."""
    return apply("whole", x, dtype=dtype)


def magnitude(x):
    return apply("abs", x)


def with_sign(x, y):
    return apply("copysign", x, y)


def both(a, b):
    return apply("logical_and", a, b)


def either(a, b):
    return apply("logical_or", a, b)


def through_double(function, *args):
    """Compute a float32 result in float64."""
    if args[-1].dtype is float64:
        return function(*args)
    return convert(function(*(number(a.arg, float64) if a.op == "number" else convert(a, float64) for a in args)),
                   float32)


def centred(v, low, high):
    """Map a variable between bounds to -1 ... 1."""
    return fma(v, 2.0 / (high - low), -(high + low) / (high - low))


def fitted(v: Expr, pieces) -> Expr:
    """Value of polynomials on consecutive intervals (``fits.py``); past the ends the outermost ones are
    extrapolated."""
    out = None
    for low, high, coefficients in pieces:
        piece = polynomial(centred(v, low, high), coefficients)
        out = piece if out is None else where(apply("lt", v, low), out, piece)
    return out
