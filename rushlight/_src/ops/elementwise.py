"""Arithmetic, comparison, logic and elementary functions, element by element with broadcasting."""
from __future__ import annotations

import math
import sys
from builtins import abs as abs_

import numpy as np

from ..core.dtypes import BOOL, FLOATING, INTEGER, bool_, float64, int32, int64
from ..core.errors import OperandError
from ..core.kinds import Foreign, P
from ..core.op import Scalar, op, rule, sample
from ..core.results import named
from ..core.runtime import has_value
from ..core.tensor import Tensor
from .former import former
from .prims.elementwise import NEXT_HALF
from .prims.primitive import binary, primitive
from .promotion import (as_dtype, check_factor, check_number, floating, held, needs, promoted,
                        promoted_as_stored, real as real_number, result_dtype)

PAIR = (sample((3, 4), (3, 4)), sample((3, 4), (4,)), sample((2, 1, 3), (4, 1)), sample((3,), 2.5), sample((), (2, 3)))
ONE = (sample((3, 4)), sample(()), sample((2, 0)))


def refuse_bool(name, *values):
    """RuntimeError if an operand is bool."""
    if any((v.dtype is bool_ if isinstance(v, Tensor) else isinstance(v, bool)) for v in values):
        raise RuntimeError(
            f"{name} with bool operands is not supported; use logical operators such as ^ or ~, or convert first")


@op(samples=PAIR, inplace_too=True, operator="add", number_first=True, numbers=True, otherwise=former("add"))
def add(input, other: Scalar, *, alpha: Scalar = 1):
    """input + alpha * other.  [*], [*] -> [*] broadcast and promoted."""
    x, y = promoted(input, other)
    if isinstance(alpha, Tensor) or alpha != 1:
        check_factor(alpha, result_dtype(x, y))
        y = P.mul(y, as_dtype(alpha, result_dtype(x, y))) if isinstance(y, Tensor) or isinstance(
            alpha, Tensor) else y * alpha
    return P.logical_or(x, y) if result_dtype(x, y) is bool_ else P.add(x, y)


@op(samples=PAIR, inplace_too=True, operator="sub", number_first=True, numbers=True, otherwise=former("sub"))
def sub(input, other: Scalar, *, alpha: Scalar = 1):
    """input - alpha * other.  [*], [*] -> [*] broadcast and promoted."""
    refuse_bool("subtraction", input, other)
    x, y = promoted(input, other)
    if isinstance(alpha, Tensor) or alpha != 1:
        check_factor(alpha, result_dtype(x, y))
        y = P.mul(y, as_dtype(alpha, result_dtype(x, y))) if isinstance(y, Tensor) or isinstance(
            alpha, Tensor) else y * alpha
    return P.sub(x, y)


@op(samples=PAIR)
def rsub(input, other: Scalar, *, alpha: Scalar = 1):
    """other - alpha * input."""
    refuse_bool("subtraction", input, other)
    x, y = promoted(input, other)
    if isinstance(alpha, Tensor) or alpha != 1:
        check_factor(alpha, x.dtype)
        x = P.mul(x, as_dtype(alpha, x.dtype))
    return P.sub(y, x)


@op(samples=PAIR, inplace_too=True, operator="mul", number_first=True, numbers=True)
def mul(input, other: Scalar):
    """input * other.  [*], [*] -> [*] broadcast and promoted."""
    x, y = promoted(input, other)
    return P.logical_and(x, y) if result_dtype(x, y) is bool_ else P.mul(x, y)


@op(samples=PAIR, inplace_too=True, operator="truediv", number_first=True, numbers=True, writable=True)
def div(input, other: Scalar, *, rounding_mode=None):
    """input / other; with ``rounding_mode`` "trunc" or "floor" the rounded quotient in the operands' dtype."""
    if rounding_mode is None:
        x, y = promoted(input, other, floating=True)
        return P.div(x, y)
    if rounding_mode not in ("trunc", "floor"):
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")
    x, y = promoted(input, other)
    if rounding_mode == "floor":
        return floor_quotient(x, y)
    if result_dtype(x, y).category == FLOATING:
        return P.trunc(P.div(x, y))
    return truncated_quotient(x, y)


