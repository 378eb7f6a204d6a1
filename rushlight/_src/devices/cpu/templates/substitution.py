"""Triangular systems by substitution: several right-hand sides in the lanes, several rows at once.

One kernel serves lower and upper triangles: of an upper one it begins at the last row and walks backwards, by negative
strides.
"""

from ..llvm import jit
from ..llvm.scalars import STORED
from ..llvm.types import vector
from .units import Units

ROWS = 4  # at once, so that sums do not wait for each other
SLOTS = ("a", "x", "size", "columns", "blocks", "a_matrix", "a_row", "a_column", "x_matrix", "x_row")
POINTERS = ("a", "x")


def substitution_kernel(dtype, vectors, unit, pairs=False):
    """Return the address of the kernel that solves in place, `vectors` vectors of columns per work unit; strides are in
    bytes; of complex matrices if ``pairs``."""
    return jit.build(f"substitute {dtype} {vectors} {unit} {pairs}", lambda: _text(dtype, vectors, unit, pairs),
                     ["substitute"])["substitute"]


def _text(dtype, vectors, unit, pairs):
    from .paired import Substituted

    kernel = Units("substitute", SLOTS, POINTERS)
    writer = (Substituted if pairs else _Columns)(kernel.f, STORED[dtype], kernel.lanes(STORED[dtype]), vectors, unit,
                                                  kernel.loaded())
    return kernel.text(writer.block)


class _Columns:
    """Emits the solution of one block of columns."""

    def __init__(self, f, element, lanes, vectors, unit, named):
        self.f, self.element, self.lanes, self.vectors, self.unit, self.s = f, element, lanes, vectors, unit, named
        self.kind = vector(element, lanes)

    def block(self, at):
        f, s = self.f, self.s
        matrix = f.div(at, s["blocks"])
        column = f.mul(f.sub(at, f.mul(matrix, s["blocks"])), self.vectors * self.lanes)
        self.a = f.offset(s["a"], f.mul(matrix, s["a_matrix"]))
        self.x = f.offset(f.offset(s["x"], f.mul(matrix, s["x_matrix"])), column, self.element)
        left = f.sub(s["columns"], column)
        self.masks = [f.lane_mask(f.sub(left, k * self.lanes), self.lanes) for k in range(self.vectors)]
        whole = f.and_(s["size"], -ROWS)
        f.loop(0, whole, ROWS, [], lambda i, _: self.some(i, ROWS))
        f.loop(whole, s["size"], 1, [], lambda i, _: self.some(i, 1))

    def row(self, i):
        return self.f.offset(self.x, self.f.mul(i, self.s["x_row"]))

    def load(self, row):
        f = self.f
        return [f.load(self.kind, f.offset(row, k * self.lanes, self.element), mask=mask)
                for k, mask in enumerate(self.masks)]

    def factor(self, i, j):
        """An element of the triangle."""
        f, s = self.f, self.s
        return f.load(self.element, f.offset(f.offset(self.a, f.mul(i, s["a_row"])), f.mul(j, s["a_column"])))

    def less(self, sums, factor, row):
        f = self.f
        many = f.neg(f.splat(factor, self.lanes))
        return [f.fma(many, x, total) for x, total in zip(row, sums)]

    def divided(self, sums, divisor):
        many = self.f.splat(divisor, self.lanes)
        return [self.f.div(value, many) for value in sums]

    def some(self, first, count):
        """Solve rows from `first` on: subtract the known unknowns' terms, then solve one by one."""
        f, vectors = self.f, self.vectors
        places = [self.row(f.add(first, r)) for r in range(count)]
        flat = [value for place in places for value in self.load(place)]

        def known(j, sums):
            x = self.load(self.row(j))
            return [value for r in range(count)
                    for value in self.less(sums[r * vectors:(r + 1) * vectors], self.factor(f.add(first, r), j), x)]

        flat = f.loop(0, first, 1, flat, known)
        done = []
        for r, place in enumerate(places):
            i, sums = f.add(first, r), flat[r * vectors:(r + 1) * vectors]
            for k, row in enumerate(done):
                sums = self.less(sums, self.factor(i, f.add(first, k)), row)
            if not self.unit:
                sums = self.divided(sums, self.factor(i, i))
            done.append(sums)
            for k, (value, mask) in enumerate(zip(sums, self.masks)):
                f.store(value, f.offset(place, k * self.lanes, self.element), mask=mask)
