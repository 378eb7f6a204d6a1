"""Elementwise primitives: arithmetic, functions, comparisons, logic, bits."""
from __future__ import annotations

import math

import numpy as np

from ...core.dtypes import INTEGER, bfloat16, bool_, float16, uint64
from ...core.errors import ZeroDivisorError
from ...core.kinds import Convert, Elementwise, P, is_tensor, sum_to
from ...core.narrow import narrow, widen
from ..scalar.arrays import meaning
from .primitive import binary, primitive, unary


# --- elementwise: arithmetic -----------------------------------------------------------------------------------------
def real_result(x):
    return x.dtype.to_real()


neg = unary("neg", np.negative, lambda y, x: -1)
abs = unary("abs", np.abs, lambda y, x: P.sgn(x) if x.dtype.is_complex else P.sign(x), real_result)
sign = unary("sign", lambda x: np.where(x == x, np.sign(x), 0).astype(x.dtype), lambda y, x: 0)
sgn = unary("sgn", lambda x: np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x))).astype(x.dtype))
as_stored = unary("as_stored", np.positive, lambda y, x: 1)  # of 16-bit floats, which kernels carry as float32
reciprocal = unary("reciprocal", lambda x: (1 / x).astype(x.dtype), lambda y, x: P.neg(P.mul(y, y)))
sqrt = unary("sqrt", np.sqrt, lambda y, x: P.div(0.5, y))
rsqrt = unary("rsqrt", lambda x: (1 / np.sqrt(x)).astype(x.dtype), lambda y, x: P.mul(-0.5, P.mul(y, P.mul(y, y))))
floor = unary("floor", np.floor, lambda y, x: 0)
ceil = unary("ceil", np.ceil, lambda y, x: 0)
trunc = unary("trunc", np.trunc, lambda y, x: 0)
round = unary("round", np.rint, lambda y, x: 0)
add = binary("add", np.add, lambda y, a, b: (1, 1))
sub = binary("sub", np.subtract, lambda y, a, b: (1, -1))
mul = binary("mul", np.multiply, lambda y, a, b: (b, a))
div = binary("div", np.divide, lambda y, a, b: (P.div(1.0, b), P.neg(P.div(y, b))))


def dividing(function):
    """Return a checked NumPy division: ZeroDivisorError for integers divided by 0."""
    def run(a, b):
        if np.result_type(a, b).kind in "iu" and np.any(np.equal(b, 0)) and np.size(a):
            raise ZeroDivisorError("ZeroDivisionError: integers are divided by 0")
        return function(a, b)
    return run


floor_divide = binary("floor_divide", dividing(np.floor_divide))
remainder = binary("remainder", dividing(np.remainder), lambda y, a, b: (1, P.neg(P.floor(P.div(a, b)))))
fmod = binary("fmod", dividing(np.fmod), lambda y, a, b: (1, P.neg(P.trunc(P.div(a, b)))))
maximum = binary("maximum", np.maximum, lambda y, a, b: (share(P.lt, a, b, y), share(P.lt, b, a, y)))
minimum = binary("minimum", np.minimum, lambda y, a, b: (share(P.gt, a, b, y), share(P.gt, b, a, y)))


def power_numpy(a, b):
    """Integers to negative powers are 0, except those of 1 and -1."""
    if np.result_type(a, b).kind not in "iu" or not np.any(np.less(b, 0)):
        return np.power(a, b)
    sign = np.where(np.remainder(b, 2) == 0, 1, a)
    return np.where(np.less(b, 0), np.where(np.abs(a) == 1, sign, 0), np.power(a, np.maximum(b, 0)))


pow = binary("pow", power_numpy, lambda y, a, b: (power_base(a, b), power_exponent(y, a, b)))
atan2 = binary("atan2", np.arctan2, lambda y, a, b: circle(a, b))
copysign = binary("copysign", np.copysign,
                  lambda y, a, b: (P.where(P.eq(a, 0), P.mul(y, 0), P.copysign(1.0, P.mul(P.sign(a), y))
                                           if is_tensor(a) else None), 0))
nextafter = binary("nextafter", np.nextafter)


def next_half(dtype):
    """Return nextafter for a 16-bit float dtype: its bits, read as an integer, grow with its magnitude."""
    def run(a, b):
        a, b = np.broadcast_arrays(np.asarray(a, np.float32), np.asarray(b, np.float32))
        stored, aim = narrow(a, dtype), narrow(b, dtype)
        start, low, high = stored.view(np.int16), widen(stored, dtype), widen(aim, dtype)
        inward = (high > low) == (low < 0)
        moved = np.where(low == 0, np.where(np.signbit(high), -32767, 1), np.where(inward, start - 1, start + 1))
        moved = np.where(low == high, aim.view(np.int16), moved).astype(np.int16).view(stored.dtype)
        return np.where(np.isnan(low) | np.isnan(high), np.float32(np.nan), widen(moved, dtype))
    return run


