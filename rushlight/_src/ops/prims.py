"""Every primitive: its name, its NumPy meaning, and the few traits its kind asks for."""
from __future__ import annotations

import builtins
import inspect
import math

import numpy as np

from ..core.dtypes import INTEGER, bool_, int32, int64, uint64
from ..core.errors import ZeroDivisorError
from ..core.kinds import (Bytes, Contract, Convert, Create, Elementwise, Foreign, Gather, Join, P, Recast, Reduce,
                          Scatter, Turn, View, is_tensor, sum_to)
from ..core.meta import CONJUGATED, NEGATED, Meta, is_one, product, reshaped_strides, row_major, span
from ..core.narrow import narrow, widen
from ..core.op import declare
from .scalar.arrays import meaning


def primitive(name, kind, parameters, doc=None, arity=None, **traits):
    """Declares a primitive; ``parameters`` is a function that only shows its signature, of which ``arity`` are
    values."""
    signature = inspect.signature(parameters)
    if arity is None:
        arity = len(signature.parameters) if kind.arity is None else kind.arity
    made = declare(f"prims.{name}", None, kind, signature, doc=doc, arity=arity, **traits)
    setattr(P, name, made)
    return made


def unary(name, numpy, partial=None, result=None):
    return primitive(name, Elementwise(numpy, (lambda y, x: (partial(y, x),)) if partial else lambda y, x: (None,),
                                       result), lambda x: 0)


def binary(name, numpy, partials=None, result=None):
    return primitive(name, Elementwise(numpy, partials or (lambda y, a, b: (None, None)), result), lambda x, y: 0)


# --- elementwise: arithmetic -----------------------------------------------------------------------------------------
def real_result(x):
    return x.dtype.to_real()


neg = unary("neg", np.negative, lambda y, x: -1)
abs = unary("abs", np.abs, lambda y, x: P.sgn(x) if x.dtype.is_complex else P.sign(x), real_result)
sign = unary("sign", lambda x: np.where(x == x, np.sign(x), 0).astype(x.dtype), lambda y, x: P.mul(x, 0))
sgn = unary("sgn", lambda x: np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x))).astype(x.dtype))
reciprocal = unary("reciprocal", lambda x: (1 / x).astype(x.dtype), lambda y, x: P.neg(P.mul(y, y)))
sqrt = unary("sqrt", np.sqrt, lambda y, x: P.div(0.5, y))
rsqrt = unary("rsqrt", lambda x: (1 / np.sqrt(x)).astype(x.dtype), lambda y, x: P.mul(-0.5, P.mul(y, P.mul(y, y))))
floor = unary("floor", np.floor, lambda y, x: P.mul(x, 0))
ceil = unary("ceil", np.ceil, lambda y, x: P.mul(x, 0))
trunc = unary("trunc", np.trunc, lambda y, x: P.mul(x, 0))
round = unary("round", np.rint, lambda y, x: P.mul(x, 0))
add = binary("add", np.add, lambda y, a, b: (1, 1))
sub = binary("sub", np.subtract, lambda y, a, b: (1, -1))
mul = binary("mul", np.multiply, lambda y, a, b: (b, a))
div = binary("div", np.divide, lambda y, a, b: (P.div(1.0, b), P.neg(P.div(y, b))))
def dividing(function):
    """NumPy's division; ZeroDivisorError for whole numbers by 0."""
    def run(a, b):
        if np.result_type(a, b).kind in "iu" and np.any(np.equal(b, 0)) and np.size(a):
            raise ZeroDivisorError("ZeroDivisionError: whole numbers are divided by 0")
        return function(a, b)
    return run


floor_divide = binary("floor_divide", dividing(np.floor_divide))
remainder = binary("remainder", dividing(np.remainder), lambda y, a, b: (1, P.neg(P.floor(P.div(a, b)))))
fmod = binary("fmod", dividing(np.fmod), lambda y, a, b: (1, P.neg(P.trunc(P.div(a, b)))))
maximum = binary("maximum", np.maximum, lambda y, a, b: (share(a, b, y), share(b, a, y)))
minimum = binary("minimum", np.minimum, lambda y, a, b: (share(a, b, y), share(b, a, y)))
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
                                           if is_tensor(a) else None), None))
nextafter = binary("nextafter", np.nextafter)
hypot = binary("hypot", np.hypot, lambda y, a, b: (P.div(a, y), P.div(b, y)))


def share(a, b, y):
    """Where ``a`` is the chosen one of (a, b): 1, or 1/2 at a tie."""
    one = y.dtype
    return P.where(P.eq(a, b), 0.5, P.convert(P.eq(a, y), dtype=one))


