"""Some adjacent columns of a matrix, copied into rows of full vectors for elimination and Householder reflectors.

Their loops then need no masks, and rows far apart in memory do not share a cache set.
"""

from ..llvm.types import i32, vector
from ..llvm.values import constant
from .rows import Rows


def scratch_bytes(rows, vectors, lanes, size):
    """Bytes of scratch for a worker's columns; reads may go slightly past them."""
    return -(-(rows * vectors * lanes * size + 64) // 64) * 64


class Columns:
    """Emits code for the columns of one matrix, which are at `here`: rows of `vectors` vectors from row `first` on."""

    def __init__(self, f, element, lanes, vectors, named):
        self.f, self.element, self.lanes, self.vectors, self.s = f, element, lanes, vectors, named
        self.kind, self.wide = vector(element, lanes), vectors * lanes
        self.rows = Rows(f, element, lanes)
        self.height = f.sub(named["rows"], named["first"])

    def at(self, i, j=0):
        """Address of an element of the columns."""
        return self.f.offset(self.here, self.f.add(self.f.mul(i, self.wide), j), self.element)

    def place(self, base, i, j):
        """Address of an element of the full matrix."""
        return self.f.offset(self.f.offset(base, self.f.mul(i, self.s["row"])), j, self.element)

    def masks(self, count):
        """The masks of the first `count` lanes of a row, one for each of its vectors."""
        return [self.f.lane_mask(self.f.sub(count, k * self.lanes), self.lanes) for k in range(self.vectors)]

    def taken(self, i, masks):
        """Copy a row of the columns from the matrix."""
        f, first = self.f, self.s["first"]
        start = self.place(self.source, f.add(i, first), first)
        for k, mask in enumerate(masks):
            f.store(f.load(self.kind, f.offset(start, k * self.lanes, self.element), mask=mask),
                    self.at(i, k * self.lanes))

    def given(self, i, masks):
        """Copy a row of the columns back."""
        f, first = self.f, self.s["first"]
        start = self.place(self.target, f.add(i, first), first)
        for k, mask in enumerate(masks):
            f.store(f.load(self.kind, self.at(i, k * self.lanes)), f.offset(start, k * self.lanes, self.element),
                    mask=mask)

    def steps(self, carried, body):
        """Loop `body(j, c, carried)` over each of `count` columns j, in vector c."""
        f, lanes = self.f, self.lanes
        for c in range(self.vectors):
            last = f.minimum(self.s["count"], (c + 1) * lanes)
            carried = f.loop(c * lanes, last, 1, carried, lambda j, now: body(j, c, now))
        return carried

    def lanes_of(self, j, c):
        """The lanes of vector c after column j, and the one of j itself."""
        f = self.f
        places, own = f.lane_indices(self.lanes, i32), f.splat(f.convert(f.sub(j, c * self.lanes), i32), self.lanes)
        return f.compare(">", places, own), f.compare("==", places, own)

    def row(self, i, c=0):
        """The vectors of a row from index c on."""
        return [self.f.load(self.kind, self.at(i, k * self.lanes)) for k in range(c, self.vectors)]

    def put(self, i, values, c=0):
        """Store the vectors of a row from index c on."""
        for k, value in enumerate(values, c):
            self.f.store(value, self.at(i, k * self.lanes))

    def element_at(self, i, j):
        return self.f.load(self.element, self.at(i, j))

    def number(self, value):
        """A constant element."""
        return constant(self.element, value)
