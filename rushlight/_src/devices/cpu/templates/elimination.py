"""Gaussian elimination in some adjacent columns of a matrix: with pivoting (LU), and of a positive-definite one
(Cholesky)."""

from ..llvm import jit
from ..llvm.values import constant, zero
from ..llvm.scalars import STORED
from ..llvm.types import i32, i64
from .columns import Columns
from .rows import number_at, report
from .units import Units

SLOTS = ("source", "target", "pivots", "info", "flag", "scratch", "rows", "columns", "first", "width", "count", "row",
         "matrix", "pivot_bytes", "scratch_bytes", "failure")
POINTERS = ("source", "target", "pivots", "info", "flag", "scratch")


def elimination_kernel(dtype, vectors, pivoting, pairs=False):
    """Return the address of the kernel that eliminates up to `vectors` vectors of columns, a matrix per work unit; of
    complex matrices if ``pairs``."""
    key = f"eliminate {dtype} {vectors} {pivoting} {pairs}"
    return jit.build(key, lambda: _text(dtype, vectors, pivoting, pairs), ["eliminate"])["eliminate"]


def _text(dtype, vectors, pivoting, pairs):
    from .paired import Pivoted

    kernel = Units("eliminate", SLOTS, POINTERS)
    columns = (Pivoted if pairs else _Pivoted if pivoting else _Symmetric)(kernel.f, STORED[dtype],
                                                                           kernel.lanes(STORED[dtype]), vectors,
                                                                           kernel.loaded())
    columns.here = kernel.scratch()
    return kernel.text(columns.matrix)


class _Elimination(Columns):
    """Emits the elimination of one matrix."""

    def matrix(self, unit):
        f, s = self.f, self.s
        self.unit = unit
        self.source, self.target = (f.offset(s[name], f.mul(unit, s["matrix"])) for name in ("source", "target"))
        info = f.offset(s["info"], unit, i32)
        masks = self.masks(s["width"])
        f.loop(0, self.height, 1, [], lambda i, _: self.taken(i, masks))
        before, = f.when(f.compare("==", s["first"], 0), lambda: [constant(i64, 0)], lambda: [number_at(f, info, 0)])
        found = self.eliminated(before)
        f.store(f.convert(found, i32), info)
        report(f, s["flag"], s["failure"], unit, found)
        f.loop(0, self.height, 1, [], lambda i, _: self.given(i, masks))
        self.beside()

    def reduced(self, i, c, factor, pivot_row, behind, own):
        """Subtract the pivot's row times a factor from a row; the factor replaces the eliminated element."""
        f = self.f
        many = f.splat(factor, self.lanes)
        less = f.neg(many)
        old = self.row(i, c)
        first, *others = [f.fma(less, u, value) for value, u in zip(old, pivot_row)]
        self.put(i, [f.select(own, many, f.select(behind, first, old[0])), *others], c)