def truncated_quotient(x, y):
    """x / y of integers, rounded towards 0."""
    q = P.floor_divide(x, y)
    exact_or_same_sign = P.logical_or(P.ge(q, 0), P.eq(P.mul(q, y), x))
    return P.where(exact_or_same_sign, q, P.add(q, 1))


def floor_quotient(x, y):
    if result_dtype(x, y).category != FLOATING:
        return P.floor_divide(x, y)
    rest = P.fmod(x, y)
    differs = P.logical_and(P.ne(rest, 0), P.ne(P.lt(rest, 0), P.lt(y, 0) if isinstance(y, Tensor) else bool(y < 0)))
    whole = P.div(P.sub(x, rest), y)
    whole = P.where(differs, P.sub(whole, 1.0), whole)
    near = P.floor(whole)
    near = P.where(P.gt(P.sub(whole, near), 0.5), P.add(near, 1.0), near)
    near = P.where(P.eq(whole, 0), P.copysign(P.mul(near, 0), P.div(x, y)), near)
    if not isinstance(y, Tensor) and y != 0:
        return near
    by_zero = P.trunc(P.div(x, y))  # infinite or NaN, without a slope
    return P.where(P.eq(y, 0), by_zero, near) if isinstance(y, Tensor) else by_zero


@op(samples=PAIR, inplace_too=True, operator="floordiv", number_first=True, numbers=True)
def floor_divide(input, other: Scalar):
    """The quotient rounded down."""
    return floor_quotient(promoted_as_stored(input, other)[0], promoted(input, other)[1])  # the divisor is not rounded


@op(samples=PAIR, inplace_too=True, operator="mod", number_first=True)
def remainder(input, other: Scalar):
    """The remainder with the sign of the divisor, as Python's %."""
    return P.remainder(*promoted_as_stored(input, other))


@op(samples=PAIR, inplace_too=True)
def fmod(input, other: Scalar):
    """The remainder with the sign of the dividend, as C's fmod."""
    return P.fmod(*promoted_as_stored(input, other))


ROOTS = (0.5, P.sqrt), (-0.5, P.rsqrt), (-1, P.reciprocal), (-2, lambda x: P.reciprocal(P.mul(x, x)))


@op(samples=PAIR, inplace_too=True, operator="pow", number_first=True, overwritable=("result",))
def pow(input, exponent):
    """input ** exponent."""
    x, y = promoted(input, exponent)
    # also for a run-time scalar, so that no result depends on earlier calls
    if has_value(exponent) and isinstance(x, Tensor):
        if exponent == 2:
            return P.mul(x, x)
        if exponent == 1:
            return P.mul(x, 1)
        if exponent == 0:
            return P.add(P.mul(x, 0),
                         1) if not x.dtype.is_inexact else P.where(P.full(shape=(), value=True, dtype=bool_), 1, x)
        if exponent == 3:
            return P.mul(P.mul(x, x), x)
        for special, root in ROOTS if x.dtype.is_inexact else ():
            if exponent == special:
                return root(x)
        if x.dtype.category == INTEGER or x.dtype.is_half:
            check_number(exponent, x.dtype)
        if x.dtype.category == INTEGER and exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
    return P.pow(x, y)


@op(samples=PAIR, method=False, number_first=True)
def rpow(input, other):
    """other ** input."""
    x, y = promoted(input, other)
    return P.pow(y, x)


def extreme(name, text):
    def body(input, other):
        x, y = promoted(input, other)
        if x.dtype.is_complex:
            raise RuntimeError(f"{name} is not defined for complex tensors")
        return getattr(P, name)(x, y)
    body.__name__, body.__doc__ = name, f"The {text} of the two, element by element; NaN wins."
    return op(body, samples=PAIR[:3])


maximum, minimum = extreme("maximum", "larger"), extreme("minimum", "smaller")


def extreme_number(name, text, ahead):
    def body(input, other):
        x, y = promoted(input, other)
        if x.dtype.is_complex:
            raise RuntimeError(f"{name} is not defined for complex tensors")
        return P.where(P.logical_or(getattr(P, ahead)(x, y), P.ne(y, y)), x, y)
    body.__name__, body.__doc__ = name, f"The {text} of the two; a number wins over NaN, input where they are equal."
    return op(body, samples=PAIR[:3])


fmax, fmin = extreme_number("fmax", "larger", "ge"), extreme_number("fmin", "smaller", "le")


