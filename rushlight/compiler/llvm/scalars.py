"""Scalar operations as LLVM instructions, on scalars or vectors alike."""
from __future__ import annotations

from .builder import constant
from .types import bf16, f16, f32, f64, i1, i8, i16, i32, i64, vector

STORED = {"bool": i8, "uint8": i8, "int8": i8, "int16": i16, "int32": i32, "int64": i64,
          "float16": f16, "bfloat16": bf16, "float32": f32, "float64": f64}
COMPUTED = STORED | {"bool": i1, "float16": f32, "bfloat16": f32}


def from_memory(b, value, dtype):
    """What was loaded, as the type it is computed in."""
    if dtype.name == "bool":
        return b.compare("!=", value, 0)
    return b.convert(value, f32) if dtype.is_half else value


def to_memory(b, value, dtype):
    """A computed value as it is stored; halves are rounded to nearest even here."""
    if dtype.name == "bool":
        return b.cast("zext", value, value.type.with_element(i8))
    return b.convert(value, STORED[dtype.name])


def convert(b, value, source, target):
    """A number of one dtype as another.  Floats outside an integer's range, and NaN, give its least value."""
    if target.name == "bool":
        return value if source.name == "bool" else b.compare("!=", value, 0.0 if value.type.is_float else 0)
    element = COMPUTED[target.name]
    if value.type.is_float and element.is_int:
        wide = _float_to_wide(b, value)
        return b.convert(wide, element)
    return b.convert(value, element, signed=source.is_signed)


def _float_to_wide(b, value):
    """fptosi to i64 that answers the least integer where LLVM's instruction would be undefined."""
    limit = 2.0 ** 63
    fits = b.and_(b.compare(">=", value, -limit), b.compare("<", value, limit))
    number = b.cast("fptosi", b.select(fits, value, 0.0), value.type.with_element(i64))
    return b.select(fits, number, -(1 << 63))


def truth(b, a):
    """Whether a number is not zero."""
    return a if a.type.element is i1 else b.compare("!=", a, 0.0 if a.type.is_float else 0)


def extreme(b, kind, x, y, signed=True):
    """The larger or smaller one, NaN if either is."""
    if x.type.is_float:
        return b.intrinsic(f"llvm.{kind}imum", x.type, [x, y], flags="nsz")
    if x.type.element is i1:
        return b.or_(x, y) if kind == "max" else b.and_(x, y)
    return b.intrinsic(f"llvm.{'s' if signed else 'u'}{kind}", x.type, [x, y])


EXACT = 1 << 53  # whole numbers below this are exact as doubles, and so is the floor of their quotient


def integer_division(b, x, y, signed):
    """(quotient rounded down, remainder with the divisor's sign); by zero: (0, 0), as NumPy has it.

    CPUs have no division of integer vectors: it goes through doubles wherever all lanes fit."""
    if not x.type.lanes or not signed and x.type.element is i64:
        return _whole_division(b, x, y, signed)
    if x.type.element is not i64:
        return _division_by_doubles(b, x, y, signed)
    fits = [b.compare("<", b.add(v, EXACT), 2 * EXACT, signed=False) for v in (x, y)]
    quotient, remainder = b.when(b.reduce("and", b.and_(*fits)), lambda: list(_division_by_doubles(b, x, y, True)),
                                 lambda: list(_whole_division(b, x, y, True)))
    return quotient, remainder


def _division_by_doubles(b, x, y, signed):
    zero = b.compare("==", y, 0)
    quotient = b.floor(b.div(b.convert(x, f64, signed), b.convert(b.select(zero, 1, y), f64, signed)))
    whole = b.convert(b.convert(quotient, i64), x.type.element)  # by way of i64, the least integer over -1 wraps to itself
    return b.select(zero, 0, whole), b.select(zero, 0, b.sub(x, b.mul(whole, y)))


