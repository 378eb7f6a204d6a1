"""Transcendental functions as Exprs over what the machine does: multiply-add, rounding, bit casts, shifts, selection.

The float32 forms of exp, log, tanh, erf and sigmoid are written for speed; the others compute in float64 and round
once.  Measured against exact values (``tests/compiler/test_math.py``): float32 within 3 ulp (most within 1), float64
within 4.
"""
from __future__ import annotations

import functools
import math

from ..core.dtypes import float32, float64, int32, int64
from ..core.expr import Expr, apply, convert, number, where
from ..ops import scalar
from . import byte_math
from ..ops.scalar.pieces import (bits, centred, fma, greater, lesser, magnitude, polynomial, through_double, whole,
                                 with_sign)

LOG2E, LN2 = 1 / math.log(2), math.log(2)
EXPANSIONS: dict = dict(byte_math.EXPANSIONS)


def expansion(*ops):
    """Enters a function as the meaning of operations on floats."""

    def enter(function):
        for op in ops:
            EXPANSIONS[op] = function
        return function

    return enter


def expand(e: Expr) -> Expr:
    """The operation in simpler terms, or itself if the target has it. 16-bit floats compute in float32."""
    if not e.args or not e.args[-1].dtype or not e.args[-1].dtype.is_floating_point:
        return e
    rule = EXPANSIONS.get(e.op)
    special = e.op in scalar.HOME and (rule is None or e.args[-1].dtype is float64)
    if rule is None and not special:
        return e
    args = [convert(a, float32) if a.dtype.is_half else a for a in e.args]
    return through_double(scalar.definition(e.op), *args) if special else rule(*args)


def known(op: str) -> bool:
    """True if an operation on floats of that name has an expansion."""
    return op in EXPANSIONS or op in scalar.HOME


# --- pieces -----------------------------------------------------------------------------------------------------------
def integers(dtype):
    return (int32, 23, 127) if dtype is float32 else (int64, 52, 1023)


def power_of_two(n: Expr, dtype) -> Expr:
    """2^n for an integral float n within the normal exponents."""
    kind, shift, bias = integers(dtype)
    return bits(apply("left_shift", whole(n, kind) + bias, shift), dtype)


# --- exp --------------------------------------------------------------------------------------------------------------
EXP32 = [0.4999999403953552, 0.16666516661643982, 0.04166828840970993, 0.00836925022304058, 0.0013820147141814232]
EXP64 = [1 / math.factorial(k) for k in range(2, 14)]
PARTS = {float32: (0.693145751953125, 1.4286068203094172e-06), float64: (0.6931471803691238, 1.9082149292705877e-10)}
LIMITS = {float32: (-87.33654, 88.72283), float64: (-708.396, 709.782712893384)}


def exp_within(x: Expr) -> Expr:
    """e^x for x within the limits: 2^n e^r, |r| <= ln 2 / 2, the exponent put in by integer arithmetic."""
    high, low = PARTS[x.dtype]
    n = apply("round", x * LOG2E)
    r = fma(n, -low, fma(n, -high, x))
    body = fma(r * r, polynomial(r, EXP32 if x.dtype is float32 else EXP64), r) + 1.0
    kind, shift, _ = integers(x.dtype)
    return bits(bits(body, kind) + apply("left_shift", whole(n, kind), shift), x.dtype)


@expansion("exp")
def exp(x: Expr) -> Expr:
    """e^x; results below the least normal number are 0 (denormals would cost a microcode assist each)."""
    least, most = LIMITS[x.dtype]
    y = exp_within(greater(lesser(x, most), least))
    y = where(apply("lt", x, least), number(0, x.dtype), y)
    return where(apply("gt", x, most), number(math.inf, x.dtype), y)


@expansion("exp2")
def exp2(x):
    """2^x: the whole part into the exponent, the rest through e^(r ln 2)."""
    def run(v):
        v_in = greater(lesser(v, 1023.5), -1021.5)
        n = apply("round", v_in)
        r = (v_in - n) * LN2
        body = fma(r * r, polynomial(r, EXP64), r) + 1.0
        y = bits(bits(body, int64) + apply("left_shift", whole(n, int64), 52), float64)
        y = where(apply("lt", v, -1021.5), number(0, float64), y)
        return where(apply("ge", v, 1024.0), number(math.inf, float64), y)
    return through_double(run, x)