NEXT_HALF = {dtype: binary(f"nextafter_{dtype.name}", next_half(dtype)) for dtype in (bfloat16, float16)}
hypot = binary("hypot", np.hypot, lambda y, a, b: (P.div(a, y), P.div(b, y)))


def share(beyond, a, b, y):
    """1 unless ``b`` exceeds ``a`` (NaN exceeds nothing), 1/2 at a tie."""
    return P.where(beyond(a, b), 0.0, P.where(P.eq(a, b), P.full(shape=(), value=0.5, dtype=y.dtype), 1.0))


def power_base(a, b):
    if not is_tensor(b):
        return P.mul(P.pow(a, b - 1), b) if b != 0 else 0
    return P.where(P.eq(b, 0), 0, P.mul(b, P.pow(a, P.sub(b, 1)))) if is_tensor(a) else None


def power_exponent(y, a, b):
    if not is_tensor(b):
        return None
    zero = P.eq(a, 0) if is_tensor(a) else a == 0
    if not is_tensor(a):
        return (P.mul(y, math.log(a)) if a > 0
                else P.where(P.ge(b, 0), 0, P.mul(y, P.log(P.convert(P.mul(b, 0), dtype=b.dtype)))) if a == 0
                else P.mul(y, math.nan))
    return P.where(P.logical_and(zero, P.ge(b, 0) if not b.dtype.is_complex else P.eq(P.imag(b), 0)), 0,
                   P.mul(y, P.log(a)))


def circle(a, b):
    square = P.add(P.mul(a, a), P.mul(b, b))
    square = P.where(P.eq(square, 0), math.inf, square)  # at the origin the angle is constant by convention
    return P.div(b, square), P.neg(P.div(a, square))


# --- elementwise: transcendental --------------------------------------------------------------------------------------
exp = unary("exp", np.exp, lambda y, x: y)
exp2 = unary("exp2", np.exp2, lambda y, x: P.mul(y, math.log(2)))
expm1 = unary("expm1", np.expm1, lambda y, x: P.add(y, 1.0))
log = unary("log", np.log, lambda y, x: P.reciprocal(x))
log2 = unary("log2", np.log2, lambda y, x: P.div(1 / math.log(2), x))
log10 = unary("log10", np.log10, lambda y, x: P.div(1 / math.log(10), x))
log1p = unary("log1p", np.log1p, lambda y, x: P.reciprocal(P.add(x, 1.0)))
sin = unary("sin", np.sin, lambda y, x: P.cos(x))
cos = unary("cos", np.cos, lambda y, x: P.neg(P.sin(x)))
tan = unary("tan", np.tan, lambda y, x: P.add(P.mul(y, y), 1.0))
asin = unary("asin", np.arcsin, lambda y, x: P.rsqrt(P.sub(1.0, P.mul(x, x))))
acos = unary("acos", np.arccos, lambda y, x: P.neg(P.rsqrt(P.sub(1.0, P.mul(x, x)))))
atan = unary("atan", np.arctan, lambda y, x: P.reciprocal(P.add(P.mul(x, x), 1.0)))
sinh = unary("sinh", np.sinh, lambda y, x: P.cosh(x))
cosh = unary("cosh", np.cosh, lambda y, x: P.sinh(x))
tanh = unary("tanh", np.tanh, lambda y, x: P.sub(1.0, P.mul(y, y)))
asinh = unary("asinh", np.arcsinh, lambda y, x: P.rsqrt(P.add(P.mul(x, x), 1.0)))
acosh = unary("acosh", np.arccosh, lambda y, x: P.rsqrt(P.sub(P.mul(x, x), 1.0)))
atanh = unary("atanh", np.arctanh, lambda y, x: P.reciprocal(P.sub(1.0, P.mul(x, x))))
erf = unary("erf", meaning("erf"), lambda y, x: P.mul(2 / math.sqrt(math.pi), P.exp(P.neg(P.mul(x, x)))))
erfc = unary("erfc", meaning("erfc"), lambda y, x: P.mul(-2 / math.sqrt(math.pi), P.exp(P.neg(P.mul(x, x)))))
erfinv = unary("erfinv", meaning("erfinv"), lambda y, x: P.mul(math.sqrt(math.pi) / 2, P.exp(P.mul(y, y))))
lgamma = unary("lgamma", meaning("lgamma"), lambda y, x: P.digamma(x))
digamma = unary("digamma", meaning("digamma"), lambda y, x: P.zeta(2.0, x))
zeta = binary("zeta", meaning("zeta"),
              lambda y, s, q: (NotImplemented, P.neg(P.mul(s, P.zeta(P.add(s, 1.0) if is_tensor(s) else s + 1.0, q)))))