@op(samples=PAIR[:3], inplace_too=True)
def atan2(input, other):
    """The angle of the point (other, input), in radians."""
    return P.atan2(*promoted(input, other, floating=True))


@op(samples=PAIR[:3], inplace_too=True, overwritable=("other",))
def copysign(input, other: Scalar):
    """The magnitude of input with the sign of other."""
    return P.copysign(*promoted(input, other, floating=True))


@op(samples=PAIR[:3], inplace_too=True)
def hypot(input, other):
    """sqrt(input**2 + other**2)."""
    x, y = promoted(input, other)
    needs(FLOATING, "hypot", x)
    return P.hypot(x, y)


@op(samples=PAIR[:2], inplace_too=True)
def nextafter(input, other):
    """The next floating number from input towards other."""
    x, y = promoted(input, other)
    if not x.dtype.is_floating_point:
        raise NotImplementedError(f"nextafter is not implemented for {x.dtype}: expected a floating-point dtype")
    return NEXT_HALF.get(x.dtype, P.nextafter)(x, y)


def of_integers(name, function, doc):
    binary(name, function)

    def body(input, other):
        x, y = promoted(input, other)
        if x.dtype.category != INTEGER:
            raise RuntimeError(f"{name} is not implemented for {x.dtype}: it wants integers")
        return getattr(P, name)(x, y)
    body.__name__, body.__doc__ = name, doc
    return op(body, inplace_too=True)


gcd, lcm = of_integers("gcd", np.gcd, "The greatest common divisor."), of_integers("lcm", np.lcm,
                                                                                   "The least common multiple.")


@op(samples=PAIR[:3])
def logaddexp(input, other):
    """log(exp(input) + exp(other)), without overflow."""
    return add_exponentials(input, other, P.exp, lambda x: x)


@op(samples=PAIR[:3])
def logaddexp2(input, other):
    """log2(2**input + 2**other), without overflow."""
    return add_exponentials(input, other, P.exp2, lambda x: P.mul(x, 1 / math.log(2)))


def add_exponentials(input, other, exp, scaled):
    """The larger plus a logarithm of the difference: not of its absolute value, whose slope jumps at a tie."""
    x, y = promoted(input, other)
    same = P.logical_and(P.eq(x, y), P.eq(P.abs(x), math.inf))
    ahead = P.ge(P.real(x), P.real(y)) if x.dtype.is_complex else P.ge(x, y)
    large, small = P.where(ahead, x, y), P.where(ahead, y, x)
    return P.where(same, x, P.add(large, scaled(P.log1p(exp(P.sub(small, large))))))


@op(samples=PAIR[:3], number_first=True, inplace_too=True)
def xlogy(input, other: Scalar):
    """input * log(other), 0 where input is 0."""
    x, y = promoted(input, other, floating=True)
    for operand in (x, y):
        if isinstance(operand, Tensor):
            needs(FLOATING, "xlogy", operand, FLOATING)
    return times_log(x, y, P.log, 0.0)


def times_log(x, y, log, lowest):
    """x * log(y), 0 where x is 0 unless y is NaN; there the slope in x is log(y) if that is finite (y above
    ``lowest``), else 0."""
    if not isinstance(y, Tensor):
        y = P.full(shape=(), value=y, dtype=x.dtype)
    zero = P.eq(x, 0) if isinstance(x, Tensor) else P.full(shape=(), value=x == 0, dtype=bool_)
    finite = P.logical_and(P.gt(y, lowest), P.lt(y, math.inf))
    replaced = P.logical_and(zero, P.logical_and(P.eq(y, y), P.logical_not(finite)))
    logarithm = log(P.where(replaced, lowest + 1.0, y))  # whose logarithm is 0
    return P.mul(x, logarithm) if isinstance(x, Tensor) else P.mul(logarithm, x)


def mathematical(name, doc, inplace_too=True, namespace="", **traits):
    """Declare an operator on floats, or on integers as floats, that is one primitive of the same name."""
    def body(input):
        return getattr(P, name)(floating(input))
    body.__name__, body.__doc__ = name, doc
    return op(body, samples=ONE, inplace_too=inplace_too, namespace=namespace, **traits)