def tiny_or(v, least, near, far):
    """``near`` below ``least`` in magnitude, else ``far``: a difference in float64, which there keeps more digits than
    float32 has."""
    return where(apply("lt", magnitude(v), least), near, far)


@expansion("expm1")
def expm1(x):
    if x.dtype is float32:
        return through_double(lambda v: tiny_or(v, 1e-4, v * fma(v, fma(v, 1 / 6, 0.5), 1.0), exp(v) - 1.0), x)

    def run(v):
        near = fma(v * v, polynomial(v, [1 / math.factorial(k) for k in range(2, 16)]), v)
        return where(apply("lt", magnitude(v), 0.5), with_sign(near, v), exp(v) - 1.0)
    return through_double(run, x)


@expansion("sigmoid")
def sigmoid(x):
    """1 / (1 + e^-x)."""
    return 1.0 / (exp(-x) + 1.0)


# --- log --------------------------------------------------------------------------------------------------------------
LOG32 = [0.3333331346511841, -0.2500000596046448, 0.2000206708908081, -0.16668115556240082, 0.14220626652240753,
         -0.1240481287240982,
         0.11880111694335938, -0.1167399138212204, 0.06759468460643472]


def mantissa(x: Expr):
    """(m, e) with x = m 2^e and m in [sqrt 1/2, sqrt 2), e a float; denormals are scaled first."""
    kind, shift, _ = integers(x.dtype)
    least, scale = (1.1754943508222875e-38, 23) if x.dtype is float32 else (2.2250738585072014e-308, 54)
    small = apply("lt", x, least)
    scaled = where(small, x * 2.0 ** scale, x)
    pattern = bits(scaled, kind)
    e = apply("right_shift", pattern - (0x3F3504F3 if x.dtype is float32 else 0x3FE6A09E667F3BCD), shift)
    m = bits(pattern - apply("left_shift", e, shift), x.dtype)
    return m, convert(e, x.dtype) + where(small, number(-scale, x.dtype), number(0, x.dtype))


def log_ends(x, y):
    """The values of a logarithm at 0, infinity and below 0."""
    y = where(apply("eq", x, math.inf), x, y)
    y = where(apply("eq", x, 0.0), number(-math.inf, x.dtype), y)
    return where(apply("lt", x, 0.0), number(math.nan, x.dtype), where(apply("isnan", x), x, y))


@expansion("log")
def log(x: Expr) -> Expr:
    """The natural logarithm: ln m + e ln 2."""
    high, low = PARTS[x.dtype]
    m, e = mantissa(x)
    if x.dtype is float32:
        g = m - 1.0
        square = g * g
        r = fma(g * square, polynomial(g, LOG32), e * low)
        r = fma(square, -0.5, r) + g
        return log_ends(x, fma(e, high, r))
    g = m - 1.0
    s = g / (g + 2.0)  # ln m = 2 atanh s
    z = s * s
    tail = polynomial(z, [2 / (2 * k + 3) for k in range(11)])
    half = g * g * 0.5
    r = half - (s * (half + z * tail) + e * low) - g
    return log_ends(x, e * high - r)


@expansion("log2")
def log2(x):
    return through_double(lambda v: log(v) * LOG2E, x)


@expansion("log10")
def log10(x):
    return through_double(lambda v: log(v) * (1 / math.log(10)), x)


@expansion("log1p")
def log1p(x):
    """log(u) for u = fl(1 + x), plus a correction for the rounding error of u."""
    u = x + 1.0
    lost = where(apply("eq", u, math.inf), number(0, x.dtype), (x - (u - 1.0)) / u)
    return where(apply("eq", x, 0.0), x, where(apply("eq", u, 0.0), number(-math.inf, x.dtype), log(u) + lost))


# --- hyperbolic -------------------------------------------------------------------------------------------------------
TANH32 = [-0.3333325982093811, 0.1333082914352417, -0.053687967360019684, 0.020469363778829575, -0.00551519263535738]


@expansion("tanh")
def tanh(x):
    a = magnitude(x)
    if x.dtype is float32:
        s = x * x
        near = fma(polynomial(s, TANH32) * s, x, x)
        far = 1.0 - 2.0 / (exp_within(lesser(a, 10.0) * 2.0) + 1.0)
        return with_sign(where(apply("gt", a, 0.65), far, near), x)
    t = expm1(lesser(a, 22.0) * 2.0)
    return with_sign(t / (t + 2.0), x)


