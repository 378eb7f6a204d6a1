"""Matrix multiplication as dot products: both operands are contiguous along k, and nothing is packed.

A tile of rows x columns keeps one accumulator vector for each pair and adds up its lanes at the end. It reads every
operand directly from memory, several sequential reads at once, which suits few rows (or columns), and sums over many
pixels with few channels.
"""

from dataclasses import dataclass

from ..llvm import jit
from ..llvm.features import remembered
from ..llvm.types import i64
from ..llvm.values import Value, constant, zero
from .elements import LINE
from .blocked import ALONG, TABLE, batch_offsets, elements_of, part_slots
from .units import Units

SLOTS = ("a", "b", "c", "rows", "columns", "depth", "a_row", "b_column", "c_row", "block_rows", "block_columns",
         "block_depth",
         "row_blocks", "column_blocks", "batch_1", "batch_2", "a_batch_0", "a_batch_1", "a_batch_2",
         "b_batch_0", "b_batch_1", "b_batch_2", "c_batch_0", "c_batch_1", "c_batch_2", "sums", "a_sum", "b_sum",
         "b_offsets")

MOST_ROWS = 2   # rows of a tile that waits for the columns
PAGE, FAR = 4096, 1024  # bytes: the CPU's prefetcher does not cross a page
# in bytes: columns of at most DENSE without gaps are prefetched in order, BEYOND past the tile and at least LEAST ahead
DENSE, BEYOND, LEAST = 2048, 512, 6144


@remembered(512)
def dot_kernel(numbers, out, rows, columns, table, epilogue, computed=None):
    """Return the address of the kernel that computes blocks of C by tiles of rows x columns dot products.

    `table`: a table gives the byte offsets of B's columns, which are else a stride apart. `computed`: the
      PrologueLayout that computes B, or None.
    """
    key = f"dot {numbers} {out} {rows} {columns} {table} {epilogue.key} {computed and computed.key}"
    return jit.build(key, lambda: _dot_text(numbers, out, rows, columns, table, epilogue, computed), ["dot"])["dot"]


def _dot_text(numbers, out, rows, columns, table, epilogue, computed):
    further, parts = part_slots("b", computed)
    slots = SLOTS + further
    kernel = Units("dot", slots, ("a", "b", "c", "b_offsets", *parts))
    writer = _Dot(kernel.f, kernel.s, kernel.args, numbers, out, rows, columns, table, epilogue, computed, len(slots))
    return kernel.text(writer.unit)


