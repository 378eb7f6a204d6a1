"""Small matmuls: register tiles read A and B in place, since packing them would cost as much as multiplying.

A work unit is one matrix of a batch.  A has any strides; columns of B are contiguous, or few enough to be gathered.  A
tile goes along all of k, so that no partial sums are stored.
"""


from ..llvm import jit
from ..llvm.features import remembered
from ..llvm.builder import Module
from ..llvm.types import i64
from ..llvm.values import constant, zero
from .blocked import batch_offsets
from .contraction import CHUNK
from .elements import load_apart
from .tile import Store
from .units import Units

SLOTS = ("a", "b", "c", "rows", "columns", "depth", "a_row", "a_k", "b_k", "b_column", "c_row", "batch_1", "batch_2",
         "a_batch_0", "a_batch_1", "a_batch_2", "b_batch_0", "b_batch_1", "b_batch_2", "c_batch_0", "c_batch_1",
         "c_batch_2")


@remembered(512)
def direct_kernel(numbers, out, rows, vectors, along, apart, epilogue):
    """Return the address of the kernel that computes small matmuls by tiles of rows x vectors. `along`: elements of A
    are contiguous along k; `apart`: the columns of B are not contiguous."""
    key = f"direct {numbers} {out} {rows} {vectors} {along} {apart} {epilogue.key}"
    make = lambda: _direct_text(numbers, out, rows, vectors, along, apart, epilogue)
    return jit.build(key, make, ["direct"])["direct"]


def _direct_text(numbers, out, rows, vectors, along, apart, epilogue):
    # if A is read across its rows, each row of the tile is a separate sequential read
    kernel = Units("direct", SLOTS, ("a", "b", "c"), Module(many_streams=not along))
    return kernel.text(_Direct(kernel, numbers, out, rows, vectors, along, apart, epilogue).unit)


class _Direct:
    """Emits the loops of the kernel, from the outside in."""

    def __init__(self, kernel, numbers, out, rows, vectors, along, apart, epilogue):
        self.along, self.apart = along, apart
        self.b, self.s, self.args = kernel.f, kernel.s, kernel.args
        self.numbers, self.out, self.rows, self.vectors = numbers, out, rows, vectors
        self.store = Store(numbers, out, epilogue, len(SLOTS))
        self.buffer = None if epilogue.emit is None else self.b.alloca(numbers.vector, rows * vectors)

    def unit(self, batch):
        """Emit one matrix: its panels of columns, and the tiles of each."""
        b, s = self.b, self.s
        self.batch = batch
        a, right, c = batch_offsets(b, batch, s, "abc")
        self.a, self.right, self.c = b.offset(s.a, a), b.offset(s.b, right), b.offset(s.c, c)
        lanes = self.numbers.lanes

        def panel(column, _):
            left = b.sub(s.columns, column)
            masks = [b.lane_mask(b.sub(left, j * lanes), lanes) for j in range(self.vectors)]
            b.loop(0, s.rows, self.rows, [], lambda row, _: self.tile(row, column, masks))

        b.loop(0, s.columns, self.vectors * lanes, [], panel)

    def tile(self, row, column, masks):
        """Emit one tile: all of k, then its rows are stored."""
        b, s, numbers, element = self.b, self.s, self.numbers, self.numbers.element
        last = b.sub(s.rows, 1)
        # rows past the edge repeat the last one and are not stored
        starts = [b.offset(self.a, b.mul(b.minimum(b.add(row, r), last), s.a_row)) for r in range(self.rows)]
        gap = s.b_column
        right = b.offset(self.right, b.mul(column, gap))
        if self.buffer is not None:  # else the output is near in memory, as the operands are
            self.store.fetch(b, self.args, b.offset(b.offset(self.c, b.mul(row, s.c_row)), column, self.out), s.c_row,
                             b.minimum(b.sub(s.rows, row), self.rows), self.vectors)
        a_k, b_k = constant(i64, element.bytes) if self.along else s.a_k, s.b_k

        def step(k, values):
            line, *sums = values
            along = b.mul(k, a_k)
            read = [load_apart(b, element, b.offset(line, b.mul(gap, j * numbers.lanes)), gap if self.apart else None,
                               numbers.lanes, mask)
                    for j, mask in enumerate(masks)]
            columns = [b.convert(values, numbers.word, numbers.b_signed) for values in read]
            found = []
            for r, start in enumerate(starts):
                one = b.splat(b.convert(b.load(element, b.offset(start, along)), numbers.word, numbers.signed),
                              numbers.lanes)
                found += [numbers.multiply_add(b, one, y, sums[r * self.vectors + j]) for j, y in enumerate(columns)]
            return [b.offset(line, b_k), *found]

        def four(k, sums):
            for u in range(CHUNK):
                sums = step(b.add(k, u), sums)
            return sums

        whole = b.mul(b.div(s.depth, CHUNK), CHUNK)
        sums = b.loop(0, whole, CHUNK, [right, *[zero(numbers.vector)] * (self.rows * self.vectors)], four)
        self.finish(b.loop(whole, s.depth, 1, sums, step)[1:], row, column, masks)

    def finish(self, sums, row, column, masks):
        """Store the existing rows of a tile; with an epilogue, whose code is long, in a loop."""
        b, s, numbers = self.b, self.s, self.numbers

        def one(r, values):
            place = b.offset(b.offset(self.c, b.mul(b.add(row, r), s.c_row)), column, self.out)
            for j, (value, mask) in enumerate(zip(values, masks)):
                at = b.offset(place, j * numbers.lanes, self.out)
                self.store.finish(b, self.args, value, at, self.batch, b.add(row, r), b.add(column, j * numbers.lanes),
                                  mask)

        left = b.sub(s.rows, row)
        if self.buffer is None:
            for r in range(self.rows):
                b.when(b.compare(">", left, r),
                       lambda r=r: one(constant(i64, r), sums[r * self.vectors:(r + 1) * self.vectors]))
            return
        size = numbers.vector.bytes
        for k, value in enumerate(sums):
            b.store(value, b.offset(self.buffer, k * size))
        b.loop(0, b.minimum(left, self.rows), 1, [], lambda r, _: one(r, [
            b.load(numbers.vector, b.offset(self.buffer, b.mul(b.add(b.mul(r, self.vectors), j), size)))
            for j in range(self.vectors)]))