@expansion("sinh")
def sinh(x):
    if x.dtype is float32:
        def half_difference(v):
            e = exp(v)
            return tiny_or(v, 1e-3, fma(v * v * v, 1 / 6, v), 0.5 * (e - 1.0 / e))
        return through_double(half_difference, x)

    def run(v):
        t = expm1(magnitude(v))
        e = exp(magnitude(v) * 0.5)
        far = (0.5 * e) * e - 0.5 / (e * e)
        return with_sign(where(apply("lt", magnitude(v), 1.0), 0.5 * (t + t / (t + 1.0)), far), v)
    return through_double(run, x)


@expansion("cosh")
def cosh(x):
    def run(v):
        e = exp(magnitude(v) * 0.5)
        return (0.5 * e) * e + 0.5 / (e * e)
    return through_double(run, x)


@expansion("asinh")
def asinh(x):
    def run(v):
        a = magnitude(v)
        big = log(a) + LN2
        return with_sign(where(apply("gt", a, 1e9), big, log1p(a + a * a / (1.0 + apply("sqrt", fma(a, a, 1.0))))), v)
    return through_double(run, x)


@expansion("acosh")
def acosh(x):
    def run(v):
        t = v - 1.0
        found = where(apply("gt", v, 1e9), log(v) + LN2, log1p(t + apply("sqrt", fma(t, t, 2.0 * t))))
        return where(apply("lt", v, 1.0), math.nan, found)  # far below 0 the square hides the sign
    return through_double(run, x)


@expansion("atanh")
def atanh(x):
    if x.dtype is float32:
        return through_double(lambda v: tiny_or(v, 1e-4, fma(v * v * v, 1 / 3, v), 0.5 * log((v + 1.0) / (1.0 - v))), x)
    return through_double(lambda v: with_sign(0.5 * log1p(2.0 * magnitude(v) / (1.0 - magnitude(v))), v), x)


# --- trigonometric ----------------------------------------------------------------------------------------------------
HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
SIN = [(-1) ** k / math.factorial(2 * k + 1) for k in range(1, 10)]
COS = [(-1) ** k / math.factorial(2 * k) for k in range(2, 10)]


MOST_TURNS = 1e15   # up to here three parts of pi/2 are enough
BITS, WORDS = 24, 9  # bits of 2 / pi per step, and number of steps