def sums_along(b, numbers, rows_at, columns_at, count, ahead=None):
    """Return an accumulator vector for each pair of rows of A and columns of B, Elements from their first on, over
    `count` elements along k.

    `ahead`: the Ahead by which columns are prefetched.  They are then read one cache line at a time.
    """
    run = numbers.lanes * numbers.per_word
    most = max(1, LINE // (run * columns_at[0].itemsize)) if ahead else 1

    def step(k, sums, left):
        rows = [row.along(0, k, left) for row in rows_at]
        columns = [column.along(0, k, left) for column in columns_at]
        found = [numbers.multiply_add(b, x, y, sums[r * len(columns) + c])
                 for r, x in enumerate(rows) for c, y in enumerate(columns)]
        if numbers.flips:
            found += [numbers.add_excess(b, y, sums[len(found) + c]) for c, y in enumerate(columns)]
        return found

    def line(k, sums):
        for c in range(len(columns_at)):
            further = b.add(b.mul(k, ahead.rate), b.add(b.mul(ahead.line, c * most * run), ahead.first))
            columns_at[0].fetch(b.add(b.mul(ahead.column, c), ahead.lanes), further)
        for part in range(most):
            sums = step(b.add(k, part * run), sums, None)
        return sums

    whole = b.mul(b.div(count, run), run)
    products = len(rows_at) * len(columns_at)
    start = [zero(numbers.vector)] * (products + (len(columns_at) if numbers.flips else 0))
    lines = b.mul(b.div(count, most * run), most * run) if ahead else 0
    if ahead:
        start = b.loop(0, lines, most * run, start, line)
    if most > 1 or not ahead:
        start = b.loop(lines, whole, run, start, lambda k, sums: step(k, sums, None))
    sums = start
    sums = b.when(b.compare("<", whole, count), lambda: step(whole, sums, b.sub(count, whole)), lambda: sums)
    if not numbers.flips:
        return sums
    return [b.sub(total, sums[products + k % len(columns_at)]) for k, total in enumerate(sums[:products])]


def totals(b, vectors):
    """The sum over the lanes of each vector, in the first lanes of one vector: all vectors are reduced together, by
    halves.  There are at most as many vectors as lanes."""
    lanes, width = vectors[0].type.lanes, vectors[0].type.lanes
    groups = 1  # in each vector, of `width` lanes that are still to be added up
    while width > 1:
        width //= 2
        pairs = [(vectors[k], vectors[k + 1] if k + 1 < len(vectors) else None) for k in range(0, len(vectors), 2)]
        fits = len(vectors) > 1
        picked = [lane for vector in range(1 + fits) for group in range(groups)
                  for lane in range(vector * lanes + 2 * group * width, vector * lanes + (2 * group + 1) * width)]
        picked += [None] * (lanes - len(picked))
        other = [None if lane is None else lane + width for lane in picked]
        vectors = [b.add(b.shuffle(x, y, picked), b.shuffle(x, y, other)) for x, y in pairs]
        groups *= 1 + fits
    return vectors[0]


@dataclass(frozen=True)
class Ahead:
    """The memory that a tile prefetches at element k: for its column c, column `lanes` + c * `column` from its first
    on, at element `first` + k * `rate` + c * `line` lines."""

    lanes: Value
    column: Value
    first: Value
    rate: Value
    line: Value


def ahead_of(b, columns, depth, itemsize, gapless):
    """Return the Ahead of tiles of `columns` columns.  The CPU prefetches one long column by itself, but not several
    short ones.  For short columns the next tile is prefetched: in memory order if they have no gaps, else column by
    column; for long columns, FAR bytes ahead."""
    nothing, one = constant(i64, 0), constant(i64, 1)
    short = b.compare("<=", depth, PAGE // itemsize)
    dense = b.and_(b.compare("<=", depth, DENSE // itemsize), gapless)
    tile = b.maximum(b.add(b.mul(depth, columns), BEYOND // itemsize), constant(i64, LEAST // itemsize))
    return Ahead(lanes=b.select(dense, nothing, b.select(short, constant(i64, columns), nothing)),
                 column=b.select(dense, nothing, one),
                 first=b.select(dense, tile, b.select(short, nothing, constant(i64, FAR // itemsize))),
                 rate=b.select(dense, constant(i64, columns), one), line=b.select(dense, one, nothing))


class _Dot:
    """Emits the loops of the kernel, from the outside in."""

    def __init__(self, b, s, args, numbers, out, rows, columns, table, epilogue, computed, first_slot):
        self.computed, self.first_slot = computed, first_slot
        self.b, self.s, self.args, self.numbers, self.out = b, s, args, numbers, out
        self.rows, self.columns, self.table, self.epilogue = rows, columns, table, epilogue
        self.buffer = b.alloca(numbers.vector, rows)

    def unit(self, unit):
        """Emit one block of C: its tiles, for every matmul that is summed and every block along k."""
        b, s = self.b, self.s
        rest = b.div(unit, s.row_blocks)
        self.batch = b.div(rest, s.column_blocks)
        row = b.mul(b.sub(unit, b.mul(rest, s.row_blocks)), s.block_rows)
        column = b.mul(b.sub(rest, b.mul(self.batch, s.column_blocks)), s.block_columns)
        row_stop = b.minimum(b.add(row, s.block_rows), s.rows)
        column_stop = b.minimum(b.add(column, s.block_columns), s.columns)
        self.c_offset, = batch_offsets(b, self.batch, s, "c")
        self.a = elements_of(b, self.numbers, s, "a", "a_row", ALONG, None, self.batch)
        self.b_columns = elements_of(b, self.numbers.of_b, s, "b", "b_column", TABLE if self.table else ALONG,
                                     self.computed, self.batch)

        def tiles(n, k):
            # the shorter loop is the inner one: its operand stays in the L1 cache
            if self.table:
                b.loop(row, row_stop, self.rows, [], lambda r, _: b.loop(
                    column, column_stop, self.columns, [], lambda c, _: self.tile(n, k, r, c)))
            else:
                b.loop(column, column_stop, self.columns, [], lambda c, _: b.loop(
                    row, row_stop, self.rows, [], lambda r, _: self.tile(n, k, r, c)))

        depth = b.maximum(s.depth, 1)
        b.loop(0, s.sums, 1, [], lambda n, _: b.loop(0, depth, s.block_depth, [], lambda k, _: tiles(n, k)))

    def tile(self, n, k, row, column):
        """Emit the dot products of one tile over one block along k."""
        b, s, numbers = self.b, self.s, self.numbers
        # indices past the edge repeat the last row or column and are not stored
        row_places = [b.minimum(b.add(row, r), b.sub(s.rows, 1)) for r in range(self.rows)]
        column_places = [b.minimum(b.add(column, c), b.sub(s.columns, 1)) for c in range(self.columns)]
        count = b.minimum(b.sub(s.depth, k), s.block_depth)
        sums = sums_along(b, numbers, [self.a.line(place, k, n) for place in row_places],
                          [self.b_columns.line(place, k, n) for place in column_places], count,
                          self.ahead())
        for r in range(self.rows):
            total = zero(numbers.vector)
            for c in range(self.columns):
                total = b.insert(total, b.reduce("add", sums[r * self.columns + c]), c)
            b.store(total, b.offset(self.buffer, r * numbers.vector.bytes))
        first = b.compare("==", b.or_(n, k), 0)
        last = b.and_(b.compare("==", b.add(k, count), s.depth), b.compare("==", b.add(n, 1), s.sums))
        b.loop(0, b.minimum(b.sub(s.rows, row), self.rows), 1, [], lambda r, _: self.store(r, row, column, first, last))

    def ahead(self):
        """The Ahead for columns that are read once, else None."""
        if self.table or self.rows > MOST_ROWS:
            return None
        b, s = self.b, self.s
        gapless = b.compare("==", s.b_column, b.mul(s.depth, self.numbers.element.bytes))
        return ahead_of(b, self.columns, s.depth, self.b_columns.itemsize, gapless)

    def store(self, r, row, column, first, last):
        """Emit one row of a tile: add it to the sums of earlier blocks along k, and apply the epilogue at the end."""
        b, s, numbers = self.b, self.s, self.numbers
        total = b.load(numbers.vector, b.offset(self.buffer, b.mul(r, numbers.vector.bytes)))
        left = b.minimum(b.sub(s.columns, column), constant(i64, self.columns))
        mask = b.lane_mask(left, numbers.lanes)
        place = b.offset(s.c, b.add(self.c_offset, b.mul(b.add(row, r), s.c_row)))
        place = b.offset(place, column, self.out)
        if self.out is numbers.accumulator:
            earlier = lambda: [b.add(total, b.load(numbers.vector, place, mask=mask))]
            total, = b.when(first, lambda: [total], earlier)
        if self.out is not self.numbers.accumulator:
            last = None  # no partial sums in the output: there is one block
        if self.epilogue.emit is not None:
            slots = [b.load(i64, b.offset(self.args, 8 * (self.first_slot + k)))
                     for k in range(len(self.epilogue.slots))]
            finish = lambda: [self.epilogue.emit(b, total, self.batch, b.add(row, r), column, place, mask, slots)]
            total, = b.when(last, finish, lambda: [total]) if last else finish()
        b.store(b.convert(total, self.out), place, mask=mask)