class _Pivoted(_Elimination):
    """With the largest element of each column as its pivot."""

    def largest(self, i, j, best):
        """The larger of the best candidate and an element of column j: (its size, its row)."""
        f = self.f
        size = self.size(self.element_at(i, j))
        better = f.compare(">", size, best[0])
        return [f.select(better, size, best[0]), f.select(better, i, best[1])]

    def size(self, element):
        """The size of an element for pivoting."""
        return self.f.abs(element)

    def dividing(self, pivot):
        """Return (True if a pivot is zero, a function that divides by it, or by 1 if it is zero)."""
        f = self.f
        nothing = f.compare("==", pivot, 0.0)
        divisor = f.select(nothing, self.number(1.0), pivot)
        return nothing, lambda element: f.div(element, divisor)

    def eliminated(self, info):
        f = self.f
        self.pivots = f.offset(self.s["pivots"], f.mul(self.unit, self.s["pivot_bytes"]))
        none = self.number(-1.0)
        _, best = f.loop(0, self.height, 1, [none, constant(i64, 0)],
                         lambda i, now: self.largest(i, constant(i64, 0), now))
        return self.steps([best, info], self.column)[1]

    def column(self, j, c, carried):
        f, s = self.f, self.s
        best, info = carried
        f.store(f.convert(f.add(f.add(best, s["first"]), 1), i32), f.offset(self.pivots, f.add(j, s["first"]), i32))
        f.when(f.compare("!=", best, j),
               lambda: self.rows.exchanged(self.at(j), self.at(best), constant(i64, self.wide)))
        nothing, divided = self.dividing(self.element_at(j, j))
        info = f.select(f.compare("!=", info, 0), info,
                        f.select(nothing, f.add(f.add(j, s["first"]), 1), constant(i64, 0)))
        behind, own = self.lanes_of(j, c)
        pivot_row, following = self.row(j, c), f.add(j, 1)

        def below(i, found):
            self.reduced(i, c, divided(self.element_at(i, j)), pivot_row, behind, own)
            return self.largest(i, following, found)

        _, best = f.loop(following, self.height, 1, [self.number(-1.0), following], below)
        return [best, info]

    def beside(self):
        """Apply the row interchanges to the matrix's other columns."""
        f, s = self.f, self.s
        end = f.add(s["first"], s["width"])

        def exchanged(j, _):
            one, other = f.add(j, s["first"]), f.sub(number_at(f, self.pivots, f.add(j, s["first"])), 1)

            def both():
                self.rows.exchanged(self.place(self.target, one, 0), self.place(self.target, other, 0), s["first"])
                self.rows.exchanged(self.place(self.target, one, end), self.place(self.target, other, end),
                                    f.sub(s["columns"], end))

            f.when(f.compare("!=", one, other), both)

        f.when(f.compare("<", s["width"], s["columns"]), lambda: f.loop(0, s["count"], 1, [], exchanged))


class _Symmetric(_Elimination):
    """Cholesky elimination of a positive-definite matrix, from its lower triangle: the square root of each pivot
    divides its row and column."""

    def taken(self, i, masks):
        """Copy rows of the square part up to the diagonal, and mirror what is below it."""
        f, s = self.f, self.s
        start = self.place(self.source, f.add(i, s["first"]), s["first"])

        def inside():
            def one(j, _):
                value = f.load(self.element, f.offset(start, j, self.element))
                f.store(value, self.at(i, j))
                f.store(value, self.at(j, i))

            f.loop(0, f.add(i, 1), 1, [], one)
            f.loop(s["width"], self.wide, 1, [], lambda j, _: f.store(zero(self.element), self.at(i, j)))

        f.when(f.compare("<", i, s["width"]), inside, lambda: Columns.taken(self, i, masks))

    def eliminated(self, info):
        return self.steps([info], self.column)[0]

    def column(self, j, c, carried):
        f, s = self.f, self.s
        square = self.element_at(j, j)
        good = f.compare(">", square, 0.0)
        here = f.select(good, constant(i64, 0), f.add(f.add(j, s["first"]), 1))
        info = f.select(f.compare("!=", carried[0], 0), carried[0], here)
        root = f.sqrt(square)
        f.store(root, self.at(j, j))
        behind, own = self.lanes_of(j, c)
        roots = f.splat(root, self.lanes)
        pivot_row = [f.div(u, roots) for u in self.row(j, c)]

        def below(i, _):
            self.reduced(i, c, f.div(self.element_at(i, j), root), pivot_row, behind, own)

        f.loop(f.add(j, 1), self.height, 1, [], below)
        return [info]

    def given(self, i, masks):
        """Copy back rows of the square part with zeros after the diagonal."""
        f, s = self.f, self.s

        def inside():
            row = f.add(i, s["first"])
            start, length = self.place(self.target, row, s["first"]), f.add(i, 1)
            self.rows.copied(self.at(i), start, length)
            self.rows.filled(f.offset(start, length, self.element), f.sub(f.sub(s["columns"], row), 1), 0.0)

        f.when(f.compare("<", i, s["width"]), inside, lambda: Columns.given(self, i, masks))

    def beside(self):
        """Do nothing: other columns are unchanged."""