def _whole_division(b, x, y, signed):
    zero, minus = b.compare("==", y, 0), b.compare("==", y, -1)
    if not signed:
        safe = b.select(zero, 1, y)
        return b.select(zero, 0, b.udiv(x, safe)), b.select(zero, 0, b.urem(x, safe))
    safe = b.select(b.or_(zero, minus), 1, y)  # the least integer over -1 would trap
    quotient, remainder = b.div(x, safe), b.rem(x, safe)
    crosses = b.and_(b.compare("!=", remainder, 0), b.compare("<", b.xor(remainder, safe), 0))
    quotient = b.select(crosses, b.sub(quotient, 1), quotient)
    remainder = b.select(crosses, b.add(remainder, safe), remainder)
    quotient = b.select(minus, b.neg(x), quotient)
    return b.select(zero, 0, quotient), b.select(zero, 0, remainder)


def float_remainder(b, x, y):
    """x modulo y with the sign of y."""
    r = b.rem(x, y)
    crosses = b.and_(b.compare("!=", r, 0.0), b.xor(b.compare("<", r, 0.0),
                                                  b.compare("<", y, 0.0)))
    return b.select(crosses, b.add(r, y), r)


def float_floor_divide(b, x, y):
    """x over y rounded down, exact where the quotient is a whole number; x / 0 as division has it."""
    quotient = b.rint(b.div(b.sub(x, float_remainder(b, x, y)), y))
    return b.select(b.compare("==", y, 0.0), b.div(x, y), quotient)


def sign(b, x):
    """-1, 0 or 1; 0 for NaN."""
    if x.type.is_float:
        return b.select(b.compare(">", x, 0.0), 1.0, b.select(b.compare("<", x, 0.0), constant(x.type, -1.0), constant(x.type, 0.0)))
    return b.select(b.compare(">", x, 0), 1, b.select(b.compare("<", x, 0), constant(x.type, -1), 0))


COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
FLOAT_UNARY = {"floor": "floor", "ceil": "ceil", "trunc": "trunc_float", "round": "rint", "sqrt": "sqrt"}
BITS = {"bitwise_and": "and_", "bitwise_or": "or_", "bitwise_xor": "xor", "left_shift": "shl", "shift_right_logical": "lshr"}
LOGIC = {"logical_and": "and_", "logical_or": "or_", "logical_xor": "xor"}


def operation(b, op, x, dtype, result):
    """The instructions of one operation; ``x`` are the operands, ``dtype`` is theirs (the last one's), ``result`` what comes out.

    None: not known here.
    """
    signed, kind = dtype.is_signed, x[0].type
    if op in ("add", "sub", "mul"):
        return getattr(b, op)(*x)
    if op in COMPARE:
        return b.compare(COMPARE[op], *x, signed=signed)
    if op in LOGIC:
        return getattr(b, LOGIC[op])(*(truth(b, a) for a in x))
    if op == "logical_not":
        return b.not_(truth(b, x[0]))
    if op == "where":
        return b.select(*x)
    if op in ("maximum", "minimum"):
        return extreme(b, op[:3], *x, signed=signed)
    if op == "neg":
        return b.neg(*x)
    if op == "abs":
        return x[0] if kind.element is i1 or not signed else b.abs(*x)
    if op in FLOAT_UNARY:
        return getattr(b, FLOAT_UNARY[op])(*x) if kind.is_float else x[0]
    if op == "div" and kind.is_float:
        return b.div(*x)
    if op == "fma":
        return b.fma(*x)
    if op in ("floor_divide", "remainder"):
        if kind.is_float:
            return (float_floor_divide if op == "floor_divide" else float_remainder)(b, *x)
        return integer_division(b, *x, signed)[op == "remainder"]
    if op == "fmod":
        return b.rem(*x) if kind.is_float else _integer_fmod(b, *x, signed)
    if op in BITS:
        return getattr(b, BITS[op])(*x)
    if op == "right_shift":
        return b.ashr(*x) if signed else b.lshr(*x)
    if op == "bitwise_not":
        return b.not_(*x)
    if op == "copysign":
        return b.intrinsic("llvm.copysign", kind, x)
    if op == "as_stored":
        return b.convert(b.convert(x[0], STORED[dtype.name]), f32)
    if op == "isnan":
        return b.is_nan(*x)
    if op == "reciprocal":
        return b.div(constant(kind, 1.0), x[0])
    if op == "sign":
        return sign(b, *x)
    if op == "whole":
        return b.cast("fptosi", x[0], kind.with_element(COMPUTED[result.name]))
    if op == "bitcast":
        return b.bitcast(x[0], kind.with_element(COMPUTED[result.name]))
    return None