@functools.cache
def digits(count=56):
    """2 / pi as integers of 24 bits: pi by Machin's formula."""
    one = 1 << (BITS * count + 64)

    def inverse_tangent(n):
        term, total, k = one // n, 0, 0
        while term:
            total += (-1) ** k * (term // (2 * k + 1))
            term, k = term // (n * n), k + 1
        return total

    found = 2 * one * one // (4 * (4 * inverse_tangent(5) - inverse_tangent(239)))
    return tuple(float(found >> (BITS * (count - k - 1) + 64) & (1 << BITS) - 1) for k in range(count))


def many_turns(x):
    """(n, r) with x = n pi/2 + r, n in 0 ... 4, for large x (Payne & Hanek 1983): of the product with 2 / pi only what
    is below 4 is looked at."""
    from ..ops.scalar import exact  # read when the first sine is compiled, not when the package is imported

    pattern = bits(magnitude(x), int64)
    e = apply("right_shift", pattern, 52) - 1023
    mantissa_ = bits(apply("bitwise_or", apply("bitwise_and", pattern, (1 << 52) - 1), 1023 << 52), float64)
    high = bits(apply("bitwise_and", bits(mantissa_, int64), -1 << 26), float64)
    first = whole(apply("floor", greater(convert(e - 54, float64), 0.0) * (1 / BITS) + 1 / (4 * BITS)), int64)
    scale = power_of_two(convert(e - (first + 1) * BITS, float64), float64)
    total = low = least = number(0, float64)
    for k in range(WORDS):
        word = apply("table", first + k, dtype=float64, arg=digits()) * scale * 2.0 ** (-BITS * k)
        for part in (high, mantissa_ - high):
            term = part * word
            term = term - 4.0 * apply("floor", term * 0.25)
            total, lost = exact.two_sum(total, term)
            low, lost = exact.two_sum(low, lost)
            least = least + lost
    total, low = exact.two_sum(total, low)
    n = apply("round", total)
    rest, low = exact.two_sum(total - n, low)  # a number next to a multiple of pi/2 leaves nothing of the first
    r, low = exact.multiply((rest, low + least), exact.pair(math.pi / 2, 6.123233995736766e-17))
    sign = with_sign(number(1, float64), x)
    return sign * (n - 4.0 * apply("floor", n * 0.25)), sign * (r + low) + x * 0.0


def quarter(x: Expr, shift: int):
    """sin(x + shift pi/2) for float64: large x are reduced by all digits that matter."""
    return apply("rarely", apply("ge", magnitude(x), MOST_TURNS), turned(*many_turns(x), shift), moderate(x, shift))


def moderate(x: Expr, shift: int):
    """As ``quarter``, for x below MOST_TURNS: reduced to [-pi/4, pi/4] in three parts."""
    n = apply("round", x * (2 / math.pi))
    r = x
    for part in HALF_PI:
        r = fma(n, -part, r)
    return turned(n, r, shift)


def turned(n, r, shift):
    """sin(r + (n + shift) pi/2)."""
    turn = whole(n, int64) + shift
    z = r * r
    sine = fma(r * z, polynomial(z, SIN), r)
    cosine = fma(z * z, polynomial(z, COS), fma(z, -0.5, 1.0))
    y = where(apply("ne", apply("bitwise_and", turn, 1), 0), cosine, sine)
    return where(apply("ne", apply("bitwise_and", turn, 2), 0), -y, y)


HALF_PI32 = (1.5707963705062866, -4.371139000186241e-08, -1.7151245100059e-15)
SIN32 = [-0.166666549077, 0.008332175799, -0.00019516972]
COS32 = [0.0416666468052, -0.00138873644011, 2.443808231771e-05]
MOST_TURNS32 = 1e5  # up to here the first difference of the reduction is exact


def quarter32(x: Expr, shift: int):
    """As ``quarter``, for float32 of moderate size."""
    n = apply("round", x * (2 / math.pi))
    r = x
    for part in HALF_PI32:
        r = fma(n, -part, r)
    z = r * r
    sine, cosine = fma(r * z, polynomial(z, SIN32), r), fma(z * z, polynomial(z, COS32), fma(z, -0.5, 1.0))
    turn = whole(n, int32) + shift
    y = where(apply("ne", apply("bitwise_and", turn, 1), 0), cosine, sine)
    return where(apply("ne", apply("bitwise_and", turn, 2), 0), -y, y)


def by_size(x, small, large):
    """``small`` of a float32 of moderate size, else ``large`` in double precision: a branch that is rarely taken."""
    if x.dtype is float64:
        return large(x)
    return apply("rarely", apply("gt", magnitude(x), MOST_TURNS32), convert(large(convert(x, float64)), float32),
                 small(x))


@expansion("sin")
def sin(x):
    return where(apply("eq", x, 0.0), x, by_size(x, lambda v: quarter32(v, 0), lambda v: quarter(v, 0)))


@expansion("cos")
def cos(x):
    return by_size(x, lambda v: quarter32(v, 1), lambda v: quarter(v, 1))


@expansion("sin_of_moderate")
def sin_of_moderate(x):
    """The sine of an angle whose ``bound`` is below that of ``sin``'s branch for large angles, without that branch."""
    return where(apply("eq", x, 0.0), x, (moderate if x.dtype is float64 else quarter32)(x, 0))


@expansion("cos_of_moderate")
def cos_of_moderate(x):
    """The cosine of an angle whose ``bound`` is below that of ``cos``'s branch for large angles, without it."""
    return (moderate if x.dtype is float64 else quarter32)(x, 1)


def bound(e: Expr) -> float:
    """An upper bound of a scalar's magnitude; infinity where none is known."""
    if e.op == "number":
        return abs(e.arg) if e.arg == e.arg else math.inf
    if e.op == "philox":
        return 2.0**32
    if e.op in ("convert", "mul") and e.dtype in (float32, float64):
        return math.prod(map(bound, e.args)) * (1 + 2.0**-8)  # which covers roundings
    return math.inf


def without_large(e: Expr) -> Expr | None:
    """A sine or cosine without the branch for large arguments, whose code is long, if its argument is bounded; else
    None."""
    x = e.args[0]
    most = MOST_TURNS if x.dtype is float64 else MOST_TURNS32
    return apply(f"{e.op}_of_moderate", x) if x.dtype.is_floating_point and bound(x) < most else None


@expansion("tan")
def tan(x):
    return through_double(lambda v: where(apply("eq", v, 0.0), v, quarter(v, 0) / quarter(v, 1)), x)


ATAN = [(-1) ** k / (2 * k + 1) for k in range(1, 12)]
EIGHTHS = [math.atan(k / 8) for k in range(9)]


@expansion("atan")
def atan(x):
    """For |x| > 1 pi/2 - atan(1/x); then atan(k/8) plus a short series, k the nearest eighth."""
    def run(v):
        a = magnitude(v)
        large = apply("gt", a, 1.0)
        t = where(large, 1.0 / a, a)
        k = apply("round", t * 8.0)
        base = number(0, float64)
        for n, angle in enumerate(EIGHTHS):
            base = where(apply("eq", k, float(n)), number(angle, float64), base)
        c = k * 0.125
        d = (t - c) / fma(t, c, 1.0)
        z = d * d
        y = base + fma(d * z, polynomial(z, ATAN), d)
        y = where(large, (math.pi / 2 - y) + 6.123233995736766e-17, y)
        return with_sign(where(apply("isnan", v), v, y), v)
    return through_double(run, x)


@expansion("asin")
def asin(x):
    return through_double(lambda v: atan(v / apply("sqrt", (1.0 - v) * (1.0 + v))), x)


@expansion("acos")
def acos(x):
    return through_double(lambda v: 2.0 * atan(apply("sqrt", (1.0 - v) / (1.0 + v))), x)


@expansion("atan2")
def atan2(y, x):
    def run(b, a):
        both = apply("logical_and", apply("eq", magnitude(b), math.inf), apply("eq", magnitude(a), math.inf))
        ratio = where(both, number(1, float64), magnitude(b) / magnitude(a))
        ratio = where(apply("logical_and", apply("eq", b, 0.0), apply("eq", a, 0.0)), number(0, float64), ratio)
        angle = atan(ratio)
        behind = apply("lt", with_sign(number(1, float64), a), 0.0)
        return with_sign(where(behind, math.pi - angle, angle), b)
    return through_double(run, y, x)


# --- others -----------------------------------------------------------------------------------------------------------
@expansion("rsqrt")
def rsqrt(x):
    return 1.0 / apply("sqrt", x)


ERF_NEAR = [0.12837915122509003, -0.37612491846084595, 0.1128176674246788, -0.026764320209622383, 0.004989377222955227,
            -0.0005969994235783815]
ERF_FAR = [-0.12864862382411957, -0.6351508498191833, -0.1062374860048294, 0.023762419819831848, -0.003642541589215398,
           0.00032280266168527305, -1.1229089068365283e-05]


@expansion("erf")
def erf(x):
    """The error function of float32: an odd polynomial near 0, 1 - e^q elsewhere."""
    a = magnitude(x)
    near = fma(polynomial(x * x, ERF_NEAR), x, x)
    b = lesser(a, 4.0)
    far = with_sign(1.0 - exp_within(fma(polynomial(b, ERF_FAR), b, -b)), x)
    return where(apply("gt", a, 0.9277), far, near)


# fits of (1 + 2 x) e^(x^2) erfc(x) in (x - 2) / (x + 2) up to 10.3, and of erfinv(x) / x in -log(1 - x^2) up to 5, in
# its root beyond; relative errors below 2e-8
ERFC = [1.2869301041, -0.020817129536, -0.17827063312, 0.11537416371, -0.021875246643, -0.0063806406584,
        0.0022052953535, 0.0007337101509,
        -0.00016606042047, -8.2257585144e-05, 4.3952129883e-06]
ERFINV_NEAR = [1.501409353036, 0.6166007223522, -0.0261083458908, -0.0195741790697, 0.008526454051829,
               -0.0004844036884506, -0.0008379205804855,
               0.0002841467664668, 2.681421430215e-05, -3.337162499176e-05, 3.48762880271e-06]
ERFINV_FAR = [3.043366577431, 0.9782963169792, 0.005548029596984, -0.003861128067977, 0.002544556114495,
              -0.001682826085229, 0.0009618786544834,
              -0.0003080133635846, -8.393281629779e-05, 7.996931457993e-05]
ERFC_LAST, FAR_FIRST, FAR_LAST = 10.3, math.sqrt(5.0), math.sqrt(17.5)


@expansion("erfc")
def erfc(x):
    """1 - erf(x) of float32, exact to the last place where it is small."""
    def run(v):
        a = lesser(magnitude(v), ERFC_LAST)
        t = centred((a - 2.0) / (a + 2.0), -1.0, (ERFC_LAST - 2.0) / (ERFC_LAST + 2.0))
        upper = exp_within(-(a * a)) * polynomial(t, ERFC) / fma(a, 2.0, 1.0)
        return where(apply("lt", v, 0.0), 2.0 - upper, upper)
    return through_double(run, x)


@expansion("erfinv")
def erfinv(x):
    """The inverse of erf for float32, after Giles (2010): a polynomial in log(1 - x^2)."""
    def run(v):
        w = -log((1.0 - v) * (v + 1.0))
        near = polynomial(centred(lesser(w, 5.0), 0.0, 5.0), ERFINV_NEAR)
        far = polynomial(centred(lesser(apply("sqrt", greater(w, 5.0)), FAR_LAST), FAR_FIRST, FAR_LAST), ERFINV_FAR)
        y = where(apply("lt", w, 5.0), near, far) * v
        y = where(apply("eq", magnitude(v), 1.0), v * math.inf, y)
        return where(apply("gt", magnitude(v), 1.0), number(math.nan, float64), y)
    return through_double(run, x)


@expansion("pow")
def power(x, y):
    """x^y by e^(y ln |x|) in float64, with the sign of odd whole powers."""
    def run(v, w):
        a = magnitude(v)
        size = where(apply("eq", a, 1.0), number(1, float64), exp(w * log(a)))
        whole = apply("eq", apply("floor", w), w)
        odd = apply("logical_and", whole, apply("ne", apply("floor", w * 0.5), w * 0.5))
        size = where(odd, with_sign(size, v), size)
        negative = apply("logical_and", apply("lt", v, 0.0), apply("gt", v, -math.inf))
        unreal = apply("logical_or", apply("isnan", w), apply("logical_and", negative, apply("logical_not", whole)))
        size = where(unreal, number(math.nan, float64), size)
        one = apply("logical_or", apply("eq", w, 0.0), apply("eq", v, 1.0))
        return where(one, number(1, float64), where(apply("eq", w, 1.0), v, size))
    return through_double(run, x, y)


@expansion("hypot")
def hypot(x, y):
    """sqrt(x^2 + y^2), infinite where one of them is; in float64 of the larger one, so that squares stay within
    range."""
    a, b = magnitude(x), magnitude(y)
    if x.dtype is float32:
        size = through_double(lambda v, w: apply("sqrt", fma(v, v, w * w)), x, y)
    else:
        swap = apply("lt", a, b)
        large, small = where(swap, b, a), where(swap, a, b)
        r = small / where(apply("eq", large, 0.0), number(1, x.dtype), large)
        size = large * apply("sqrt", fma(r, r, 1.0))
    return where(apply("logical_or", apply("eq", a, math.inf), apply("eq", b, math.inf)), number(math.inf, x.dtype),
                 size)


INSTRUCTIONS = frozenset("""
    abs add as_stored bitcast bitwise_and bitwise_not bitwise_or bitwise_xor ceil convert copysign div eq floor
    floor_divide fma fmod ge gt isnan le left_shift logical_and logical_not logical_or logical_xor lt maximum minimum
    mul ne neg reciprocal remainder right_shift round shift_right_logical sign sqrt sub table trunc where whole
""".split())  # operations that every device writes itself; the others are expanded to these
OF_FLOATS = frozenset(("reciprocal", "div", "sqrt", "copysign"))  # of these, those not defined for integers
COSTLY = frozenset(EXPANSIONS) | frozenset(scalar.HOME)
COSTLY_WORK = 8  # operations that one of these is, about
LONG_WORK = 100  # and one of those in ``ops/scalar``


def work(op: str) -> int:
    """About how many machine operations an operation of that name takes."""
    return COSTLY_WORK if op in EXPANSIONS else LONG_WORK if op in scalar.HOME else 1