for _name, _doc in {
        "exp": "e ** x.", "exp2": "2 ** x.", "expm1": "exp(x) - 1, exact near 0.", "log": "The natural logarithm.",
        "log2": "The logarithm to base 2.", "log10": "The logarithm to base 10.", "log1p": "log(1 + x), exact near 0.",
        "sqrt": "The square root.", "rsqrt": "1 / sqrt(x).", "sin": "The sine.", "cos": "The cosine.",
        "tan": "The tangent.",
        "asin": "The arc sine.", "acos": "The arc cosine.", "atan": "The arc tangent.", "sinh": "The hyperbolic sine.",
        "cosh": "The hyperbolic cosine.", "tanh": "The hyperbolic tangent.", "asinh": "The inverse hyperbolic sine.",
        "acosh": "The inverse hyperbolic cosine.", "atanh": "The inverse hyperbolic tangent.",
        "erf": "The error function.",
        "erfc": "1 - erf(x).", "lgamma": "log |Gamma(x)|.",
        "digamma": "The derivative of lgamma.",
        "sigmoid": "1 / (1 + exp(-x)).", "reciprocal": "1 / x."}.items():
    globals()[_name] = mathematical(_name, _doc)
erfinv = mathematical("erfinv", "The inverse of erf.", overwritable=("result",))


def rounding(name, doc):
    def body(input):
        needs(INTEGER, name, input, FLOATING)
        return getattr(P, name)(input) if input.dtype.is_inexact else P.mul(input, 1)
    body.__name__, body.__doc__ = name, doc
    return op(body, samples=ONE, inplace_too=True, out_exact=True)


floor, ceil, trunc = rounding("floor", "Rounded down."), rounding("ceil", "Rounded up."), rounding(
    "trunc", "Rounded towards zero.")


@op(samples=ONE, inplace_too=True, out_exact=True)
def round(input, *, decimals=0):
    """Rounded to the nearest even integer, or to ``decimals`` digits after the point."""
    needs(INTEGER, "round", input, FLOATING)
    if not input.dtype.is_inexact:
        if decimals:
            raise NotImplementedError(
                f"round is not implemented for {input.dtype} and decimals={decimals}: integers have no digits "
                "after the point")
        return P.mul(input, 1)
    if decimals == 0:
        return P.round(input)
    scale = 10.0 ** abs_(decimals) if abs_(decimals) <= sys.float_info.max_10_exp else math.inf
    if decimals > 0:
        return P.div(P.round(P.mul(input, scale)), scale)
    return P.mul(P.round(P.div(input, scale)), scale)


@op(samples=ONE, inplace_too=True, out_exact=True)
def frac(input):
    """The part after the point: x - trunc(x)."""
    needs(FLOATING, "frac", input, FLOATING)
    return P.sub(input, P.trunc(input))


@op(samples=ONE, inplace_too=True, operator="neg", out_exact=True)
def neg(input):
    """-x."""
    if input.dtype is bool_:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. Use `~` or `logical_not()` instead.")
    return P.neg(input)


@op(samples=ONE)
def positive(input):
    """x itself."""
    if input.dtype is bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@op(samples=ONE, inplace_too=True, operator="abs", out_exact=True)
def abs(input):
    """|x|; of a complex number its modulus."""
    needs(INTEGER, "abs", input)
    return P.abs(input)


@op(samples=ONE, inplace_too=True, out_exact=True)
def sign(input):
    """-1, 0 or 1."""
    if input.dtype.is_complex:
        raise RuntimeError("Unlike NumPy, torch.sign doesn't allow complex inputs. Use torch.sgn() instead.")
    return input if input.dtype is bool_ else P.sign(input)


@op(samples=ONE, inplace_too=True, out_exact=True)
def sgn(input):
    """The sign; of a complex number x / |x|."""
    return P.sgn(input) if input.dtype.is_complex else input if input.dtype is bool_ else P.sign(input)


@op(samples=ONE)
def signbit(input):
    """True if the sign bit is set."""
    needs(BOOL, "signbit", input, FLOATING)
    if input.dtype is bool_ or not input.dtype.is_signed:
        return P.lt(P.mul(input, 1), 0) if input.dtype is not bool_ else P.logical_and(input, False)
    return P.lt(P.copysign(1.0, input), 0) if input.dtype.is_floating_point else P.lt(input, 0)


@op(samples=ONE, inplace_too=True)
def square(input):
    """x * x; of bools as integers."""
    x = P.convert(input, dtype=int64) if input.dtype is bool_ else input
    return P.mul(x, x)


