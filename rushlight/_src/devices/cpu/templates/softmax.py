"""The elementwise parts of attention: powers of two, logarithms, and the online softmax of a row of scores.

Scores are kept in units of log 2, so that an exponential is a power of two. The online softmax over blocks of keys
follows Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018).
"""

import functools
import math

from ..llvm.values import constant, zero
from ..llvm.halves import rounded_operand
from ..llvm.types import f32, i1, i8, i32, i64, ptr, vector
from ...shared.attention import LOG2E
from .contraction import ELEMENTS
from .dropout import kept_lanes

LN2 = math.log(2)
MINUS_INFINITY = -math.inf

# Polynomials for 2^x on [-0.5, 0.5] with the least largest relative error: 7.5e-8, 2.6e-6 and 7.5e-5, each well below
# the rounding of the result.
_POWERS = {
    "float32": (1.0000001192092896, 0.6931469440460205, 0.24022120237350464, 0.05550713092088699, 0.009675541892647743,
                0.0013276472454890609),
    "float16": (0.9999992847442627, 0.6931217908859253, 0.240247443318367, 0.05591786280274391, 0.009570102207362652),
    "bfloat16": (0.9999280571937561, 0.6932609677314758, 0.2426111251115799, 0.0551716685295105),
}


def power_of_two(b, x, dtype):
    """2^x for a vector of floats at most 0, exact enough for results of `dtype`; 0 below -126, NaN for NaN."""
    kind = x.type
    words = vector(i32, kind.lanes)
    # adding 1.5 * 2^23 leaves the nearest integer in the last bits
    shifted = b.add(x, 12582912.0)
    rest = b.sub(x, b.sub(shifted, 12582912.0))
    first, *others = reversed(_POWERS[dtype])
    total = constant(kind, first)
    for coefficient in others:
        total = b.fma(total, rest, constant(kind, coefficient))
    bits = b.add(b.bitcast(total, words), b.shl(b.bitcast(shifted, words), 23))
    return b.bitcast(b.select(b.compare("<", x, -126.0), zero(words), bits), kind)


def logarithm(b, x):
    """log2(x) for a vector of positive normal floats."""
    kind = x.type
    words = vector(i32, kind.lanes)
    # counted from sqrt(1/2), so that the significand is close to 1
    bits = b.sub(b.bitcast(x, words), 0x3F3504F3)
    exponent = b.convert(b.ashr(bits, 23), f32)
    mantissa = b.bitcast(b.add(b.and_(bits, 0x7FFFFF), 0x3F3504F3), kind)
    # 2 atanh((m - 1) / (m + 1)) / ln 2
    ratio = b.div(b.sub(mantissa, 1.0), b.add(mantissa, 1.0))
    square = b.mul(ratio, ratio)
    total = constant(kind, 2 * LOG2E / 9)
    for power in (7, 5, 3, 1):
        total = b.fma(total, square, constant(kind, 2 * LOG2E / power))
    return b.fma(ratio, total, exponent)


def largest(b, x):
    """The largest lane; NaNs may or may not count (they show up in the sum of the exponentials anyway)."""
    return b.call(f"llvm.vector.reduce.fmax.{x.type.mangled}", [x], f32, flags="nnan")


def larger(b, x, y):
    """The larger of two floats, in one instruction; NaNs may or may not count."""
    return b.intrinsic("llvm.maxnum", x.type, [x, y], flags="nnan")


class Mask:
    """A mask operand of scores: a bool mask selects the keys that a query attends to, a float mask is added."""

    def __init__(self, name, element):
        self.name, self.element = name, element  # name: "", "bool", or the dtype's

    def load(self, b, pointer, lanes, count):
        """Load a vector of the mask, whose first `count` lanes exist (None: all)."""
        lane_mask = None if count is None else b.lane_mask(count, lanes)
        return b.load(vector(self.element, lanes), pointer, mask=lane_mask)

    def apply(self, b, scores, pointer, count):
        """The scores (in units of log 2) with the mask's vector at `pointer` applied."""
        if not self.name:
            return scores
        found = self.load(b, pointer, scores.type.lanes, count)
        if self.name == "bool":
            return b.select(b.compare("!=", found, 0), scores, constant(scores.type, MINUS_INFINITY))
        return b.fma(b.convert(found, f32), constant(scores.type, LOG2E), scores)

    def allows(self, b, pointer, lanes, count):
        """True if any lane of the mask's vector is not masked, as an i1."""
        found = self.load(b, pointer, lanes, count)
        if self.name == "bool":
            return b.reduce("or", b.compare("!=", found, 0))
        return b.reduce("or", b.compare("!=", b.convert(found, f32), MINUS_INFINITY))


