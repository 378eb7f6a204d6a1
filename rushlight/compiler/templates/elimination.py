"""Gaussian elimination in some neighbouring columns of a matrix: with pivots (LU), and of a positive-definite one (Cholesky).

The columns are read into rows of whole vectors, so that the loops need no masks, and rows far apart in memory do not share a place in the cache.
"""

from ..llvm import jit
from ..llvm.builder import Module, constant, zero
from ..llvm.scalars import STORED
from ..llvm.types import i32, i64, vector
from .blocked import KERNEL, Slots
from .rows import Rows, number_at, report

SLOTS = ("source", "target", "pivots", "info", "flag", "scratch", "rows", "columns", "first", "width", "count", "row", "matrix", "pivot_bytes", "scratch_bytes", "failure")
POINTERS = ("source", "target", "pivots", "info", "flag", "scratch")


def elimination_kernel(dtype, vectors, pivoting):
    """The kernel that eliminates up to so many vectors of columns, a matrix a unit; returns its address."""
    key = f"eliminate {dtype} {vectors} {pivoting}"
    return jit.build(key, lambda: _text(dtype, vectors, pivoting), ["eliminate"])["eliminate"]


def scratch_bytes(rows, vectors, lanes, size):
    """What a worker needs for the columns."""
    return -(-(rows * vectors * lanes * size + 64) // 64) * 64


def _text(dtype, vectors, pivoting):
    module = Module()
    f = module.function("eliminate", KERNEL)
    args, begin, end, worker = f.parameters
    s = Slots(f, args, SLOTS, POINTERS)
    columns = (_Pivoted if pivoting else _Symmetric)(f, STORED[dtype], module.features.lanes(STORED[dtype].bytes), vectors, {name: getattr(s, name) for name in SLOTS})
    columns.here = f.offset(s.scratch, f.mul(worker, s.scratch_bytes))
    f.loop(begin, end, 1, [], lambda unit, _: columns.matrix(unit))
    f.ret()
    return module.text()


class _Columns:
    """Writes the elimination of one matrix; `here` are its columns, rows of `vectors` vectors from row `first` on."""

    def __init__(self, f, element, lanes, vectors, named):
        self.f, self.element, self.lanes, self.vectors, self.s = f, element, lanes, vectors, named
        self.kind, self.wide = vector(element, lanes), vectors * lanes
        self.rows = Rows(f, element, lanes)
        self.height = f.sub(named["rows"], named["first"])

    def at(self, i, j=0):
        """Where an element of the columns lies."""
        return self.f.offset(self.here, self.f.add(self.f.mul(i, self.wide), j), self.element)

    def place(self, base, i, j):
        """Where an element of the whole matrix lies."""
        return self.f.offset(self.f.offset(base, self.f.mul(i, self.s["row"])), j, self.element)

    def matrix(self, unit):
        f, s = self.f, self.s
        self.unit = unit
        self.source, self.target = (f.offset(s[name], f.mul(unit, s["matrix"])) for name in ("source", "target"))
        info = f.offset(s["info"], unit, i32)
        masks = [f.lane_mask(f.sub(s["width"], c * self.lanes), self.lanes) for c in range(self.vectors)]
        f.loop(0, self.height, 1, [], lambda i, _: self.taken(i, masks))
        before, = f.when(f.compare("==", s["first"], 0), lambda: [constant(i64, 0)], lambda: [number_at(f, info, 0)])
        found = self.eliminated(before)
        f.store(f.convert(found, i32), info)
        report(f, s["flag"], s["failure"], unit, found)
        f.loop(0, self.height, 1, [], lambda i, _: self.given(i, masks))
        self.beside()

    def taken(self, i, masks):
        """A row of the columns from the matrix."""
        f, s = self.f, self.s
        start = self.place(self.source, f.add(i, s["first"]), s["first"])
        for c, mask in enumerate(masks):
            f.store(f.load(self.kind, f.offset(start, c * self.lanes, self.element), mask=mask), self.at(i, c * self.lanes))

    def given(self, i, masks):
        """A row of the columns back."""
        f, s = self.f, self.s
        start = self.place(self.target, f.add(i, s["first"]), s["first"])
        for c, mask in enumerate(masks):
            f.store(f.load(self.kind, self.at(i, c * self.lanes)), f.offset(start, c * self.lanes, self.element), mask=mask)

    def steps(self, carried, body):
        """`body(j, c, carried)` for each column j that is eliminated, c being the number of its vector."""
        f, lanes = self.f, self.lanes
        for c in range(self.vectors):
            last = f.minimum(self.s["count"], (c + 1) * lanes)
            carried = f.loop(c * lanes, last, 1, carried, lambda j, now: body(j, c, now))
        return carried

    def after(self, j, c):
        """The lanes of vector c behind column j, and the one of j itself."""
        f = self.f
        places, own = f.lane_indices(self.lanes, i32), f.splat(f.convert(f.sub(j, c * self.lanes), i32), self.lanes)
        return f.compare(">", places, own), f.compare("==", places, own)

    def row(self, i, c):
        """The vectors of a row from number c on."""
        return [self.f.load(self.kind, self.at(i, k * self.lanes)) for k in range(c, self.vectors)]

    def reduced(self, i, c, factor, pivot_row, behind, own):
        """A row less the pivot's row times a factor, which takes the place of what it makes zero."""
        f = self.f
        many = f.splat(factor, self.lanes)
        less = f.neg(many)
        for k, (old, u) in enumerate(zip(self.row(i, c), pivot_row), c):
            new = f.fma(less, u, old)
            if k == c:
                new = f.select(own, many, f.select(behind, new, old))
            f.store(new, self.at(i, k * self.lanes))


class _Pivoted(_Columns):
    """With the largest element of each column as its pivot."""

    def largest(self, i, j, best):
        """The larger of what was best and an element of column j: (its size, its row)."""
        f = self.f
        size = f.abs(f.load(self.element, self.at(i, j)))
        better = f.compare(">", size, best[0])
        return [f.select(better, size, best[0]), f.select(better, i, best[1])]

    def eliminated(self, info):
        f = self.f
        self.pivots = f.offset(self.s["pivots"], f.mul(self.unit, self.s["pivot_bytes"]))
        none = constant(self.element, -1.0)
        _, best = f.loop(0, self.height, 1, [none, constant(i64, 0)], lambda i, now: self.largest(i, constant(i64, 0), now))
        return self.steps([best, info], self.column)[1]

    def column(self, j, c, carried):
        f, s = self.f, self.s
        best, info = carried
        f.store(f.convert(f.add(f.add(best, s["first"]), 1), i32), f.offset(self.pivots, f.add(j, s["first"]), i32))
        f.when(f.compare("!=", best, j), lambda: self.rows.exchanged(self.at(j), self.at(best), constant(i64, self.wide)))
        pivot = f.load(self.element, self.at(j, j))
        nothing = f.compare("==", pivot, 0.0)
        info = f.select(f.compare("!=", info, 0), info, f.select(nothing, f.add(f.add(j, s["first"]), 1), constant(i64, 0)))
        divisor = f.select(nothing, constant(self.element, 1.0), pivot)
        behind, own = self.after(j, c)
        pivot_row, following = self.row(j, c), f.add(j, 1)

        def below(i, found):
            factor = f.div(f.load(self.element, self.at(i, j)), divisor)
            self.reduced(i, c, factor, pivot_row, behind, own)
            return self.largest(i, following, found)

        _, best = f.loop(following, self.height, 1, [constant(self.element, -1.0), following], below)
        return [best, info]

    def beside(self):
        """The exchanges in the matrix's other columns."""
        f, s = self.f, self.s
        end = f.add(s["first"], s["width"])

        def exchanged(j, _):
            one, other = f.add(j, s["first"]), f.sub(number_at(f, self.pivots, f.add(j, s["first"])), 1)

            def both():
                self.rows.exchanged(self.place(self.target, one, 0), self.place(self.target, other, 0), s["first"])
                self.rows.exchanged(self.place(self.target, one, end), self.place(self.target, other, end), f.sub(s["columns"], end))

            f.when(f.compare("!=", one, other), both)

        f.when(f.compare("<", s["width"], s["columns"]), lambda: f.loop(0, s["count"], 1, [], exchanged))


class _Symmetric(_Columns):
    """Of a positive-definite matrix, of which the lower triangle is read: the square root of each pivot divides its row and column."""

    def taken(self, i, masks):
        """Rows of the square part end at the diagonal; beyond lies the mirror image of what is below."""
        f, s = self.f, self.s
        start = self.place(self.source, f.add(i, s["first"]), s["first"])

        def inside():
            def one(j, _):
                value = f.load(self.element, f.offset(start, j, self.element))
                f.store(value, self.at(i, j))
                f.store(value, self.at(j, i))

            f.loop(0, f.add(i, 1), 1, [], one)
            f.loop(s["width"], self.wide, 1, [], lambda j, _: f.store(zero(self.element), self.at(i, j)))

        f.when(f.compare("<", i, s["width"]), inside, lambda: _Columns.taken(self, i, masks))

    def eliminated(self, info):
        return self.steps([info], self.column)[0]

    def column(self, j, c, carried):
        f, s = self.f, self.s
        square = f.load(self.element, self.at(j, j))
        good = f.compare(">", square, 0.0)
        here = f.select(good, constant(i64, 0), f.add(f.add(j, s["first"]), 1))
        info = f.select(f.compare("!=", carried[0], 0), carried[0], here)
        root = f.sqrt(square)
        f.store(root, self.at(j, j))
        behind, own = self.after(j, c)
        roots = f.splat(root, self.lanes)
        pivot_row = [f.div(u, roots) for u in self.row(j, c)]

        def below(i, _):
            self.reduced(i, c, f.div(f.load(self.element, self.at(i, j)), root), pivot_row, behind, own)

        f.loop(f.add(j, 1), self.height, 1, [], below)
        return [info]

    def given(self, i, masks):
        """Rows of the square part with zeros behind the diagonal."""
        f, s = self.f, self.s

        def inside():
            row = f.add(i, s["first"])
            start, length = self.place(self.target, row, s["first"]), f.add(i, 1)
            self.rows.copied(self.at(i), start, length)
            self.rows.filled(f.offset(start, length, self.element), f.sub(f.sub(s["columns"], row), 1), 0.0)

        f.when(f.compare("<", i, s["width"]), inside, lambda: _Columns.given(self, i, masks))

    def beside(self):
        """Nothing happens in other columns."""