def power_base(a, b):
    if not is_tensor(b):
        return P.mul(P.pow(a, b - 1), b) if b != 0 else P.mul(a, 0)
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
eq = binary("eq", np.equal, result=bool_)
ne = binary("ne", np.not_equal, result=bool_)
lt = binary("lt", np.less, result=bool_)
le = binary("le", np.less_equal, result=bool_)
gt = binary("gt", np.greater, result=bool_)
ge = binary("ge", np.greater_equal, result=bool_)
logical_and = binary("logical_and", np.logical_and, result=bool_)
logical_or = binary("logical_or", np.logical_or, result=bool_)
logical_xor = binary("logical_xor", np.logical_xor, result=bool_)
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
    result=lambda c, a, b: next((v for v in (a, b) if is_meta(v)), None).dtype), lambda condition, x, y: 0)


def is_meta(value):
    return hasattr(value, "strides")


def where_vjp(g, y, c, a, b):
    """The cotangent goes whole to the side that was chosen (never through a product, so that infinities stay out)."""
    left = sum_to(P.where(c, g, 0), a.shape) if is_tensor(a) else None
    right = sum_to(P.where(c, 0, g), b.shape) if is_tensor(b) else None
    return [None, left, right]


where.rules["vjp"] = where_vjp
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
    """out[i] = x[i], in row-major memory whatever the layout of x."""

    arity = 1

    def meta(self, op, x):
        return x.like(tuple(x.shape))

    def vjp(self, op, g, y, x):
        return [g]


copy = primitive("copy", Copy(lambda x: x), lambda x: 0)


class After(Elementwise):
    """out[i] = x[i], known only once ``mark`` (one number) is: what is computed from it is computed again, not kept."""

    computes, passes = False, True

    def meta(self, op, x, mark):
        return x.like(tuple(x.shape), tuple(x.strides))

    def vjp(self, op, g, y, x, mark):
        return [g, None]


after = primitive("after", After(lambda x, mark: x), lambda x, mark: 0)

# --- elementwise: complex ---------------------------------------------------------------------------------------------
def component_alias(which):
    def alias(m):
        turned = m.turned & NEGATED ^ (NEGATED if which and m.turned & CONJUGATED else 0)
        return Meta(tuple(m.shape), tuple(2 * s for s in m.strides), m.dtype.to_real(), m.device, turned), which
    return alias


def pairs_alias(m):
    if m.turned & CONJUGATED:
        return None
    return Meta((*m.shape, 2), (*(2 * s for s in m.strides), 1), m.dtype.to_real(), m.device, m.turned), 0


