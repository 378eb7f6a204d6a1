"""Scalar operations as LLVM instructions, on scalars or vectors alike."""
from __future__ import annotations

import hashlib

from ....compiler.math import OF_FLOATS
from ....core.dtypes import int8, int16, int32, limits_of, uint8, uint16, uint32
from .types import bf16, f16, f32, f64, i1, i8, i16, i32, i64, vector
from .values import constant

STORED = {"bool": i8, "uint8": i8, "int8": i8, "int16": i16, "int32": i32, "int64": i64,
          "float16": f16, "bfloat16": bf16, "float32": f32, "float64": f64}
SHORT = frozenset((int8, uint8, int16, uint16, int32, uint32))
EXACT_FLOAT = 1 << 24  # integers up to this are exact in float32
COMPUTED = STORED | {"bool": i1, "float16": f32, "bfloat16": f32}


def from_memory(b, value, dtype):
    """Convert a loaded value to the type in which it is computed."""
    if dtype.name == "bool":
        return b.compare("!=", value, 0)
    return b.convert(value, f32) if dtype.is_half else value


def to_memory(b, value, dtype):
    """Convert a computed value to its stored type; 16-bit floats are rounded to nearest even here."""
    if dtype.name == "bool":
        return b.cast("zext", value, value.type.with_element(i8))
    return b.convert(value, STORED[dtype.name])


def convert(b, value, source, target):
    """Convert a scalar from one dtype to another.  Floats outside an integer's range, and NaN, give its least value."""
    if target.name == "bool":
        return value if source.name == "bool" else b.compare("!=", value, 0.0 if value.type.is_float else 0)
    element = COMPUTED[target.name]
    if value.type.is_float and element.is_int:
        wide = _float_to_wide(b, value)
        return b.convert(wide, element)
    return b.convert(value, element, signed=source.is_signed)


def _float_to_wide(b, value):
    """fptosi to i64 that returns the least integer where LLVM's instruction would be undefined."""
    limit = 2.0 ** 63
    fits = b.and_(b.compare(">=", value, -limit), b.compare("<", value, limit))
    number = b.cast("fptosi", b.select(fits, value, 0.0), value.type.with_element(i64))
    return b.select(fits, number, -(1 << 63))


def truth(b, a):
    """True if a value is not zero."""
    return a if a.type.element is i1 else b.compare("!=", a, 0.0 if a.type.is_float else 0)


def extreme(b, kind, x, y, signed=True):
    """The larger or smaller value, NaN if either is; of two zeros the second, as CPUs do, independent of fusion."""
    if x.type.is_float:
        chosen = b.select(b.compare(">" if kind == "max" else "<", x, y), x, y)
        return b.select(b.compare("!=", x, x), x, chosen)
    if x.type.element is i1:
        return b.or_(x, y) if kind == "max" else b.and_(x, y)
    return b.intrinsic(f"llvm.{'s' if signed else 'u'}{kind}", x.type, [x, y])


EXACT = 1 << 53  # integers below this are exact in float64, and so is the floor of their quotient


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
    # by way of i64, the least integer over -1 wraps to itself
    whole = b.convert(b.convert(quotient, i64), x.type.element)
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


def integer_fmod(b, x, y, signed):
    """The remainder with the sign of x; by zero 0."""
    trap = b.compare("==", y, 0) if not signed else b.or_(b.compare("==", y, 0), b.compare("==", y, -1))
    safe = b.select(trap, 1, y)
    return b.select(trap, 0, b.rem(x, safe) if signed else b.urem(x, safe))


def float_remainder(b, x, y):
    """x modulo y with the sign of y."""
    r = b.rem(x, y)
    crosses = b.and_(b.compare("!=", r, 0.0), b.xor(b.compare("<", r, 0.0),
                                                  b.compare("<", y, 0.0)))
    return b.select(crosses, b.add(r, y), r)


def float_floor_divide(b, x, y):
    """x over y rounded down, exact if the quotient is an integer; x / 0 as in division."""
    quotient = b.rint(b.div(b.sub(x, float_remainder(b, x, y)), y))
    return b.select(b.compare("==", y, 0.0), b.div(x, y), quotient)


def sign(b, x, signed=True):
    """-1, 0 or 1; 0 for NaN."""
    if not signed:
        return b.select(b.compare("!=", x, 0), constant(x.type, 1), constant(x.type, 0))
    if x.type.is_float:
        return b.select(b.compare(">", x, 0.0), 1.0,
                        b.select(b.compare("<", x, 0.0), constant(x.type, -1.0), constant(x.type, 0.0)))
    return b.select(b.compare(">", x, 0), 1, b.select(b.compare("<", x, 0), constant(x.type, -1), 0))


def repeated(b, start, count, step, going):
    """Repeat ``step(k, state)`` up to ``count`` times, as long as ``going(k, state)`` holds in some lane."""
    def more(state):
        wanted = going(*state)
        wanted = b.reduce("or", wanted) if wanted.type.lanes else wanted
        return b.and_(b.compare("<", state[0], count), wanted)

    return b.while_loop([constant(i64, 0), start], more, lambda state: [b.add(state[0], 1), step(*state)])[1]


