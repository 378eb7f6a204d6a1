"""Skinny matmul with a B whose columns are contiguous: rows of B are read sequentially, several at once, and nothing is
packed.

A work unit is a block of C's columns. It stays in the L1 cache while STREAMS rows of B at a time are read from
beginning to end, the fastest order for memory; a tile with its sums in registers would touch another page with each
step along k.
"""


from ..llvm import jit
from ..llvm.features import remembered
from ..llvm.types import i64
from ..llvm.values import constant, zero
from .blocked import batch_offsets
from .tile import Store
from .units import Units

SLOTS = ("a", "b", "c", "columns", "depth", "a_row", "a_k", "b_k", "c_row", "block_columns", "column_blocks", "batch_1",
         "batch_2",
         "a_batch_0", "a_batch_1", "a_batch_2", "b_batch_0", "b_batch_1", "b_batch_2", "c_batch_0", "c_batch_1",
         "c_batch_2",
         "scratch", "scratch_bytes")
VECTORS = 2  # vectors of each row in a round of the inner loop


@remembered(512)
def stream_kernel(numbers, rows, streams, epilogue):
    """Return the address of the kernel that computes blocks of columns of C, `rows` rows high, from `streams` rows of B
    at a time.

    C has the accumulator's type: sums are kept in it, or in scratch if an epilogue may read the old contents of C.
    """
    key = f"stream {numbers} {rows} {streams} {epilogue.key}"
    return jit.build(key, lambda: _stream_text(numbers, rows, streams, epilogue), ["stream"])["stream"]


def _stream_text(numbers, rows, streams, epilogue):
    kernel = Units("stream", SLOTS, ("a", "b", "c", "scratch"))
    return kernel.text(_Stream(kernel, numbers, rows, streams, epilogue).unit)


class _Stream:
    """Emits the loops of the kernel, from the outside in."""

    def __init__(self, kernel, numbers, rows, streams, epilogue):
        self.b, self.s, self.args = kernel.f, kernel.s, kernel.args
        self.numbers, self.rows, self.streams = numbers, rows, streams
        self.store = Store(numbers, numbers.accumulator, epilogue, len(SLOTS))
        self.scratch = None if epilogue.emit is None else kernel.scratch()

    def unit(self, unit):
        """Emit one block of columns: all rows of B, then the epilogue."""
        b, s = self.b, self.s
        self.batch = b.div(unit, s.column_blocks)
        self.column = b.mul(b.sub(unit, b.mul(self.batch, s.column_blocks)), s.block_columns)
        self.width = b.minimum(b.sub(s.columns, self.column), s.block_columns)
        a, right, c = batch_offsets(b, self.batch, s, "abc")
        self.a = b.offset(s.a, a)
        self.right = b.offset(b.offset(s.b, right), self.column, self.numbers.element)
        self.c = b.offset(b.offset(s.c, c), self.column, self.numbers.accumulator)
        self.blank()
        whole = b.mul(b.div(s.depth, self.streams), self.streams)
        b.loop(0, whole, self.streams, [], lambda k, _: self.some_rows(k, self.streams))
        b.loop(whole, s.depth, 1, [], lambda k, _: self.some_rows(k, 1))
        if self.store.epilogue.emit is not None:
            self.across(1, self.finish)

    def across(self, vectors, body):
        """Loop `body(column, mask)` over the block's columns, `vectors` vectors at a time; the last ones one by one,
        under a mask."""
        b, lanes = self.b, self.numbers.lanes
        whole = b.mul(b.div(self.width, vectors * lanes), vectors * lanes)
        b.loop(0, whole, vectors * lanes, [],
               lambda column, _: [body(b.add(column, j * lanes), None) for j in range(vectors)] and [])
        b.loop(whole, self.width, lanes, [],
               lambda column, _: body(column, b.lane_mask(b.sub(self.width, column), lanes)))

    def place(self, row, column):
        """The address of an element of C in this block."""
        b = self.b
        return b.offset(b.offset(self.c, b.mul(self.s.c_row, row)), column, self.numbers.accumulator)

    def sums(self, row, column):
        """The address of the sum for an element of C in this block."""
        if self.scratch is None:
            return self.place(row, column)
        b, kind = self.b, self.numbers.accumulator
        return b.offset(b.offset(self.scratch, b.mul(self.s.block_columns, row), kind), column, kind)

    def blank(self):
        """Set the sums to zero."""
        def rows(column, mask):
            for row in range(self.rows):
                self.b.store(zero(self.numbers.vector), self.sums(row, column), mask=mask)

        self.across(1, rows)

    def some_rows(self, k, count):
        """Multiply by `count` rows of B, from row k on, and add to the sums."""
        b, s, numbers = self.b, self.s, self.numbers
        sources = [b.offset(self.right, b.mul(b.add(k, j), s.b_k)) for j in range(count)]
        factors = [[self.factor(row, b.add(k, j)) for j in range(count)] for row in range(self.rows)]
        kind = numbers.vector.with_element(numbers.element)

        def columns(column, mask):
            found = [b.convert(b.load(kind, b.offset(source, column, numbers.element), align=numbers.element.bytes,
                                      mask=mask), numbers.word, numbers.signed)
                     for source in sources]
            for row in range(self.rows):
                total = b.load(numbers.vector, self.sums(row, column), mask=mask)
                for factor, value in zip(factors[row], found):
                    total = numbers.multiply_add(b, factor, value, total)
                b.store(total, self.sums(row, column), mask=mask)

        self.across(VECTORS, columns)

    def factor(self, row, k):
        """An element of A in all lanes."""
        b, s, numbers = self.b, self.s, self.numbers
        value = b.load(numbers.element, b.offset(b.offset(self.a, b.mul(s.a_row, row)), b.mul(s.a_k, k)))
        return b.splat(b.convert(value, numbers.word, numbers.signed), numbers.lanes)

    def finish(self, column, mask):
        """Apply the epilogue to a vector of columns, row by row."""
        b, numbers = self.b, self.numbers
        for row in range(self.rows):
            total = b.load(numbers.vector, self.sums(row, column), mask=mask)
            self.store.finish(b, self.args, total, self.place(row, column), self.batch, constant(i64, row),
                              b.add(self.column, column), mask)