@op(samples=ONE, inplace_too=True)
def deg2rad(input):
    """Degrees to radians."""
    return P.mul(floating(input), math.pi / 180)


@op(samples=ONE, inplace_too=True)
def rad2deg(input):
    """Radians to degrees."""
    return P.mul(floating(input), 180 / math.pi)


@op(samples=ONE, inplace_too=True)
def logit(input, eps=None):
    """log(x / (1 - x)), x first clamped to [eps, 1 - eps]."""
    needs(BOOL, "logit", input, FLOATING)
    x = floating(input)
    if eps is not None:
        check_number(eps, x.dtype)
        x = P.minimum(P.maximum(x, eps), 1 - eps)
    return P.log(P.div(x, P.sub(1.0, x)))


@rule(logit)
def vjp(g, y, input, eps=None):
    within = P.mul(input, P.sub(1.0, input))
    if eps is None:
        return [P.div(g, P.where(P.logical_or(P.lt(input, 0), P.gt(input, 1)), math.nan, within))]
    return [P.where(P.logical_or(P.lt(input, eps), P.gt(input, 1 - eps)), 0.0, P.div(g, within))]


@op(samples=ONE, inplace_too=True)
def sinc(input):
    """sin(pi x) / (pi x), 1 at 0."""
    x = P.mul(floating(input), math.pi)
    zero = P.eq(x, 0)
    near = P.where(zero, x, 0.0)
    return P.where(zero, P.sub(1.0, P.div(P.mul(near, near), 6.0)),  # with the first three derivatives
                   P.div(P.sin(x), P.where(zero, 1.0, x)))


@op(inplace_too=True, out_exact=True)
def nan_to_num(input, nan=0.0, posinf=None, neginf=None):
    """NaN and infinities replaced (by default by 0 and the largest finite numbers)."""
    from ..core.dtypes import finfo
    if not input.dtype.is_floating_point:
        return P.mul(input, 1) if input.dtype is not bool_ else P.logical_and(input, True)
    limits = finfo(input.dtype)
    x = P.where(P.ne(input, input), 0.0 if nan is None else real_number(nan), input)
    x = P.where(P.eq(input, math.inf), limits.max if posinf is None else real_number(posinf), x)
    return P.where(P.eq(input, -math.inf), limits.min if neginf is None else real_number(neginf), x)


@op(samples=(sample((2, 3), (2, 3), 0.5),), inplace_too=True)
def lerp(input, end, weight: Scalar):
    """input + weight * (end - input)."""
    if not isinstance(end, Tensor):
        raise OperandError(f"lerp(): argument 'end' (position 2) must be Tensor, not {type(end).__name__}")
    if input.dtype is not end.dtype:
        raise RuntimeError(f"expected dtype {input.dtype} for `end` but got dtype {end.dtype}")
    needs(FLOATING, "lerp", input)
    weight = held(weight, input.dtype, True)
    difference = P.sub(end, input)
    if not isinstance(weight, Tensor):
        near = abs_(weight) < 0.5
        return P.add(input if near else end, P.mul(difference, weight if near else weight - 1))
    near = P.lt(P.abs(weight) if weight.dtype.is_complex else weight, 0.5)
    # chosen before they are multiplied: the gradient of a product that is not chosen is 0 times an infinity
    return P.add(P.where(near, input, end), P.mul(difference, P.where(near, weight, P.sub(weight, 1.0))))


@op(samples=(sample((2, 3), (2, 3), (3,)),), inplace_too=True, otherwise=former("addcmul"))
def addcmul(input, tensor1, tensor2, *, value: Scalar = 1):
    """input + value * tensor1 * tensor2."""
    x, a, b = promoted(input, tensor1, tensor2)
    if x.dtype is bool_:
        raise NotImplementedError("addcmul is not implemented for bools: convert them first")
    product = P.mul(a, b)
    return P.add(x, product if not isinstance(value, Tensor) and value == 1
                 else P.mul(product, held(value, product.dtype, True)))