def looked_up(b, at, numbers):
    """The doubles of a constant table at integer indices."""
    name = "table." + hashlib.sha256(repr(numbers).encode()).hexdigest()[:12]
    text = ", ".join(f"double {constant(f64, n).text}" for n in numbers)
    place = b.offset(b.module.data(name, f"[{len(numbers)} x double]", f"[{text}]", constant=True), at, f64)
    return b.gather(vector(f64, at.type.lanes), place) if at.type.lanes else b.load(f64, place)


# --- the table: the name of an Expr operation -> a function of the builder, the operands and the Expr ----------------
def plain(name):
    """The builder's method of this name, for all operand types."""
    return lambda b, x, e: getattr(b, name)(*x)


def fused(b, x, e):
    """a b + c rounded once.  Reductions of angles and double-double sums rely on it, so CPUs without the instruction
    compute it as a float64 sum, or for float64 by the product and the sum with their rounding errors (Dekker 1971)."""
    if b.features.fma:
        return b.fma(*x)
    if x[0].type.element is not f64:
        a, c, d = (b.convert(one, f64) for one in x)
        return b.convert(b.add(b.mul(a, c), d), x[0].type.element)
    a, c, d = x
    product = b.mul(a, c)
    (high, low), (other_high, other_low) = halves_of_digits(b, a), halves_of_digits(b, c)
    lost = b.sub(b.mul(high, other_high), product)
    for pair in ((high, other_low), (low, other_high), (low, other_low)):
        lost = b.add(lost, b.mul(*pair))
    total = b.add(product, d)
    added = b.sub(total, product)
    rest = b.add(b.sub(product, b.sub(total, added)), b.sub(d, added))
    exact = b.add(total, b.add(rest, lost))
    is_finite = b.compare("==", b.sub(exact, exact), 0.0)  # the split of large floats overflows
    return b.select(is_finite, exact, total)


def halves_of_digits(b, a):
    """A double as a sum of two with half the significand bits (Veltkamp)."""
    scaled = b.mul(a, 134217729.0)
    high = b.sub(scaled, b.sub(scaled, a))
    return high, b.sub(a, high)


def rounding(name):
    """A rounding operation of floats; integers are unchanged."""
    return lambda b, x, e: getattr(b, name)(*x) if x[0].type.is_float else x[0]


def comparison(symbol):
    return lambda b, x, e: b.compare(symbol, *x, signed=is_signed(e))


def of_truths(name):
    return lambda b, x, e: getattr(b, name)(*(truth(b, a) for a in x))


def greatest_or_least(kind):
    def write(b, x, e):
        other = e.args[1]
        if x[0].type.is_float and other.op == "number" and other.arg == other.arg:  # NaN is not beyond it, and stays
            return b.select(b.compare("<=" if kind == "max" else ">=", *x), x[1], x[0])
        return extreme(b, kind, *x, signed=is_signed(e))
    return write


def bounds(e):
    """(least, most) of a float clamped to two constants that is not NaN; else None."""
    inner = e.args[0] if e.args else e
    if {e.op, inner.op} != {"maximum", "minimum"} or any(v.args[1].op != "number" for v in (e, inner)):
        return None
    return sorted((e.args[1].arg, inner.args[1].arg))


def converted(b, x, e):
    """``convert``; floats known to fit a dtype of at most 32 bits avoid 64-bit integers (NaN is 0 there)."""
    source, target = e.args[0], e.dtype
    cut = bounds(source) if x[0].type.is_float and target in SHORT else None
    least, most = limits_of(target) if cut else (0, 0)
    if cut is None or cut[0] < max(least, -EXACT_FLOAT) or cut[1] > min(most, EXACT_FLOAT):
        return convert(b, x[0], source.dtype, target)
    number = b.cast("fptosi", b.select(b.compare("==", x[0], x[0]), x[0], 0.0), x[0].type.with_element(i32))
    return b.convert(number, COMPUTED[target.name])


def rounded_down(of_floats, place):
    """A division rounded down, or its remainder: item ``place`` of (quotient, remainder)."""
    return lambda b, x, e: of_floats(b, *x) if x[0].type.is_float else integer_division(b, *x, is_signed(e))[place]


def is_signed(e) -> bool:
    """True if the operands are signed: their dtype is the last one's."""
    return e.args[-1].dtype.is_signed


def absolute(b, x, e):
    return x[0] if x[0].type.element is i1 or not is_signed(e) else b.abs(*x)


