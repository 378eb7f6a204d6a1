"""Householder reflectors of some adjacent columns of a matrix: Q = H_1 H_2 ..., H = I - tau v v^T, as I - V T V^T
(Schreiber & Van Loan 1989)."""

from ..llvm import jit
from ..llvm.values import constant, zero
from ..llvm.scalars import STORED
from ..llvm.types import f64, i64
from .columns import Columns
from .rows import Rows
from .units import Units

SLOTS = ("source", "target", "vectors", "scales", "joined", "scratch", "rows", "first", "width", "count", "row",
         "matrix", "vectors_row", "vectors_matrix",
         "scales_bytes", "joined_bytes", "along_at", "scratch_bytes")
POINTERS = ("source", "target", "vectors", "scales", "joined", "scratch")
LEAST, MOST = 1e-290, 1e290  # squares of a norm between which nothing was lost


def reflection_kernel(dtype, vectors):
    """Return the address of the kernel that factors up to `vectors` vectors of columns, a matrix per work unit.

    "target" gets the columns as LAPACK has them, "vectors" those of V with their zeros and ones, "scales" tau, "joined"
    the transpose of T.
    """
    return jit.build(f"reflect {dtype} {vectors}", lambda: _text(dtype, vectors), ["reflect"])["reflect"]


def _text(dtype, vectors):
    kernel = Units("reflect", SLOTS, POINTERS)
    columns = _Reflection(kernel.f, STORED[dtype], kernel.lanes(STORED[dtype]), vectors, kernel.loaded())
    columns.here = kernel.scratch()
    columns.along = kernel.f.offset(columns.here, columns.s["along_at"])
    return kernel.text(columns.matrix)