@op(samples=(sample((2, 3), (2, 3), (3,)),), inplace_too=True, otherwise=former("addcdiv"))
def addcdiv(input, tensor1, tensor2, *, value: Scalar = 1):
    """input + value * tensor1 / tensor2."""
    x, a, b = promoted(input, tensor1, tensor2)
    if not x.dtype.is_inexact:
        raise RuntimeError("Integer division with addcdiv is no longer supported; convert to a floating dtype first")
    if not isinstance(value, Tensor) and value == 1:
        return P.add(x, P.div(a, b))
    return P.add(x, P.mul(P.div(a, b), held(value, x.dtype, True)))


def frexp_gradient(g, y, x):
    return [None if g[0] is None else P.mul(g[0], P.exp2(P.neg(P.convert(y[1], dtype=x.dtype))))]


primitive("frexp", Foreign(np.frexp, lambda x: (x.like(tuple(x.shape)), x.like(tuple(x.shape), None, int32)),
                           frexp_gradient), lambda x: 0, arity=1, overwritable=("x",))  # PyTorch saves the exponent


@op(composite=True)
def frexp(input):
    """The mantissa in [0.5, 1) and the exponent (int32) of each element: input = mantissa * 2 ** exponent."""
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"torch.frexp() only supports floating-point dtypes, got {input.dtype}")
    mantissa, exponent = P.frexp(input)
    return named("frexp", mantissa=mantissa, exponent=exponent)


@op(samples=PAIR[:2], number_first=True, inplace_too=True, out_exact=True, overwritable=("input", "exponent"))
def float_power(input, exponent):
    """input ** exponent in double precision."""
    from ..core.dtypes import complex128, float64
    dtype = complex128 if result_dtype(input, exponent).is_complex else float64
    return pow.body(as_dtype(input, dtype), as_dtype(exponent, dtype))


@op(method=False)
def polygamma(n, input):
    """The n-th derivative of digamma."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    x = floating(input)
    if n == 0:
        return P.digamma(x)
    size = float(math.factorial(n)) if n <= 170 else math.inf
    return P.mul(P.zeta(float(n + 1), x), size if n % 2 else -size)


@op(samples=ONE, inplace_too=True, namespace="special")
def entr(input):
    """-x log(x), 0 at 0, -inf for negative x."""
    x = floating(input)
    if x.dtype.is_complex:
        raise NotImplementedError(f"entr is not implemented for {x.dtype}: expected a real dtype")
    return P.where(P.ne(x, x), x, P.where(P.lt(x, 0), -math.inf, P.where(P.eq(x, 0), 0.0, P.neg(P.mul(x, P.log(x))))))


@rule(entr)
def vjp(g, y, input):  # noqa: F811
    return [P.mul(g, P.sub(-1.0, P.log(input)))]


@op(samples=ONE, namespace="special", overwritable=("input",))
def ndtr(input):
    """The normal distribution function."""
    return P.mul(P.erfc(P.mul(floating(input), -math.sqrt(0.5))), 0.5)


@op(namespace="special", number_first=True)
def xlog1py(input, other: Scalar):
    """input * log1p(other), 0 where input is 0."""
    return times_log(*promoted(input, other, floating=True), P.log1p, -1.0)


@op(inplace_too=True, overwritable=("input", "other"))
def ldexp(input, other):
    """input * 2 ** other."""
    x, y = promoted(input, other, floating=True)
    if x.dtype.is_complex:
        return P.mul(x, P.exp2(y))
    at = P.maximum(P.minimum(P.convert(y, dtype=float64), 2400.0), -2400.0)  # beyond which any number is infinite or 0
    third = P.floor(P.div(at, 3.0))
    for part in (third, third, P.sub(at, P.mul(third, 2.0))):  # whose powers are finite
        x = P.mul(P.convert(x, dtype=float64), P.exp2(part))
    return P.convert(x, dtype=y.dtype)


@op
def sum_to_size(input, *size):
    """Sum down to a shape that broadcasts to the input's."""
    from ..core.kinds import sum_to
    from .shape import sizes_of
    size = tuple(1 if s == 1 else s for s in sizes_of(size))  # a symbol found to be 1 is that number from here on
    if len(size) > len(input.shape) or any(s not in (1, t) for s, t in zip(reversed(size), reversed(input.shape))):
        raise RuntimeError(f"size {{{list(size)}}} is not expandable to size {{{list(input.shape)}}}.")
    if size and tuple(size) == tuple(input.shape):
        return input
    found = sum_to(input if input.dtype.is_inexact else as_dtype(input, int64), size)
    return P.copy(found) if found is input else found
