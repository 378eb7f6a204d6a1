"""Singular values and vectors by rotations of pairs of columns until all are orthogonal (Hestenes 1958, one-sided
Jacobi).

The columns of the matrix, or of its transpose if it is wide, are stored as rows of full vectors, scaled by a power of
two.  Consecutive pairs share no column, so that none has to wait for the one before.
"""

from ..llvm import jit
from ..llvm.types import f64, i64
from ..llvm.values import constant, zero
from .groups import Groups
from .rows import report

SLOTS = ("source", "u", "values", "vh", "flag", "scratch", "rows", "columns", "count", "length", "column_step",
         "row_step", "wide", "turned_wide", "failure",
         "turned_at", "sizes_at", "order_at", "scratch_bytes")
POINTERS = ("source", "u", "values", "vh", "flag", "scratch")
MOST_SWEEPS = 40  # over all pairs; six to eight are usual
EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52}


def singular_kernel(dtype, group, with_vectors):
    """Return the address of the kernel that decomposes a matrix per work unit."""
    return jit.build(f"singular {dtype} {group} {with_vectors}",
                     lambda: _Matrix.text("singular", SLOTS, POINTERS, dtype, group, with_vectors),
                     ["singular"])["singular"]


class _Matrix(Groups):
    """Emits the decomposition of one matrix, of `count` columns of `length` elements."""

    def __init__(self, f, dtype, lanes, group, with_vectors, named):
        super().__init__(f, dtype, lanes, group)
        self.with_vectors, self.s, self.count, self.length, self.wide = with_vectors, named, named["count"], named[
            "length"], named["wide"]
        # the square of a cosine that is taken for zero
        self.negligible = f.mul(f.convert(self.length, f64), EPSILON[dtype] ** 2)
        self.least = None  # the square of the length of a column that is taken for rounding

    def matrix(self, unit):
        f, s = self.f, self.s
        self.turned, self.sizes, self.order = (f.offset(self.here, s[f"{name}_at"])
                                               for name in ("turned", "sizes", "order"))
        self.source = f.offset(s["source"], f.mul(unit, f.mul(s["rows"], s["columns"])), self.element)
        self.values = f.offset(s["values"], f.mul(unit, self.count), self.element)
        self.u = f.offset(s["u"], f.mul(unit, f.mul(s["rows"], self.count)), self.element)
        self.vh = f.offset(s["vh"], f.mul(unit, f.mul(self.count, s["columns"])), self.element)
        finite, scale = self.taken()
        f.when(finite, lambda: self.decomposed(scale, unit), lambda: self.refused(unit))

    def refused(self, unit):
        """Fill the results of a matrix that is not finite with NaN, and report the failure."""
        f = self.f
        self.rows.filled(self.values, self.count, float("nan"))
        if self.with_vectors:
            self.rows.filled(self.u, f.mul(self.s["rows"], self.count), float("nan"))
            self.rows.filled(self.vh, f.mul(self.count, self.s["columns"]), float("nan"))
        report(f, self.s["flag"], self.s["failure"], unit, self.count)

    def decomposed(self, scale, unit):
        f = self.f
        if self.with_vectors:
            f.fill_bytes(self.turned, 0, f.mul(f.mul(self.count, self.s["turned_wide"]), self.element.bytes))
            f.loop(0, self.count, 1, [],
                   lambda i, _: f.store(constant(self.element, 1.0), f.offset(self.rotation(i), i, self.element)))

        def sweep(state):
            self.least = self.noise()
            rotated, = f.loop(0, self.rounds(), 1, [constant(i64, 0)], lambda r, now: self.round(r, now))
            return [f.add(state[0], 1), rotated]

        start = [constant(i64, 0), constant(i64, 1)]
        _, left = f.while_loop(start, lambda state: f.and_(f.compare("<", state[0], MOST_SWEEPS),
                                                           f.compare("!=", state[1], 0)), sweep)
        f.loop(0, self.count, 1, [], lambda i, _: self.put(f.sqrt(self.product(i, i)), self.sizes, i))
        self.least = self.noise()
        self.sorted(self.sizes, self.order, self.count, descending=True)
        self.written(scale)
        report(f, self.s["flag"], self.s["failure"], unit, left)

    # -- addresses -----------------------------------------------------------------------------------------------------

    def column(self, i):
        return self.f.offset(self.here, self.f.mul(i, self.wide), self.element)

    def rotation(self, i):
        """Coefficients of column i in terms of the input columns."""
        return self.f.offset(self.turned, self.f.mul(i, self.s["turned_wide"]), self.element)

    def product(self, i, j):
        """The inner product of two columns."""
        one, other = self.column(i), self.column(j)

        def some(first, sums):
            return [self.f.fma(x, y, total) for x, y, total in zip(self.load(one, first), self.load(other, first),
                                                                   sums)]

        return self.f.convert(self.summed(self.each(0, self.wide, [zero(self.kind)] * self.group, some)), f64)

    def taken(self):
        """Load and scale the columns; return (True if all of them are finite, the divisor)."""
        f, s = self.f, self.s
        f.fill_bytes(self.here, 0, f.mul(f.mul(self.count, self.wide), self.element.bytes))

        def column(i, now):
            start, target = f.offset(self.source, f.mul(i, s["column_step"]), self.element), self.column(i)

            def one(j, most):
                value = f.load(self.element, f.offset(start, f.mul(j, s["row_step"]), self.element))
                f.store(value, f.offset(target, j, self.element))
                return [f.maximum(most[0], f.abs(value))]

            return f.loop(0, self.length, 1, now, one)

        most, = f.loop(0, self.count, 1, [constant(self.element, 0.0)], column)
        power = self.power(most)
        factor = f.splat(f.div(constant(self.element, 1.0), power), self.lanes)

        def scaled(i, _):
            row = self.column(i)
            self.each(0, self.wide, [], lambda first, _: self.store([f.mul(x, factor) for x in self.load(row, first)],
                                                                    row, first))

        f.loop(0, self.count, 1, [], scaled)
        return f.compare("<", most, float("inf")), f.convert(power, f64)

    def noise(self):
        """The square of the rounding error that may remain of a linearly dependent column."""
        f = self.f
        longest, = f.loop(0, self.count, 1, [constant(f64, 0.0)],
                          lambda i, now: [f.maximum(now[0], self.product(i, i))])
        return f.mul(f.mul(self.negligible, 4.0), longest)

    # -- rotations -----------------------------------------------------------------------------------------------------

    def rounds(self):
        """Number of rounds in which each column meets another one: as in a round-robin tournament."""
        return self.f.or_(self.f.sub(self.count, 1), 1)

    def round(self, r, rotated):
        """One round of pairs, by the circle method: the last column is fixed, the others rotate."""
        f = self.f
        last = self.rounds()

        def pair(i, now):
            up, down = f.add(r, i), f.sub(r, i)
            up = f.select(f.compare(">=", up, last), f.sub(up, last), up)
            down = f.select(f.compare("<", down, 0), f.add(down, last), down)
            up = f.select(f.compare("==", i, 0), last, up)
            there = f.compare("<", f.maximum(up, down), self.count)  # for an odd count one column has no partner
            return f.when(there, lambda: [f.or_(now[0], self.met(f.minimum(up, down), f.maximum(up, down)))],
                          lambda: now)

        return f.loop(0, f.add(f.lshr(last, 1), 1), 1, rotated, pair)

    def met(self, i, j):
        """Make two columns orthogonal; return 1, or 0 if they were."""
        f = self.f
        a, b, along = self.product(i, i), self.product(j, j), self.product(i, j)
        much = f.compare(">", f.mul(along, along), f.mul(self.negligible, f.mul(a, b)))
        much = f.and_(much, f.compare(">", f.minimum(a, b), self.least))

        def rotate():
            zeta = f.div(f.sub(b, a), f.mul(along, 2.0))
            root = f.sqrt(f.fma(zeta, zeta, constant(f64, 1.0)))
            t = f.intrinsic("llvm.copysign", f64, [f.div(constant(f64, 1.0), f.add(f.abs(zeta), root)), zeta])
            c = f.div(constant(f64, 1.0), f.sqrt(f.fma(t, t, constant(f64, 1.0))))
            s = f.mul(c, t)
            self.rotate(self.column(i), self.column(j), s, c, self.wide)
            if self.with_vectors:
                self.rotate(self.rotation(i), self.rotation(j), s, c, self.s["turned_wide"])
            return [constant(i64, 1)]

        return f.when(much, rotate, lambda: [constant(i64, 0)])[0]

    # -- back to memory ------------------------------------------------------------------------------------------------

    def written(self, scale):
        """Write the sorted singular values, and their vectors."""
        f, s = self.f, self.s

        def value(k, _):
            which = f.load(i64, f.offset(self.order, k, i64))
            f.store(f.convert(f.mul(self.number(self.sizes, which), scale), self.element),
                    f.offset(self.values, k, self.element))
            if self.with_vectors:
                self.normalise(k, which)

        f.loop(0, self.count, 1, [], value)
        if not self.with_vectors:
            return
        tall = f.compare("==", self.length, s["rows"])
        columns, columns_wide = f.select(tall, self.here, self.turned), f.select(tall, self.wide, s["turned_wide"])
        rows, rows_wide = f.select(tall, self.turned, self.here), f.select(tall, s["turned_wide"], self.wide)
        self.as_columns(columns, columns_wide, self.order, self.u, s["rows"], self.count)
        self.as_rows(rows, rows_wide, self.order, self.vh, self.count, s["columns"])

    def normalise(self, k, which):
        """Normalize column `which`, of singular value k, to a unit vector; replace a zero column by one orthogonal to
        those before."""
        f = self.f
        size = self.number(self.sizes, which)
        f.when(f.compare(">", f.mul(size, size), self.least), lambda: self.divide(which, size),
               lambda: self.complete(k, which))

    def divide(self, which, size):
        f, row = self.f, self.column(which)
        by = f.splat(f.convert(size, self.element), self.lanes)
        self.each(0, self.wide, [], lambda first, _: self.store([f.div(x, by) for x in self.load(row, first)], row,
                                                                first))

    def complete(self, k, which):
        """Find a unit vector that keeps enough of its length when its components along the columns before are
        removed."""
        f, row = self.f, self.column(which)
        enough = f.div(constant(f64, 0.5), f.convert(self.length, f64))

        def tried(state):
            n, _ = state
            f.fill_bytes(row, 0, f.mul(self.wide, self.element.bytes))
            f.store(constant(self.element, 1.0), f.offset(row, n, self.element))
            self.clear(k, which)
            square = self.product(which, which)
            f.when(f.compare(">", square, enough), lambda: self.divide(which, f.sqrt(square)))
            return [f.add(n, 1), square]

        f.while_loop([constant(i64, 0), constant(f64, 0.0)],
                     lambda state: f.and_(f.compare("<", state[0], self.length), f.compare("<=", state[1], enough)),
                     tried)
        self.clear(k, which)
        self.divide(which, f.sqrt(self.product(which, which)))

    def clear(self, k, which):
        """Subtract the components along the first k columns from column `which`."""
        f, row = self.f, self.column(which)

        def one(n, _):
            other = f.load(i64, f.offset(self.order, n, i64))
            less = f.convert(f.neg(self.product(which, other)), self.element)
            source = self.column(other)
            self.each(0, self.wide, [],
                      lambda first, _: self.store(self.more(self.load(row, first), less, self.load(source, first)), row,
                                                  first))

        f.loop(0, k, 1, [], one)