def unpaired_alias(m):
    if m.strides[-1] != 1 or builtins.any(s % 2 for s in m.strides[:-1]):
        return None
    return Meta(tuple(m.shape[:-1]), tuple(s // 2 for s in m.strides[:-1]), m.dtype.to_complex(), m.device, m.turned), 0


real = primitive("real", Recast(np.real, component_alias(0), lambda x, value: P.complex(value, P.imag(x)),
                                lambda g: P.complex(g, P.mul(g, 0))), lambda x: 0)
imag = primitive("imag", Recast(np.imag, component_alias(1), lambda x, value: P.complex(P.real(x), value),
                                lambda g: P.complex(P.mul(g, 0), g)), lambda x: 0)
view_as_real = primitive("view_as_real", Recast(
    lambda x: np.stack((x.real, x.imag), -1), pairs_alias, lambda x, value: P.view_as_complex(value),
    lambda g: P.view_as_complex(g)), lambda x: 0)
view_as_complex = primitive("view_as_complex", Recast(
    lambda x: x[..., 0] + x.dtype.type(1) * 1j * x[..., 1], unpaired_alias, lambda x, value: P.view_as_real(value),
    lambda g: P.view_as_real(g)), lambda x: 0)
bytes_as = primitive("bytes_as", Bytes(
    lambda x, old, dtype: widen(np.ascontiguousarray(narrow(x, old)).view(dtype.numpy), dtype)),
                     lambda x, old, dtype: 0)
conj = unary("conj", np.conj)
angle = unary("angle", np.angle, lambda y, x: P.mul(x, 0) if not x.dtype.is_complex else None, real_result)
make_complex = primitive("complex", Elementwise(
    lambda a, b: (a + 1j * b).astype(np.complex64 if a.dtype == np.float32 else np.complex128),
    None, lambda a, b: a.dtype.to_complex()), lambda x, y: 0)
conjugated = primitive("conjugated", Turn(np.conj, CONJUGATED, lambda x: P.conj(x)), lambda x: 0)
negated = primitive("negated", Turn(np.negative, NEGATED, lambda x: P.neg(x)), lambda x: 0)
conj.rules["vjp"] = lambda g, y, x: [P.conj(g)]
make_complex.rules["vjp"] = lambda g, y, a, b: [sum_to(P.real(g), a.shape), sum_to(P.imag(g), b.shape)]
abs.rules["vjp"] = lambda g, y, x: [P.mul(P.convert(g, dtype=x.dtype), P.sgn(x)) if x.dtype.is_complex
                                    else P.mul(g, P.sign(x))]


def sgn_vjp(g, y, x):
    if not x.dtype.is_complex:
        return [P.mul(g, 0)]
    size = P.abs(x)
    along = P.real(P.mul(P.conj(y), g))
    flat = P.div(P.sub(g, P.mul(y, P.convert(along, dtype=g.dtype))), P.convert(size, dtype=g.dtype))
    return [P.where(P.eq(size, 0), 0, flat)]


def angle_vjp(g, y, x):
    if not x.dtype.is_complex:
        return [P.mul(g, 0)]
    a, b = P.real(x), P.imag(x)
    square = P.add(P.mul(a, a), P.mul(b, b))
    turned = P.complex(P.div(P.neg(P.mul(b, g)), square), P.div(P.mul(a, g), square))
    return [P.where(P.eq(square, 0), 0, turned)]


sgn.rules["vjp"], angle.rules["vjp"] = sgn_vjp, angle_vjp


# --- views ------------------------------------------------------------------------------------------------------------
def view(name, kind, parameters):
    return primitive(name, kind, parameters)


def expand_alias(meta, shape):
    lead = len(shape) - len(meta.shape)
    strides = tuple(0 if k < lead or (is_one(meta.shape[k - lead]) and not is_one(size)) else meta.strides[k - lead]
                    for k, size in enumerate(shape))
    return strides, 0


def expand_source(index, source, shape):
    lead = len(index) - len(source)
    return tuple(0 if is_one(size) else i for i, size in zip(index[lead:], source)), None


expand = view("expand", View(
    lambda x, shape: np.broadcast_to(x, shape), lambda s, shape: tuple(shape), expand_source,
    lambda g, s, shape: sum_to(g, s), expand_alias), lambda x, shape: 0)


def inverse(dims):
    out = [0] * len(dims)
    for k, d in enumerate(dims):
        out[d] = k
    return tuple(out)


permute = view("permute", View(
    lambda x, dims: np.transpose(x, dims), lambda s, dims: tuple(s[d] for d in dims),
    lambda i, s, dims: (tuple(i[k] for k in inverse(dims)), None),
    lambda g, s, dims: P.permute(g, dims=inverse(dims)),
    lambda m, dims: (tuple(m.strides[d] for d in dims), 0)), lambda x, dims: 0)


def ravel(index, shape):
    """The position in row-major order."""
    at = 0
    for i, stride in zip(index, row_major(shape)):
        at = at + i * stride
    return at


def unravel(at, shape):
    """The index of a position in row-major order."""
    strides = row_major(shape)
    return tuple(0 if is_one(size) else (at // step if k == 0 else at // step % size)
                 for k, (size, step) in enumerate(zip(shape, strides)))


def reshape_alias(meta, shape):
    strides = reshaped_strides(meta.shape, meta.strides, shape)
    return strides and (strides, 0) if shape else ((), 0)


reshape = view("reshape", View(
    lambda x, shape: np.reshape(x, shape), lambda s, shape: tuple(shape),
    lambda i, s, shape: (unravel(ravel(i, shape), s), None),
    lambda g, s, shape: P.reshape(g, shape=tuple(s)), reshape_alias), lambda x, shape: 0)


def slice_numpy(x, starts, steps, shape):
    return x[tuple(np.s_[a:a + (n - 1) * t + 1:t] if n else np.s_[0:0] for a, t, n in zip(starts, steps, shape))]


def slice_transpose(g, s, starts, steps, shape):
    high = tuple(size - a - ((n - 1) * t + 1 if not (type(n) is int and n == 0) else 0)
                 for size, a, t, n in zip(s, starts, steps, shape))
    return P.pad(g, low=tuple(starts), high=high, inner=tuple(t - 1 for t in steps), value=0)


slice_ = view("slice", View(
    slice_numpy, lambda s, starts, steps, shape: tuple(shape),
    lambda i, s, starts, steps, shape: (tuple(a + k * t for k, a, t in zip(i, starts, steps)), None), slice_transpose,
    lambda m, starts, steps, shape: (tuple(st * t for st, t in zip(m.strides, steps)),
                                     sum_products(starts, m.strides))),
    lambda x, starts, steps, shape: 0)


def sum_products(a, b):
    total = 0
    for x, y in zip(a, b):
        total = total + x * y
    return total


def flip_source(index, shape, dims):
    return tuple(size - 1 - i if k in dims else i for k, (i, size) in enumerate(zip(index, shape))), None


flip = view("flip", View(lambda x, dims: np.flip(x, dims), lambda s, dims: tuple(s), flip_source,
                         lambda g, s, dims: P.flip(g, dims=dims)), lambda x, dims: 0)


def padded(size, low, high, inner):
    empty = type(size) is int and size == 0
    return low + high + (0 if empty else size + (size - 1) * inner)


def pad_numpy(x, low, high, inner, value):
    shape = tuple(padded(*parts) for parts in zip(x.shape, low, high, inner))
    out = np.full(shape, value, x.dtype)
    source, target = [], []
    for size, a, b, gap, n in zip(x.shape, low, high, inner, shape):
        step = gap + 1
        first = max(0, -(a // step))  # negative padding crops
        last = min(size, (n - a + step - 1) // step)
        last = max(first, last)
        source.append(np.s_[first:last])
        target.append(np.s_[a + first * step:a + (last - 1) * step + 1:step] if last > first else np.s_[0:0])
    out[tuple(target)] = x[tuple(source)]
    return out


def pad_source(index, shape, low, high, inner, value):
    from ..core import expr
    mask, out = None, []
    for i, size, a, b, gap in zip(index, shape, low, high, inner):
        at = i - a
        conditions = []
        if not (type(a) is int and a <= 0):
            conditions.append(expr.le(0, at))
        if gap:
            conditions.append(expr.eq(at % (gap + 1), 0))
            at = at // (gap + 1)
        if not (type(b) is int and b <= 0):
            conditions.append(expr.lt(at, size))
        for condition in conditions:
            mask = condition if mask is None else expr.logical_and(mask, condition)
        out.append(at)
    return tuple(out), mask


def pad_transpose(g, s, low, high, inner, value):
    if builtins.any(type(v) is int and v < 0 for v in (*low, *high)):  # cropped elements get nothing
        return P.pad(P.slice(g, starts=tuple(max(a, 0) for a in low), steps=tuple(k + 1 for k in inner),
                             shape=tuple(-(-(n - max(a, 0) - max(b, 0)) // (k + 1))
                                         for n, a, b, k in zip(g.shape, low, high, inner))),
                     low=tuple(-min(a, 0) for a in low), high=tuple(-min(b, 0) for b in high), inner=(0,) * len(low),
                     value=0)
    return P.slice(g, starts=tuple(low), steps=tuple(k + 1 for k in inner), shape=tuple(s))


pad = view("pad", View(
    pad_numpy, lambda s, low, high, inner, value: tuple(padded(*parts) for parts in zip(s, low, high, inner)),
    pad_source, pad_transpose),
    lambda x, low, high, inner, value: 0)


def strided_numpy(x, shape, strides, offset):
    flat = np.ascontiguousarray(x).reshape(-1)
    return np.lib.stride_tricks.as_strided(flat[offset:], shape,
                                           tuple(s * flat.itemsize
                                                 for s in strides)) if product(shape) else np.empty(shape, x.dtype)


class Strided(View):
    """Memory seen with any sizes and strides: what an element's gradient goes to depends on where the input lies,
    too."""

    def vjp(self, op, g, y, x, shape, strides, offset):
        own = x._meta.strides
        low, high = min(0, offset), max(offset + span(shape, strides), span(x.shape, own))
        memory = laid_down(g, shape, strides, offset - low, high - low)
        if overlapping(x.shape, own):  # each of the elements that are one place gets its share
            ones = P.full(shape=tuple(x.shape), value=1, dtype=g.dtype)
            memory = P.div(memory, P.maximum(laid_down(ones, x.shape, own, -low, high - low), 1.0))
        return [P.strided(memory, shape=tuple(x.shape), strides=tuple(own), offset=-low)]


def laid_down(x, shape, strides, start, length):
    """Elements added up in a vector, each at its place by these strides."""
    at = P.full(shape=(), value=start, dtype=int64)
    for size, stride in zip(shape, strides):
        at = P.add(P.reshape(at, shape=(*at.shape, 1)), P.mul(P.iota(size=size, dtype=int64), stride))
    count = product(shape)
    return P.put(P.full(shape=(length,), value=0, dtype=x.dtype), P.reshape(at, shape=(count,)),
                 P.reshape(x, shape=(count,)), dim=0, combine="add")


def overlapping(shape, strides) -> bool:
    """Whether several elements may be one place in memory."""
    reach = 1
    for stride, size in sorted((stride, size) for size, stride in zip(shape, strides) if not is_one(size)):
        if stride < reach:
            return True
        reach += (size - 1) * stride
    return False


def strided_shared(m, shape, strides, offset):
    return tuple(strides), offset


def strided_source(index, s, shape, strides, offset):
    return unravel(sum_products(index, strides) + offset, s), None


# the element at `offset + sum(index * strides)` of x in row-major order; on memory: relative to x's first element
strided = view("strided", Strided(strided_numpy, lambda s, shape, strides, offset: tuple(shape), strided_source, None,
                                  strided_shared),
               lambda x, shape, strides, offset: 0)


class Part(View):
    """A tensor of any dtype in a block of bytes."""

    def strided(self, op, x, shape, strides, dtype, offset):
        return Meta(shape, strides, dtype, x.device), offset // dtype.itemsize


def part_numpy(x, shape, strides, dtype, offset):
    return np.lib.stride_tricks.as_strided(x[offset:].view(np.uint8)[:(len(x) - offset) // dtype.itemsize
                                                                     * dtype.itemsize].view(dtype.numpy), shape,
                                           tuple(s * dtype.itemsize for s in strides))


part = view("part", Part(part_numpy, None, None, None), lambda x, shape, strides, dtype, offset: 0)


class Half(View):
    """The real (0) or imaginary (1) numbers of complex ones in memory, where they lie side by side."""

    def strided(self, op, x, which):
        return Meta(tuple(x.shape), tuple(2 * s for s in x.strides), x.dtype.to_real(), x.device), which


half = view("half", Half(lambda x, which: x.imag if which else x.real, None, None, None), lambda x, which: 0)


class Meaning(View):
    """The same whole numbers, quantized or not: what they stand for is another."""

    def strided(self, op, x, dtype):
        return Meta(tuple(x.shape), tuple(x.strides), dtype, x.device), 0

    def vjp(self, op, g, y, x, dtype):
        return [None]


meaning = view("meaning", Meaning(lambda x, dtype: x, lambda s, dtype: tuple(s), lambda i, s, dtype: (i, None), None),
               lambda x, dtype: 0)


def diagonal_alias(meta, row, column, length):
    a, b = meta.strides[-2:]
    return (*meta.strides[:-2], a + b), row * a + column * b


def diagonal_transpose(g, s, row, column, length):
    at = P.iota(size=length, dtype=int64)
    position = P.add(P.mul(P.add(at, row), s[-1]), P.add(at, column))
    lead = tuple(s[:-2])
    flat = P.put(P.full(shape=(*lead, s[-2] * s[-1]), value=0, dtype=g.dtype), position, g, dim=len(lead),
                 combine="set")
    return P.reshape(flat, shape=tuple(s))


diagonal = view("diagonal", View(
    lambda x, row, column, length: np.diagonal(x[..., row:, column:], 0, -2, -1)[..., :length],
    lambda s, row, column, length: (*s[:-2], length),
    lambda i, s, row, column, length: ((*i[:-1], i[-1] + row, i[-1] + column), None), diagonal_transpose,
    diagonal_alias),
    lambda x, row, column, length: 0)


def unfold_shape(s, dim, size, step):
    if not s:
        return (size,)
    return (*s[:dim], (s[dim] - size) // step + 1, *s[dim + 1:], size)


def unfold_numpy(x, dim, size, step):
    if not x.ndim:
        return x.reshape(1)[:size]
    seen = np.lib.stride_tricks.sliding_window_view(x, size, dim)
    return seen[tuple(np.s_[::step] if k == dim else np.s_[:] for k in range(x.ndim))]


def unfold_transpose(g, s, dim, size, step):
    if not s:
        return P.reshape(g, shape=())
    count, last = g.shape[dim], len(g.shape) - 1
    if isinstance(size, int) and -(-size // step) <= MOST_SHIFTS:
        return unfold_by_shifts(g, s, dim, size, step, count)
    index = P.add(P.mul(P.reshape(P.iota(size=count, dtype=int64), shape=(count, 1)), step),
                  P.reshape(P.iota(size=size, dtype=int64), shape=(1, size)))
    moved = P.permute(g, dims=(*range(dim + 1), last, *range(dim + 1, last)))
    return P.put(P.full(shape=tuple(s), value=0, dtype=g.dtype), index, moved, dim=dim, combine="add")


MOST_SHIFTS = 16  # windows that overlap at one element, beyond which a scatter is better


def unfold_by_shifts(g, s, dim, size, step, count):
    """Parts of ``step`` elements of all windows lie side by side; the parts that begin later are added further on."""
    last, total = len(g.shape) - 1, None
    for start in range(0, size, step):
        width = min(step, size - start)
        part = P.slice(g, starts=(*(0,) * last, start), steps=(1,) * (last + 1), shape=(*g.shape[:last], width))
        part = P.pad(part, low=(0,) * (last + 1), high=(*(0,) * last, step - width), inner=(0,) * (last + 1), value=0)
        moved = P.permute(part, dims=(*range(dim + 1), last, *range(dim + 1, last)))
        flat = P.reshape(moved, shape=(*s[:dim], count * step, *s[dim + 1:]))
        placed = P.pad(flat, low=tuple(start if k == dim else 0 for k in range(last)),
                       high=tuple(n - count * step - start if k == dim else 0 for k, n in enumerate(s)),
                       inner=(0,) * last, value=0)
        total = placed if total is None else P.add(total, placed)
    return total


unfold = view("unfold", View(
    unfold_numpy, unfold_shape,
    lambda i, s, dim, size, step: ((*i[:dim], i[dim] * step + i[-1], *i[dim + 1:-1]), None) if s else ((), None),
    unfold_transpose,
    lambda m, dim, size, step: ((*m.strides[:dim], m.strides[dim] * step, *m.strides[dim + 1:], m.strides[dim])
                                if m.shape else (1,), 0)),
    lambda x, dim, size, step: 0)

cat = primitive("cat", Join(lambda tensors, dim: np.concatenate(tensors, dim)), lambda tensors, dim: 0)


# --- reductions -------------------------------------------------------------------------------------------------------
def reduction(name, numpy, combine, gradient=None, result=None):
    return primitive(name, Reduce(lambda x, dims: numpy(x, axis=dims, keepdims=True), combine, gradient, result),
                     lambda x, dims: 0)


def sum_numpy(x, axis, keepdims):
    return np.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


def prod_numpy(x, axis, keepdims):
    return np.prod(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


def extreme_gradient(g, y, x, dims):
    hit = P.convert(P.eq(x, y), dtype=g.dtype)
    return P.mul(P.div(g, P.sum(hit, dims)), hit)


def first_index(pick):
    def run(x, axis, keepdims):
        if x.dtype.kind == "b":
            x = x.astype(np.uint8)
        return pick(x, axis=axis[0], keepdims=keepdims).astype(np.int64)
    return run


sum = reduction("sum", sum_numpy, "add", lambda g, y, x, dims: P.expand(g, shape=tuple(x.shape)))
prod = reduction("prod", prod_numpy, "mul", lambda g, y, x, dims: P.div(P.mul(g, y), x))
amax = reduction("amax", np.max, "max", extreme_gradient)
amin = reduction("amin", np.min, "min", extreme_gradient)
any = reduction("any", np.any, "or", result=bool_)
all = reduction("all", np.all, "and", result=bool_)
argmax = reduction("argmax", first_index(np.argmax), "argmax", result=int64)
argmin = reduction("argmin", first_index(np.argmin), "argmin", result=int64)


# --- gather and scatter -----------------------------------------------------------------------------------------------
def checked(index, size):
    if index.size and (index.min() < 0 or index.max() >= size):
        wrong = int(index.min()) if index.min() < 0 else int(index.max())
        raise IndexError(f"index {wrong} is out of bounds for dimension with size {size}")
    return index


def gather_numpy(x, index, dim):
    checked(index, x.shape[dim])
    grid = np.ogrid[tuple(np.s_[:n] for n in index.shape)]
    return x[tuple(index if k == dim else grid[k] for k in range(x.ndim))] if index.ndim else x[index] if x.ndim else x


def zeros_like(x, dtype):
    return P.full(shape=tuple(x.shape), value=0, dtype=dtype)


take = primitive("take", Gather(
    lambda x, index, dim: np.take(x, checked(index, x.shape[dim]), dim), lambda s, i, dim: (*s[:dim], *i, *s[dim + 1:]),
    lambda g, x, index, dim: P.put(zeros_like(x, g.dtype), index, g, dim=dim, combine="add")), lambda x, index, dim: 0)
gather = primitive("gather", Gather(
    gather_numpy, lambda s, i, dim: tuple(i),
    lambda g, x, index, dim: P.scatter(zeros_like(x, g.dtype), index, g, dim=dim, combine="add")),
                   lambda x, index, dim: 0)

COMBINE = {"add": np.add.at, "mul": np.multiply.at, "max": np.maximum.at, "min": np.minimum.at,
           "set": lambda o, k, v: o.__setitem__(k, v)}


def scatter_numpy(x, index, source, dim, combine):
    checked(index, x.shape[dim])
    out = np.array(x)
    grid = np.ogrid[tuple(np.s_[:n] for n in index.shape)]
    key = tuple(index if k == dim else grid[k] for k in range(x.ndim))
    COMBINE[combine](out, key, source[tuple(np.s_[:n] for n in index.shape)])
    return out


def put_numpy(x, index, source, dim, combine):
    checked(index, x.shape[dim])
    out = np.array(x)
    COMBINE[combine](out, (np.s_[:],) * dim + (index,), source)
    return out


scatter = primitive("scatter", Scatter(scatter_numpy, lambda g, index, dim: P.gather(g, index, dim=dim)),
                    lambda x, index, source, dim, combine: 0)
put = primitive("put", Scatter(put_numpy, lambda g, index, dim: P.take(g, index, dim=dim)),
                lambda x, index, source, dim, combine: 0)


# --- creation ---------------------------------------------------------------------------------------------------------
def full_numpy(shape, value, dtype):
    return np.full(shape, value, np.float32 if dtype.is_half else dtype.numpy)


full = primitive("full", Create(full_numpy, lambda shape, value, dtype: (shape, dtype)), lambda shape, value, dtype: 0)
iota = primitive("iota", Create(lambda size, dtype: np.arange(size, dtype=np.float32 if dtype.is_half else dtype.numpy),
                                lambda size, dtype: ((size,), dtype)), lambda size, dtype: 0)


def philox(seed: int, offset: int, count: int) -> np.ndarray:
    """``count`` 32-bit words of the Philox4x32-10 stream (Salmon et al. 2011): word k of block ``offset + k // 4``."""
    blocks = np.arange(offset, offset + (count + 3) // 4, dtype=np.uint64)
    c0, c1 = blocks & 0xFFFFFFFF, blocks >> np.uint64(32)
    c2, c3 = np.zeros_like(c0), np.zeros_like(c0)
    k0, k1 = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32 & 0xFFFFFFFF)
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (p1 >> shift) ^ c1 ^ k0, p1 & low, (p0 >> shift) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return np.stack([c0, c1, c2, c3], -1).reshape(-1)[:count].astype(np.uint32)


random_bits = primitive("random_bits", Create(
    lambda seed, offset, shape: philox(int(seed), int(offset), product(shape)).astype(np.int64).reshape(shape),
    lambda shape: (shape, int64)), lambda seed, offset, shape: 0, arity=2,
    doc="Uniform 32-bit integers, held as int64, from the counter-based stream: element k is word k from block "
        "`offset`.")


# --- contractions -----------------------------------------------------------------------------------------------------
def matmul_shape(a, b):
    return (*a.shape[:-1], b.shape[-1])


def transposed(x):
    rank = len(x.shape)
    dims = (*range(rank - 2), rank - 1, rank - 2)
    return P.permute(adjoint(x), dims=dims)


matmul = primitive("matmul", Contract(
    np.matmul, matmul_shape, lambda g, y, a, b: [P.matmul(g, transposed(b)), P.matmul(transposed(a), g)]),
                   lambda a, b: 0,
    doc="[*, m, k] @ [*, k, n] -> [*, m, n] with equal batch dimensions.")


int_matmul = primitive("int_matmul", Contract(lambda a, b: np.matmul(a.astype(np.int32), b.astype(np.int32)),
                                              matmul_shape, lambda g, y, a, b: [None, None], int32),
                       lambda a, b: 0, doc="int8 or uint8 [*, m, k] @ [*, k, n] -> int32 [*, m, n], exactly.")


def windows(x, kernel, stride, dilation):
    """[n, c, *space] -> [n, c, *out, *kernel], every window of x, without copying."""
    spread = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    rank = len(kernel)
    seen = np.lib.stride_tricks.sliding_window_view(x, spread, axis=tuple(range(2, 2 + rank)))
    return seen[(np.s_[:],) * 2 + tuple(np.s_[::s] for s in stride) + tuple(np.s_[::d] for d in dilation)]


def places(sizes, kernel, stride, padding, dilation):
    """How many windows fit, in each dimension."""
    return tuple((size + 2 * p - d * (k - 1) - 1) // s + 1
                 for size, k, s, p, d in zip(sizes, kernel, stride, padding, dilation))


def conv_shape(x, w, stride, padding, dilation, groups):
    return (x.shape[0], w.shape[0], *places(x.shape[2:], w.shape[2:], stride, padding, dilation))


def bordered(padding):
    return [(0, 0), (0, 0), *((p, p) for p in padding)]


def conv_numpy(x, w, stride, padding, dilation, groups):
    out, per, rank = [], x.shape[1] // groups, w.ndim - 2
    x = np.pad(x, bordered(padding))
    share = w.shape[0] // groups
    for k in range(groups):
        seen = windows(x[:, k * per:(k + 1) * per], w.shape[2:], stride, dilation)
        axes = [1, *range(2 + rank, 2 + 2 * rank)]
        out.append(np.moveaxis(np.tensordot(seen, w[k * share:(k + 1) * share], (axes, [1, *range(2, 2 + rank)])), -1,
                               1))
    return np.concatenate(out, 1).astype(x.dtype)


def conv_input_numpy(g, w, shape, stride, padding, dilation, groups):
    per, share = w.shape[1], w.shape[0] // groups
    full = np.zeros((*shape[:2], *(n + 2 * p for n, p in zip(shape[2:], padding))), g.dtype)
    for k in range(groups):
        part = full[:, k * per:(k + 1) * per]
        # [n, *out, c, *kernel]
        columns = np.tensordot(g[:, k * share:(k + 1) * share], w[k * share:(k + 1) * share], ([1], [0]))
        for at in np.ndindex(*w.shape[2:]):
            target = tuple(np.s_[a * d:a * d + (n - 1) * s + 1:s]
                           for a, d, n, s in zip(at, dilation, g.shape[2:], stride))
            part[(np.s_[:], np.s_[:], *target)] += np.moveaxis(columns[(..., *at)], -1, 1)
    return full[(np.s_[:], np.s_[:], *(np.s_[p:p + n] for p, n in zip(padding, shape[2:])))]


def conv_weight_numpy(g, x, shape, stride, padding, dilation, groups):
    rank, per, share = x.ndim - 2, x.shape[1] // groups, shape[0] // groups
    x, out = np.pad(x, bordered(padding)), []
    for k in range(groups):
        seen = windows(x[:, k * per:(k + 1) * per], shape[2:], stride, dilation)
        seen = seen[(np.s_[:], np.s_[:], *(np.s_[:n] for n in g.shape[2:]))]
        axes = [0, *range(2, 2 + rank)]
        out.append(np.tensordot(g[:, k * share:(k + 1) * share], seen, (axes, axes)))
    return np.concatenate(out, 0).astype(x.dtype)


def int_conv_shape(x, w, stride, padding, dilation, groups, border):
    return (x.shape[0], *places(x.shape[1:-1], w.shape[2:], stride, padding, dilation), w.shape[0])


def int_conv_numpy(x, w, stride, padding, dilation, groups, border):
    x = np.pad(np.moveaxis(x, -1, 1).astype(np.int32), bordered(padding), constant_values=border)
    return np.moveaxis(conv_numpy(x, w.astype(np.int32), stride, (0,) * len(padding), dilation, groups), 1, -1)


def adjoint(x):
    """The conjugate of complex values; others as they are."""
    return P.conj(x) if x.dtype.is_complex else x


def conv_gradient(g, y, x, w, **geometry):
    return [P.conv_input(g, adjoint(w), shape=tuple(x.shape), **geometry),
            P.conv_weight(g, adjoint(x), shape=tuple(w.shape), **geometry)]


def conv_input_gradient(g, y, grad, w, shape, **geometry):
    back = P.conv(g, adjoint(w), **geometry)
    # a transposed convolution with much output padding: windows that no element made
    if tuple(back.shape) != tuple(grad.shape):
        back = P.slice(back, starts=(0,) * len(grad.shape), steps=(1,) * len(grad.shape), shape=tuple(grad.shape))
    return [back, P.conv_weight(adjoint(grad), g, shape=tuple(w.shape), **geometry)]


def conv_weight_gradient(g, y, grad, x, shape, **geometry):
    return [P.conv(adjoint(x), g, **geometry), P.conv_input(adjoint(grad), g, shape=tuple(x.shape), **geometry)]


conv = primitive("conv", Contract(conv_numpy, conv_shape, conv_gradient),
                 lambda x, w, stride, padding, dilation, groups: 0,
                 doc="Cross-correlation. x: [n, c, *space], w: [o, c / groups, *kernel] -> [n, o, *out].")
conv_input = primitive("conv_input", Contract(conv_input_numpy, lambda g, w, shape, **_: tuple(shape),
                                              conv_input_gradient),
                       lambda g, w, shape, stride, padding, dilation, groups: 0,
                       doc="The transpose of conv in its input: g: [n, o, *out] -> shape [n, c, *space].")
conv_weight = primitive("conv_weight", Contract(conv_weight_numpy, lambda g, x, shape, **_: tuple(shape),
                                                conv_weight_gradient),
                        lambda g, x, shape, stride, padding, dilation, groups: 0,
                        doc="The transpose of conv in its weight: g: [n, o, *out], x: [n, c, *space] -> shape [o, c / "
                            "groups, *kernel].")
def channels_at_end(x):
    return P.permute(x, dims=(0, *range(2, len(x.shape)), 1))


def channels_in_front(x):
    return P.permute(x, dims=(0, len(x.shape) - 1, *range(1, len(x.shape) - 1)))


def conv_last_gradient(g, y, x, w, **geometry):
    return [P.conv_last_input(g, adjoint(w), shape=tuple(x.shape), **geometry),
            P.conv_weight(channels_in_front(g), channels_in_front(adjoint(x)), shape=tuple(w.shape), **geometry)]


def conv_last_input_gradient(g, y, grad, w, shape, **geometry):
    back, of_weight = conv_input_gradient(channels_in_front(g), y, channels_in_front(grad), w,
                                          (shape[0], shape[-1], *shape[1:-1]), **geometry)
    return [channels_at_end(back), of_weight]


conv_last = primitive("conv_last", Contract(
    lambda x, w, **geometry: np.moveaxis(conv_numpy(np.moveaxis(x, -1, 1), w, **geometry), 1, -1),
    lambda x, w, stride, padding, dilation, groups: (x.shape[0], *places(x.shape[1:-1], w.shape[2:], stride, padding,
                                                                         dilation), w.shape[0]), conv_last_gradient),
    lambda x, w, stride, padding, dilation, groups: 0,
                      doc="conv with channels last. x: [n, *space, c], w: [o, c / groups, *kernel] -> [n, *out, o].")
conv_last_input = primitive("conv_last_input", Contract(
    lambda g, w, shape, **geometry: np.moveaxis(conv_input_numpy(np.moveaxis(g, -1, 1), w,
                                                                 (shape[0], shape[-1], *shape[1:-1]), **geometry), 1,
                                                -1),
    lambda g, w, shape, **_: tuple(shape), conv_last_input_gradient),
    lambda g, w, shape, stride, padding, dilation, groups: 0,
                            doc="The transpose of conv_last in its input: g: [n, *out, o] -> shape [n, *space, c].")
int_conv = primitive("int_conv", Contract(int_conv_numpy, int_conv_shape, lambda g, y, x, w, **_: [None, None], int32),
                     lambda x, w, stride, padding, dilation, groups, border: 0,
                     doc="Cross-correlation of bytes with channels last, exactly. x: uint8 or int8 [n, *space, c], "
                         "around which stands the number border, "
                         "w: int8 [o, c / groups, *kernel] -> int32 [n, *out, o].")

item = primitive("item", Foreign(lambda values, index: values[index], lambda metas, index: metas[index]),
                 lambda values, index: 0, arity=1,
                 doc="One of several results of an operator.")