def _integer_fmod(b, x, y, signed):
    """The remainder with the sign of x; by zero 0."""
    trap = b.compare("==", y, 0) if not signed else b.or_(b.compare("==", y, 0), b.compare("==", y, -1))
    safe = b.select(trap, 1, y)
    return b.select(trap, 0, b.rem(x, safe) if signed else b.urem(x, safe))


LOW = 0xFFFFFFFF


def philox_keys(b, seed):
    """The two keys of each of the ten rounds."""
    keys = b.and_(seed, LOW), b.lshr(seed, 32)
    for _ in range(10):
        yield keys
        keys = tuple(b.and_(b.add(k, step), LOW) for k, step in zip(keys, (0x9E3779B9, 0xBB67AE85)))


def philox_words(b, keys, block):
    """The four words of blocks of the stream, in the lower halves; upper halves hold leftovers, which 32-bit products ignore."""
    c0, c1, c2, c3 = block, b.lshr(block, 32), constant(block.type, 0), constant(block.type, 0)
    for k0, k1 in keys:
        p0, p1 = b.mul(b.and_(c0, LOW), 0xD2511F53), b.mul(b.and_(c2, LOW), 0xCD9E8D57)
        c0, c1, c2, c3 = b.xor(b.xor(b.lshr(p1, 32), c1), k0), p1, b.xor(b.xor(b.lshr(p0, 32), c3), k1), p0
    return c0, c1, c2, c3


def philox_run(b, keys, offset, at, lanes):
    """Words ``at`` to ``at + lanes``, as ``philox`` has them one by one, from scalars: neighbours share blocks, so keys for half as many lanes do."""
    half = lanes // 2
    c0, c1, c2, c3 = philox_words(b, keys, b.add(b.splat(b.add(b.ashr(at, 2), offset), half), b.lane_indices(half)))
    pairs = [b.or_(b.and_(low, LOW), b.shl(high, 32)) for low, high in ((c0, c1), (c2, c3))]
    order = [k // 2 + k % 2 * half for k in range(lanes)]  # the pairs of block 0, of block 1, ...
    near, far = (b.bitcast(b.shuffle(*pairs, part), vector(i32, lanes)) for part in (order[:half], order[half:]))
    for step in (1, 2):  # the first word may be any of its block
        late = b.compare("!=", b.and_(at, step), 0)
        moved = b.shuffle(near, far, list(range(step, lanes + step))), b.shuffle(far, None, [*range(step, lanes), *[None] * step])
        near, far = b.select(late, moved[0], near), b.select(late, moved[1], far)
    return b.cast("zext", near, vector(i64, lanes))


def philox(b, keys, offset, at):
    """Word ``at % 4`` of block ``offset + at // 4`` of the Philox4x32-10 stream (Salmon et al. 2011), as int64."""
    c0, c1, c2, c3 = philox_words(b, keys, b.add(b.ashr(at, 2), offset))
    odd, upper = b.compare("!=", b.and_(at, 1), 0), b.compare("!=", b.and_(at, 2), 0)
    return b.and_(b.select(upper, b.select(odd, c3, c2), b.select(odd, c1, c0)), LOW)
