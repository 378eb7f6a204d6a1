"""Elimination and substitution of complex matrices: the lanes of a row hold interleaved real and imaginary parts, as
memory does.

Rows and columns are counted in complex elements, two lanes each; only the code for single elements differs from the
real kernels.
"""

from ..llvm.types import i1, i32
from ..llvm.values import constant_vector
from .elimination import _Pivoted
from .substitution import _Columns


class Pairs:
    """Emits arithmetic of complex numbers that are interleaved in vectors."""

    def __init__(self, f, element, lanes):
        self.f, self.element, self.lanes = f, element, lanes
        self.swapped = [k ^ 1 for k in range(lanes)]
        self.signs = constant_vector(element, [-1.0, 1.0] * (lanes // 2))
        self.real = constant_vector(i1, [k % 2 == 0 for k in range(lanes)])

    def at(self, place):
        """Load a complex number."""
        f = self.f
        return f.load(self.element, place), f.load(self.element, f.offset(place, 1, self.element))

    def wide(self, number):
        """A complex number in all pairs of lanes."""
        f = self.f
        return f.select(self.real, *(f.splat(part, self.lanes) for part in number))

    def times(self, number, values, total=None):
        """total + number * values, total 0 if none is given: vectors."""
        f = self.f
        real, turned = f.splat(number[0], self.lanes), f.mul(f.splat(number[1], self.lanes), self.signs)
        out = f.mul(real, values) if total is None else f.fma(real, values, total)
        return f.fma(turned, f.shuffle(values, None, self.swapped), out)

    def product(self, x, y):
        """The product of two scalars."""
        f = self.f
        return f.sub(f.mul(x[0], y[0]), f.mul(x[1], y[1])), f.fma(x[0], y[1], f.mul(x[1], y[0]))

    def size(self, number):
        """The size of a number for pivoting: the sum of its parts' absolute values, as in LAPACK."""
        f = self.f
        return f.add(f.abs(number[0]), f.abs(number[1]))

    def inverse(self, number):
        """1 / number, by its larger part first, so that no square overflows."""
        f = self.f
        large = f.maximum(f.abs(number[0]), f.abs(number[1]))
        a, b = (f.div(part, large) for part in number)
        square = f.mul(f.fma(a, a, f.mul(b, b)), large)
        return f.div(a, square), f.neg(f.div(b, square))


class Pivoted(_Pivoted):
    """Elimination with pivoting, all columns at once."""

    def __init__(self, f, element, lanes, *rest):
        super().__init__(f, element, lanes, *rest)
        self.pairs, self.numbers = Pairs(f, element, lanes), lanes // 2

    def masks(self, count):
        return super().masks(self.f.mul(count, 2))

    def element_at(self, i, j):
        return self.pairs.at(self.at(i, self.f.mul(j, 2)))

    def steps(self, carried, body):
        f = self.f
        for c in range(self.vectors):
            last = f.minimum(self.s["count"], (c + 1) * self.numbers)
            carried = f.loop(c * self.numbers, last, 1, carried, lambda j, now: body(j, c, now))
        return carried

    def lanes_of(self, j, c):
        f = self.f
        places, own = constant_vector(i32, [k // 2 for k in range(self.lanes)]), f.splat(
            f.convert(f.sub(j, c * self.numbers), i32), self.lanes)
        return f.compare(">", places, own), f.compare("==", places, own)

    def size(self, number):
        return self.pairs.size(number)

    def dividing(self, pivot):
        f = self.f
        nothing = f.compare("==", self.size(pivot), 0.0)
        inverse = self.pairs.inverse((f.select(nothing, self.number(1.0), pivot[0]), pivot[1]))
        return nothing, lambda number: self.pairs.product(number, inverse)

    def reduced(self, i, c, factor, pivot_row, behind, own):
        f = self.f
        less = [f.neg(part) for part in factor]
        old = self.row(i, c)
        first, *others = [self.pairs.times(less, u, value) for value, u in zip(old, pivot_row)]
        self.put(i, [f.select(own, self.pairs.wide(factor), f.select(behind, first, old[0])), *others], c)

    def beside(self):
        """Do nothing: there are no other columns."""


class Substituted(_Columns):
    """Triangular systems; columns of right-hand sides are counted in lanes."""

    def __init__(self, f, element, lanes, *rest):
        super().__init__(f, element, lanes, *rest)
        self.pairs = Pairs(f, element, lanes)

    def factor(self, i, j):
        f, s = self.f, self.s
        return self.pairs.at(f.offset(f.offset(self.a, f.mul(i, s["a_row"])), f.mul(j, s["a_column"])))

    def less(self, sums, factor, row):
        less = [self.f.neg(part) for part in factor]
        return [self.pairs.times(less, x, total) for x, total in zip(row, sums)]

    def divided(self, sums, divisor):
        inverse = self.pairs.inverse(divisor)
        return [self.pairs.times(inverse, value) for value in sums]
