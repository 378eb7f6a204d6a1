"""Rows of full vectors in scratch memory, read and written some vectors at once, for decompositions by rotations."""

from ..llvm.values import constant
from ..llvm.scalars import STORED
from ..llvm.types import f64, i32, i64, vector
from .rows import Rows
from .units import Units


class Groups:
    """Emits code for rows of groups of vectors."""

    def __init__(self, f, dtype, lanes, group):
        self.f, self.element, self.lanes, self.group, self.kind = f, STORED[dtype], lanes, group, vector(STORED[dtype],
                                                                                                         lanes)
        self.rows = Rows(f, self.element, lanes)

    @classmethod
    def text(cls, name, slots, pointers, dtype, group, with_vectors):
        """The source of a kernel that decomposes a matrix per work unit: `matrix(unit)` emits it, with `here` as the
        scratch memory of its thread."""
        kernel = Units(name, slots, pointers)
        writer = cls(kernel.f, dtype, kernel.lanes(STORED[dtype]), group, with_vectors, kernel.loaded())
        writer.here = kernel.scratch()
        return kernel.text(writer.matrix)

    def load(self, row, first):
        """The vectors of a group from a row's element `first` on."""
        return [self.f.load(self.kind, self.f.offset(row, self.f.add(first, k * self.lanes), self.element))
                for k in range(self.group)]

    def store(self, values, row, first):
        for k, value in enumerate(values):
            self.f.store(value, self.f.offset(row, self.f.add(first, k * self.lanes), self.element))

    def each(self, start, wide, carried, body):
        """Loop `body(first, carried)` over each group of a row of `wide` elements, from element `start` on."""
        f, step = self.f, self.group * self.lanes
        start = start if isinstance(start, int) else f.mul(f.div(start, step), step)
        return f.loop(start, wide, step, carried, body)

    def more(self, sums, factor, values):
        """Sums plus `factor` times a group of vectors."""
        many = self.f.splat(factor, self.lanes)
        return [self.f.fma(many, value, total) for value, total in zip(values, sums)]

    def summed(self, values):
        """The sum of all elements of a group."""
        total = values[0]
        for value in values[1:]:
            total = self.f.add(total, value)
        return self.f.reduce("add", total)

    def rotate(self, one, other, s, c, wide):
        """Rotate two rows: c one - s other, s one + c other."""
        f = self.f
        s, c = (f.splat(f.convert(x, self.element), self.lanes) for x in (s, c))
        less = f.neg(s)

        def some(first, _):
            x, y = self.load(one, first), self.load(other, first)
            self.store([f.fma(s, a, f.mul(c, b)) for a, b in zip(x, y)], other, first)
            self.store([f.fma(less, b, f.mul(c, a)) for a, b in zip(x, y)], one, first)

        self.each(0, wide, [], some)

    def power(self, most):
        """A power of two near a positive number; 1 for zero."""
        f = self.f
        bits, exponent, least = (i32, 0x7F800000, 2.0**-120) if self.element.bits == 32 else (i64, 0x7FF0000000000000,
                                                                                              2.0**-1000)
        found = f.bitcast(f.and_(f.bitcast(most, bits), exponent), self.element)
        found = f.select(f.compare(">", found, least), found, constant(self.element, least))
        return f.select(f.compare(">", most, 0.0), found, constant(self.element, 1.0))

    # -- arrays of doubles ---------------------------------------------------------------------------------------------

    def number(self, base, k):
        return self.f.load(f64, self.f.offset(base, k, f64))

    def put(self, value, base, k):
        self.f.store(value, self.f.offset(base, k, f64))

    def sorted(self, numbers, order, size, descending=False):
        """Sort numbers by insertion, as an order of indices."""
        f = self.f

        def inserted(i, _):
            value = self.number(numbers, i)

            def before(k):
                return f.load(i64, f.offset(order, f.maximum(f.sub(k, 1), 0), i64))

            def further(state):
                return f.and_(f.compare(">", state[0], 0),
                              f.compare("<" if descending else ">", self.number(numbers, before(state[0])), value))

            def moved(state):
                f.store(before(state[0]), f.offset(order, state[0], i64))
                return [f.sub(state[0], 1)]

            place, = f.while_loop([i], further, moved)
            f.store(i, f.offset(order, place, i64))

        f.loop(0, size, 1, [], inserted)

    def as_columns(self, base, wide, order, target, height, count):
        """Write rows in an order as the columns of a matrix [height, count]."""
        f = self.f

        def row(i, _):
            start, there = f.offset(base, i, self.element), f.offset(target, f.mul(i, count), self.element)

            def some(first, mask):
                which = f.load(vector(i64, self.lanes), f.offset(order, first, i64), mask=mask)
                places = f.offset(start, f.mul(which, f.splat(wide, self.lanes)), self.element)
                f.store(f.gather(self.kind, places, mask), f.offset(there, first, self.element), mask=mask)

            self.rows.each(count, some)

        f.loop(0, height, 1, [], row)

    def as_rows(self, base, wide, order, target, count, length):
        """Write rows in an order as the rows of a matrix [count, length]."""
        f = self.f

        def row(k, _):
            which = f.load(i64, f.offset(order, k, i64))
            self.rows.copied(f.offset(base, f.mul(which, wide), self.element),
                             f.offset(target, f.mul(k, length), self.element), length)

        f.loop(0, count, 1, [], row)