def any_allowed(b, mask, at, row_bytes, rows, count, lanes):
    """True if any of `count` keys is unmasked for any row of a block, as an i1."""
    def one_row(r, found):
        row = b.offset(at, b.mul(r, row_bytes))
        return b.loop(0, count, lanes, found, lambda k, found: [
            b.or_(found[0], mask.allows(b, b.offset(row, k, mask.element), lanes, b.sub(count, k)))])

    # rows that share a mask are checked once
    found, = b.loop(0, b.select(b.compare("==", row_bytes, 0), constant(i64, 1), rows), 1, [constant(i1, 0)], one_row)
    return found


def mask_of(name):
    """The Mask of a kind: "" for none, "bool", or a float dtype."""
    return Mask(name, i8 if name in ("", "bool") else ELEMENTS[name])


ROW = [("scores", ptr), ("limit", i64), ("padded", i64), ("scale", f32), ("mask", ptr), ("highest", ptr),
       ("total", ptr), ("correction", ptr)]
_AT_ONCE = 2  # vectors of a row


def write_row(module, numbers, variant, modify=None, name="row"):
    """A function that turns one row of a block of scores, times `scale`, into probabilities relative to the row's
    highest score up to now.

    The first `limit` scores count; up to `padded` the probabilities become 0. They overwrite the scores, as pairs of
    16-bit floats if `numbers` multiplies pairs. `highest` and `total` are the row's state; `correction` gets the factor
    for earlier sums. `variant`: flash.Variant; if it drops, a parameter follows: the bits of what is kept. `modify`:
    the user's function of scores (modify.Use), whose parameters follow the others.
    """
    dtype, mask = variant.dtype, mask_of(variant.mask)
    f = module.function(name, ROW + ([("kept", ptr)] if variant.drops else []) + (modify.parameters if modify else []),
                        internal=True)
    scores, limit, padded, scale, mask_at, highest, total, correction, *where = f.parameters
    kept = where.pop(0) if variant.drops else None
    modify = modify and modify.within(f, where)
    lanes, kind = numbers.lanes, numbers.vector
    step = _AT_ONCE * lanes
    whole = f.mul(f.div(limit, step), step)
    factor = f.splat(scale, lanes)
    changed = bool(modify or mask.name)  # then scores with everything applied are kept for the second pass

    def seen(k, count):
        place = f.offset(scores, k, f32)
        value = f.mul(f.load(kind, place), factor)
        if modify:
            value = modify.scores(value, k, count)
        if mask.name:
            value = mask.apply(f, value, f.offset(mask_at, k, mask.element), count)
        if changed:
            f.store(value, place)
        return value if count is None else f.select(f.lane_mask(count, lanes), value, constant(kind, MINUS_INFINITY))

    best = f.loop(0, whole, step, [constant(kind, MINUS_INFINITY)] * _AT_ONCE,
                  lambda k, best: [larger(f, one, seen(f.add(k, n * lanes), None)) for n, one in enumerate(best)])
    best, = f.loop(whole, padded, lanes, [functools.reduce(lambda x, y: larger(f, x, y), best)],
                   lambda k, best: [larger(f, best[0], seen(k, f.sub(limit, k)))])
    before, now = f.splat(f.load(f32, highest), lanes), f.splat(largest(f, best), lanes)
    grew = f.compare(">", now, before)
    now = f.select(grew, now, before)
    # the row has no unmasked score yet
    base = f.select(f.compare("==", now, MINUS_INFINITY), zero(kind), now)
    again = f.extract(f.select(grew, power_of_two(f, f.sub(before, base), dtype), constant(kind, 1.0)), 0)
    minus, element = f.neg(base), numbers.element if numbers.per_word == 2 else f32

    def exponential(k, count):
        value = f.load(kind, f.offset(scores, k, f32))
        value = power_of_two(f, f.add(value, minus) if changed else f.fma(value, factor, minus), dtype)
        if count is not None:
            value = f.select(f.lane_mask(count, lanes), value, zero(kind))
        left = f.select(kept_lanes(f, kept, k, lanes), value, zero(kind)) if variant.drops else value
        return value, rounded_operand(f, left, element)

    def exponentials(k, sums, count=None):
        found = [exponential(f.add(k, n * lanes), count) for n in range(len(sums))]
        for n, (_, stored) in enumerate(found):
            f.store(stored, f.offset(f.offset(scores, k, element), n * lanes * element.bytes))
        return [f.add(sum, value) for sum, (value, _) in zip(sums, found)]

    sums = f.loop(0, whole, step, [zero(kind)] * _AT_ONCE, exponentials)
    sums = f.loop(whole, padded, lanes, [functools.reduce(f.add, sums)],
                  lambda k, sums: exponentials(k, sums, f.sub(limit, k)))
    f.store(f.extract(now, 0), highest)
    f.store(f.add(f.mul(f.load(f32, total), again), f.reduce("add", sums[0])), total)
    f.store(again, correction)
    f.ret()
    return f
