"""Matrix multiplication of one or two bfloat16 rows by int4 weights: rows become integers, then int8 is multiplied.

In each group along k, x is a 23-bit integer times a power of two, given by the group's largest element; it is stored as
three signed 8-bit digits.  The int8 dot instruction multiplies digits by weights q, four at a time; bytes of weights,
which hold two values, are multiplied as they are and then by their high halves alone.
"""

from ..llvm import jit
from ..llvm.types import bf16, f32, i8, i16, i32, vector
from ..llvm.values import constant, zero
from .habits import habits
from .nibbles_words import BLOCK, MIDDLE, SLOTS, pairs
from .units import Units

DIGITS = 3
ROWS = 2          # most
STEP = 4          # along k
DIGIT_SLOTS = ("x", "digits", "depth", "group", "groups", "row_bytes")
POINTERS = ("x", "weight", "scales", "out", "scratch")
_BITS = 22        # of the largest integer, without its sign
_LANES = 16
_BYTES, _WORDS, _FLOATS = vector(i8, 64), vector(i32, _LANES), vector(f32, _LANES)
_BIAS, _LEAST, _MOST = 127, 23, 254  # exponents of floats: what 1 has, the least that is scaled, the last finite one


def row_bytes(depth, groups):
    """Bytes of the digits of a row, followed by the scale and the sum of each group."""
    return -(-(DIGITS * depth + 2 * f32.bytes * groups) // 64) * 64


def digit_kernel():
    """Return the address of the kernel that writes rows of x as digits, one row per work unit."""
    return jit.build("nibble digits", _digit_text, ["digits"])["digits"]


def _digit_text():
    kernel = Units("digits", DIGIT_SLOTS, ("x", "digits"))
    f, s = kernel.f, kernel.s

    def unit(row):
        source = f.offset(s.x, f.mul(row, s.depth), bf16)
        target = f.offset(s.digits, f.mul(row, s.row_bytes))
        further = f.offset(target, f.mul(s.depth, DIGITS))

        def group(number, _):
            first = f.mul(number, s.group)
            floats = lambda at: f.convert(f.load(vector(bf16, _LANES), f.offset(source, f.add(first, at), bf16)), f32)
            largest, total = f.loop(0, s.group, _LANES, [zero(_WORDS), zero(_FLOATS)], lambda at, found: [
                f.maximum(found[0], f.bitcast(f.abs(floats(at)), _WORDS)), f.add(found[1], floats(at))])
            exponent = f.lshr(f.reduce("max", largest), 23)
            finite, exponent = f.compare("<=", exponent, _MOST), f.maximum(f.minimum(exponent, _MOST), _LEAST)
            factor = f.bitcast(f.shl(f.sub(_BITS - 1 + 2 * _BIAS, exponent), 23), f32)
            scale = f.bitcast(f.shl(f.sub(exponent, _BITS - 1), 23), f32)
            place = f.offset(further, f.mul(number, 2), f32)
            f.store(f.select(finite, scale, float("nan")), place)
            f.store(f.reduce("add", total), f.offset(place, 1, f32))

            def write(at, _):
                # digits of a group that is not finite are 0: its scale is NaN
                scaled = f.mul(f.select(finite, floats(at), 0.0), f.splat(factor, _LANES))
                whole = f.convert(f.rint(scaled), i32)
                for digit in range(DIGITS):
                    here = f.offset(target, f.add(f.mul(s.depth, digit), f.add(first, at)))
                    f.store(f.cast("trunc", whole, vector(i8, _LANES)), here, align=1)
                    whole = f.ashr(f.add(whole, 128), 8)

            f.loop(0, s.group, _LANES, [], write)

        f.loop(0, s.groups, 1, [], group)

    return kernel.text(unit)


def product_kernel(rows, blocks):
    """Return the address of the kernel that computes `blocks` blocks of 64 columns per work unit, for `rows` rows of
    digits in "scratch"."""
    far = habits().far
    return jit.build(f"nibbles by digits {rows} {blocks} {far}", lambda: _text(rows, blocks, far),
                     ["nibbles"])["nibbles"]


def _text(rows, blocks, far):
    kernel = Units("nibbles", SLOTS, POINTERS)
    return kernel.text(_Blocks(kernel.f, kernel.s, rows, blocks, far).unit)


# weights of columns are stored as words of two k; their pairs become words of four, in the order that puts columns into
# lanes from the first to the last
_PAIRED = [column + 32 * k for lane in range(4) for high in (0, 16) for column in range(high + 4 * lane,
                                                                                        high + 4 * lane + 4)
           for k in range(2)]
_LOW, _HIGH = ([8 * lane + at + 32 * side for lane in range(4) for at in range(start, start + 4) for side in range(2)]
               for start in (0, 4))


class _Blocks:
    """Emits some blocks of columns: for each of them and each row, vectors of columns 0-15, 16-31, 32-47, 48-63.
    Several blocks are several sequential reads, which the CPU prefetches each.  ``far``: the distance in bytes at which
    weights are prefetched."""

    def __init__(self, f, s, rows, blocks, far):
        self.f, self.s, self.rows, self.blocks, self.far = f, s, rows, blocks, far
        self.totals = f.alloca(_FLOATS, 4 * rows * blocks)

    def unit(self, number):
        f, s = self.f, self.s
        first_block = f.add(f.mul(number, self.blocks), s.first)
        columns = [f.mul(f.add(first_block, n), BLOCK) for n in range(self.blocks)]
        weights = [f.offset(s.weight, f.div(f.mul(column, s.depth), 2)) for column in columns]
        for k in range(4 * self.rows * self.blocks):
            f.store(zero(_FLOATS), self.total(k))

        def group(g, _):
            lines = [f.offset(s.scales, f.mul(f.add(f.mul(g, s.columns), column), 4)) for column in columns]
            for at in range(4 * BLOCK, 4 * BLOCK * (self.blocks + 1), 64):  # of the next blocks, in other pages
                f.prefetch(f.offset(lines[-1], at), locality=2)
            first = f.mul(g, s.group)
            count = 4 * DIGITS * self.rows

            def step(k, sums):
                xs = self.digits(k)
                return [one for n, weight in enumerate(weights)
                        for one in self.products(weight, k, xs, sums[n * count:(n + 1) * count])]

            sums = f.loop(first, f.add(first, s.group), STEP, [zero(_WORDS)] * (count * self.blocks), step)
            for n, line in enumerate(lines):
                self.scale(g, line, sums[n * count:(n + 1) * count], 4 * self.rows * n)

        f.loop(0, s.groups, 1, [], group)
        for n, column in enumerate(columns):
            for r in range(self.rows):
                place = f.offset(s.out, f.add(f.mul(s.columns, r), column), f32)
                for j in range(4):
                    total = f.load(_FLOATS, self.total(4 * (self.rows * n + r) + j))
                    f.store(total, f.offset(place, j * _LANES, f32), align=4)

    def total(self, k):
        return self.f.offset(self.totals, k * _FLOATS.bytes)

    def row(self, r):
        return self.f.offset(self.s.scratch, self.f.mul(self.s.scratch_bytes, r))

    def digits(self, k):
        """Words of four steps along k, of each row and digit."""
        f, s = self.f, self.s
        return [f.splat(f.load(i32, f.offset(f.offset(self.row(r), f.mul(s.depth, digit)), k), align=1), _LANES)
                for r in range(self.rows) for digit in range(DIGITS)]

    def products(self, weight, k, xs, sums):
        """The sums of a block with four steps along k: for each of `xs`, of two vectors of bytes, then of their high
        halves."""
        f = self.f
        place = f.offset(weight, f.mul(k, BLOCK // 2))
        for line in range(2):
            f.prefetch(f.offset(place, self.far + 64 * line), locality=2)
        words = [f.bitcast(f.shuffle(f.load(_BYTES, f.offset(place, 64 * line), align=1), None, _PAIRED),
                           vector(i16, 32)) for line in range(2)]
        both = [f.shuffle(*words, order) for order in (_LOW, _HIGH)]
        parts = [f.bitcast(part, _WORDS) for part in (*both, *(f.and_(f.lshr(part, 4), 0x0F0F) for part in both))]
        pairs = [(x, part) for x in xs for part in parts]
        return [f.call("llvm.x86.avx512.vpdpbusd.512", [sum_, part, x], _WORDS)
                for sum_, (x, part) in zip(sums, pairs)]

    def scale(self, g, line, sums, at):
        """Add a group's sums of a block, scaled, to its totals from index `at` on."""
        f, s = self.f, self.s
        factors = [pairs(f, bf16, f.offset(line, 4 * _LANES * j), _LANES) for j in range(4)]
        for r in range(self.rows):
            place = f.offset(f.offset(self.row(r), f.mul(s.depth, DIGITS)), f.mul(g, 2), f32)
            own, given = (f.splat(f.load(f32, f.offset(place, k, f32)), _LANES) for k in range(2))
            values = [None] * 4
            for digit in reversed(range(DIGITS)):
                *both, third, fourth = sums[(r * DIGITS + digit) * 4:(r * DIGITS + digit + 1) * 4]
                low = [f.sub(one, f.shl(high, 4)) for one, high in zip(both, (third, fourth))]
                for j, part in enumerate((*low, third, fourth)):
                    part = f.convert(part, f32)
                    values[j] = part if values[j] is None else f.fma(values[j], constant(_FLOATS, 256.0), part)
            for j, (value, (scale, shift)) in enumerate(zip(values, factors)):
                value = f.sub(f.mul(value, own), f.mul(given, constant(_FLOATS, float(MIDDLE))))
                total = f.fma(scale, value, f.load(_FLOATS, self.total(at + 4 * r + j)))
                f.store(f.fma(shift, given, total), self.total(at + 4 * r + j))