class _Reflection(Columns):
    """Emits the reflectors of one matrix; `along` holds the inner products of a reflector with those before."""

    def matrix(self, unit):
        f, s = self.f, self.s
        self.source, self.target = (f.offset(s[name], f.mul(unit, s["matrix"])) for name in ("source", "target"))
        self.scales = f.offset(f.offset(s["scales"], f.mul(unit, s["scales_bytes"])), s["first"], self.element)
        self.joined = f.offset(s["joined"], f.mul(unit, s["joined_bytes"]))
        self.v = f.offset(f.offset(s["vectors"], f.mul(unit, s["vectors_matrix"])), s["first"], self.element)
        masks, own = self.masks(s["width"]), self.masks(s["count"])
        f.loop(0, self.height, 1, [], lambda i, _: self.taken(i, masks))
        start, = f.loop(1, self.height, 1, [constant(f64, 0.0)],
                        lambda i, now: [self.squared(i, constant(i64, 0), now[0])])
        self.steps([start], self.column)
        f.loop(0, self.height, 1, [], lambda i, _: self.written(i, masks, own))

    def squared(self, i, j, total):
        """A sum of squares, in double precision, plus one more."""
        value = self.f.convert(self.element_at(i, j), f64)
        return self.f.fma(value, value, total)

    def column(self, j, c, carried):
        """Apply the reflector of column j to it and all columns after it."""
        f = self.f
        beta, tau, divisor = self.reflector(j, carried[0])
        behind, own = self.lanes_of(j, c)
        following = f.add(j, 1)

        def down(i, sums):
            row, v = self.row(i), f.div(self.element_at(i, j), divisor)
            f.store(v, self.at(i, j))
            many = f.splat(v, self.lanes)
            return [f.fma(many, x, total) for x, total in zip(row, sums)]

        head = self.row(j)
        sums = f.loop(following, self.height, 1, head, down)
        many = f.splat(tau, self.lanes)
        less = [f.mul(many, total) for total in sums]
        changed = [f.sub(x, y) for x, y in zip(head, less)]
        changed[c] = f.select(own, f.splat(beta, self.lanes), f.select(behind, changed[c], head[c]))
        self.put(j, changed[c:], c)
        f.store(tau, f.offset(self.scales, j, self.element))
        self.join(j, tau, sums)

        def up(i, total):
            row, v = self.row(i, c), f.neg(f.splat(self.element_at(i, j), self.lanes))
            first, *others = [f.fma(v, y, x) for x, y in zip(row, less[c:])]
            self.put(i, [f.select(behind, first, row[0]), *others], c)
            return [f.select(f.compare(">", i, following), self.squared(i, following, total[0]), total[0])]

        return f.loop(following, self.height, 1, [constant(f64, 0.0)], up)

    def reflector(self, j, below):
        """Return (the new first element, tau, the divisor of the other elements, infinity if they are zero)."""
        f = self.f
        alpha = f.convert(self.element_at(j, j), f64)
        square = f.fma(alpha, alpha, below)
        good = f.and_(f.compare(">", square, LEAST), f.compare("<", square, MOST))
        norm, rest = f.when(good, lambda: [f.sqrt(square), below], lambda: self.careful(j))
        any_below = f.compare("!=", rest, 0.0)
        beta = f.neg(f.intrinsic("llvm.copysign", f64, [norm, alpha]))
        found = [f.select(any_below, x, y)
                 for x, y in ((beta, alpha), (f.div(f.sub(beta, alpha), beta), constant(f64, 0.0)),
                              (f.sub(alpha, beta), constant(f64, float("inf"))))]
        return [f.convert(x, self.element) for x in found]

    def careful(self, j):
        """The norm of a column of very large or very small numbers, and the largest below the first."""
        f = self.f

        def larger(i, now):
            return [f.maximum(now[0], f.convert(f.abs(self.element_at(i, j)), f64))]

        rest, = f.loop(f.add(j, 1), self.height, 1, [constant(f64, 0.0)], larger)
        most = f.maximum(rest, f.abs(f.convert(self.element_at(j, j), f64)))
        unit = f.select(f.compare(">", most, 0.0), most, constant(f64, 1.0))

        def summed(i, now):
            part = f.div(f.convert(self.element_at(i, j), f64), unit)
            return [f.fma(part, part, now[0])]

        total, = f.loop(j, self.height, 1, [constant(f64, 0.0)], summed)
        return [f.mul(unit, f.sqrt(total)), rest]

    def join(self, j, tau, along):
        """Compute row j of T's transpose: tau, and before it the combination with earlier reflectors."""
        f = self.f
        for k, value in enumerate(along):
            f.store(value, f.offset(self.along, k * self.lanes, self.element))

        def place(row, k=0):
            return f.offset(self.joined, f.add(f.mul(row, self.wide), k * self.lanes), self.element)

        def through(row, sums):
            part = f.splat(f.load(self.element, f.offset(self.along, row, self.element)), self.lanes)
            return [f.fma(part, f.load(self.kind, place(row, k)), total) for k, total in enumerate(sums)]

        sums = f.loop(0, j, 1, [zero(self.kind)] * self.vectors, through)
        less = f.splat(f.neg(tau), self.lanes)
        for k, total in enumerate(sums):
            f.store(f.mul(less, total), place(j, k))
        f.store(tau, f.offset(place(j), j, self.element))

    def written(self, i, masks, own):
        """Write a row of the columns, and of V."""
        f, s = self.f, self.s
        self.given(i, masks)
        start = f.offset(self.v, f.mul(f.add(i, s["first"]), s["vectors_row"]))
        for k, (value, mask) in enumerate(zip(self.row(i), own)):
            behind, here = self.lanes_of(i, k)
            value = f.select(here, constant(self.kind, 1.0), f.select(behind, zero(self.kind), value))
            f.store(value, f.offset(start, k * self.lanes, self.element), mask=mask)


UPPER_SLOTS = ("source", "target", "rows", "columns", "source_matrix", "target_matrix", "row")


def upper_kernel(dtype):
    """Return the address of the kernel that copies upper triangles, with zeros below, a matrix per work unit."""
    return jit.build(f"upper {dtype}", lambda: _upper_text(dtype), ["upper"])["upper"]


def _upper_text(dtype):
    kernel, element = Units("upper", UPPER_SLOTS, ("source", "target")), STORED[dtype]
    f, named = kernel.f, kernel.loaded()
    rows = Rows(f, element, kernel.lanes(element))

    def matrix(unit):
        source, target = (f.offset(named[name], f.mul(unit, named[name + "_matrix"])) for name in ("source", "target"))

        def row(i, _):
            zeros = f.minimum(i, named["columns"])
            there = f.offset(target, f.mul(i, named["row"]))
            rows.filled(there, zeros, 0.0)
            here = f.offset(source, f.mul(i, named["row"]))
            rows.copied(f.offset(here, zeros, element), f.offset(there, zeros, element), f.sub(named["columns"], zeros))

        f.loop(0, named["rows"], 1, [], row)

    return kernel.text(matrix)