def sigmoid_numpy(x):
    half = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + half),
                    half / (1 + half)).astype(x.dtype) if x.dtype.kind != "c" else 1 / (1 + np.exp(-x))


sigmoid = unary("sigmoid", sigmoid_numpy, lambda y, x: P.mul(y, P.sub(1.0, y)))

# --- elementwise: comparison, logic, bits -----------------------------------------------------------------------------
def nothing(args):
    """Require no common dtype: logical operators compare each argument with 0 in its own dtype, and ``where``
    converts."""
    return ()


eq = binary("eq", np.equal, result=bool_)
ne = binary("ne", np.not_equal, result=bool_)
lt = binary("lt", np.less, result=bool_)
le = binary("le", np.less_equal, result=bool_)
gt = binary("gt", np.greater, result=bool_)
ge = binary("ge", np.greater_equal, result=bool_)
logical_and = binary("logical_and", np.logical_and, result=bool_, alike=nothing)
logical_or = binary("logical_or", np.logical_or, result=bool_, alike=nothing)
logical_xor = binary("logical_xor", np.logical_xor, result=bool_, alike=nothing)
logical_not = unary("logical_not", np.logical_not, result=bool_)
bitwise_and = binary("bitwise_and", np.bitwise_and)
bitwise_or = binary("bitwise_or", np.bitwise_or)
bitwise_xor = binary("bitwise_xor", np.bitwise_xor)
bitwise_not = unary("bitwise_not", np.invert)
left_shift = binary("left_shift", np.left_shift)
right_shift = binary("right_shift", np.right_shift)
where = primitive("where", Elementwise(
    np.where, lambda y, c, a, b: (None, P.where(c, P.full(shape=(), value=1, dtype=y.dtype), 0),
                                  P.where(c, P.full(shape=(), value=0, dtype=y.dtype), 1)),
    result=lambda c, a, b: next((v for v in (a, b) if is_meta(v)), None).dtype,
    alike=nothing), lambda condition, x, y: 0)


def is_meta(value):
    return hasattr(value, "strides")


def where_vjp(g, y, c, a, b):
    """The entire cotangent goes to the chosen side (without multiplication, so that infinities do not spread)."""
    left = sum_to(P.where(c, g, 0), a.shape) if is_tensor(a) else None
    right = sum_to(P.where(c, 0, g), b.shape) if is_tensor(b) else None
    return [None, left, right]


def where_jvp(op, y, args, tangents, params):
    """The chosen side's tangent; that of the other, which may be infinite or NaN, is not read."""
    left, right = (t if is_tensor(t) else None for t in tangents[1:])  # numbers stay themselves
    if left is None and right is None or not y.dtype.is_inexact:
        return P.full(shape=tuple(y.shape), value=0, dtype=y.dtype)
    moved = op(args[0], 0 if left is None else left, 0 if right is None else right)
    return moved if tuple(moved.shape) == tuple(y.shape) else P.expand(moved, shape=tuple(y.shape))


where.rules["vjp"], where.rules["jvp"] = where_vjp, where_jvp
where.kind.computes = False


def convert_numpy(x, dtype):
    with np.errstate(all="ignore"):
        if np.iscomplexobj(x) and not dtype.is_complex and dtype is not bool_:
            x = x.real
        if dtype is bool_:
            return x != 0
        if dtype.is_half:
            x = x.astype(np.float32)
            return widen(narrow(x, dtype), dtype) if dtype.is_byte else x
        if x.dtype.kind == "f" and dtype is uint64:
            return np.where(x >= 2.0 ** 63, x.astype(np.uint64), x.astype(np.int64).astype(np.uint64))
        if x.dtype.kind == "f" and dtype.category == INTEGER:
            return np.where(np.isfinite(x), x,
                            np.iinfo(dtype.numpy).min).astype(np.int64, copy=False).astype(dtype.numpy)
        return x.astype(dtype.numpy)


convert = primitive("convert", Convert(convert_numpy), lambda x, dtype: 0)


class Copy(Convert):
    """out[i] = x[i], in row-major storage whatever the strides of x."""

    arity = 1

    def meta(self, op, x):
        return x.like(tuple(x.shape))

    def vjp(self, op, g, y, x):
        return [g]


copy = primitive("copy", Copy(lambda x: x), lambda x: 0)


class After(Elementwise):
    """out[i] = x[i], available only after ``mark`` (one element): nodes that depend on it are recomputed, not saved."""

    computes, passes = False, True

    def __init__(self, numpy):
        super().__init__(numpy, alike=nothing)

    def meta(self, op, x, mark):
        return x.like(tuple(x.shape), tuple(x.strides))

    def vjp(self, op, g, y, x, mark):
        return [g, None]


after = primitive("after", After(lambda x, mark: x), lambda x, mark: 0)