INSTRUCTIONS = {
    **{name: plain(name) for name in ("add", "sub", "mul", "neg", "div")}, "fma": fused,
    **{name: comparison(symbol) for name, symbol in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
                                                     "ge": ">="}.items()},
    **{name: rounding(name) for name in ("floor", "ceil", "sqrt")}, "trunc": rounding("trunc_float"),
    "round": rounding("rint"),
    "bitwise_and": plain("and_"), "bitwise_or": plain("or_"), "bitwise_xor": plain("xor"), "bitwise_not": plain("not_"),
    "logical_and": of_truths("and_"), "logical_or": of_truths("or_"), "logical_xor": of_truths("xor"),
    "logical_not": of_truths("not_"),
    "left_shift": plain("shl"), "shift_right_logical": plain("lshr"), "right_shift": lambda b, x, e: b.ashr(*x)
    if is_signed(e) else b.lshr(*x),
    "maximum": greatest_or_least("max"), "minimum": greatest_or_least("min"), "abs": absolute,
    "sign": lambda b, x, e: sign(b, *x, e.dtype.is_signed),
    "floor_divide": rounded_down(float_floor_divide, 0), "remainder": rounded_down(float_remainder, 1),
    "fmod": lambda b, x, e: b.rem(*x) if x[0].type.is_float else integer_fmod(b, *x, is_signed(e)),
    "reciprocal": lambda b, x, e: b.div(constant(x[0].type, 1.0), x[0]),
    "copysign": lambda b, x, e: b.intrinsic("llvm.copysign", x[0].type, x),
    "table": lambda b, x, e: looked_up(b, x[0], e.arg), "where": plain("select"), "isnan": plain("is_nan"),
    "convert": converted,
    "as_stored": lambda b, x, e: b.convert(b.convert(x[0], STORED[e.dtype.name]), f32),
    "whole": lambda b, x, e: b.cast("fptosi", x[0], x[0].type.with_element(COMPUTED[e.dtype.name])),
    "bitcast": lambda b, x, e: b.bitcast(x[0], x[0].type.with_element(COMPUTED[e.dtype.name])),
}


def operation(b, e, x):
    """Emit the instructions of an operation whose operands are ``x``.  NotImplementedError if there are none."""
    write = INSTRUCTIONS.get(e.op)
    if write is None or e.op in OF_FLOATS and not x[0].type.is_float:
        raise NotImplementedError(f"no instructions for {e.op} of {e.args[-1].dtype}")
    return write(b, x, e)


LOW = 0xFFFFFFFF


def philox_keys(b, seed):
    """The two keys of each of the ten rounds."""
    keys = b.and_(seed, LOW), b.lshr(seed, 32)
    for _ in range(10):
        yield keys
        keys = tuple(b.and_(b.add(k, step), LOW) for k, step in zip(keys, (0x9E3779B9, 0xBB67AE85)))


def philox_words(b, keys, block):
    """The four words of blocks of the RNG stream, in the lower halves; upper halves hold leftovers, which 32-bit
    multiplications ignore."""
    c0, c1, c2, c3 = block, b.lshr(block, 32), constant(block.type, 0), constant(block.type, 0)
    for k0, k1 in keys:
        p0, p1 = b.mul(b.and_(c0, LOW), 0xD2511F53), b.mul(b.and_(c2, LOW), 0xCD9E8D57)
        c0, c1, c2, c3 = b.xor(b.xor(b.lshr(p1, 32), c1), k0), p1, b.xor(b.xor(b.lshr(p0, 32), c3), k1), p0
    return c0, c1, c2, c3


def philox_run(b, keys, offset, at, lanes):
    """Words ``at`` to ``at + lanes``, equal to those of ``philox``, from scalars: adjacent words share blocks, so half
    as many lanes of rounds suffice."""
    half = lanes // 2
    c0, c1, c2, c3 = philox_words(b, keys, b.add(b.splat(b.add(b.ashr(at, 2), offset), half), b.lane_indices(half)))
    pairs = [b.or_(b.and_(low, LOW), b.shl(high, 32)) for low, high in ((c0, c1), (c2, c3))]
    order = [k // 2 + k % 2 * half for k in range(lanes)]  # the pairs of block 0, of block 1, ...
    near, far = (b.bitcast(b.shuffle(*pairs, part), vector(i32, lanes)) for part in (order[:half], order[half:]))
    for step in (1, 2):  # the first word may be any of its block
        late = b.compare("!=", b.and_(at, step), 0)
        moved = b.shuffle(near, far, list(range(step, lanes + step))), b.shuffle(far, None, [*range(step, lanes),
                                                                                             *[None] * step])
        near, far = b.select(late, moved[0], near), b.select(late, moved[1], far)
    return b.cast("zext", near, vector(i64, lanes))


def philox(b, keys, offset, at):
    """Word ``at % 4`` of block ``offset + at // 4`` of the Philox4x32-10 stream (Salmon et al. 2011), as int64."""
    c0, c1, c2, c3 = philox_words(b, keys, b.add(b.ashr(at, 2), offset))
    odd, upper = b.compare("!=", b.and_(at, 1), 0), b.compare("!=", b.and_(at, 2), 0)
    return b.and_(b.select(upper, b.select(odd, c3, c2), b.select(odd, c1, c0)), LOW)
