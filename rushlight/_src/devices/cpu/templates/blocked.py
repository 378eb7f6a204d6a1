"""Blocked GEMM: operands are packed block by block into scratch, and register tiles are computed from them.

A work unit is one block of C. Its loop along k packs a block of A (and of B, unless an earlier kernel call packed all
of B), then computes every tile: the panel of B stays in the L1 cache while tiles of A pass by.
"""


from ..llvm import jit, tiles
from ..llvm.features import remembered
from ..llvm.builder import Module
from ..llvm.types import i64
from ..llvm.values import constant
from . import pack, tiled
from .contraction import CHUNK
from .elements import Computed, Listed, Strided
from .tile import FIRST, LAST, Store, write_tile
from .units import KERNEL, Slots, Units  # noqa: F401

BATCH_DIMS = 3
PANELS = 4  # panels of A that are packed together if its rows are contiguous

# The slots of the block kernel, in order; the epilogue's follow. Strides are in bytes.
SLOTS = ("a", "b", "c", "scratch", "rows", "columns", "depth", "a_row", "a_k", "b_k", "b_column", "c_row",
         "block_rows", "block_columns", "block_depth", "row_blocks", "column_blocks",
         "batch_1", "batch_2", "a_batch_0", "a_batch_1", "a_batch_2", "b_batch_0", "b_batch_1", "b_batch_2",
         "c_batch_0", "c_batch_1", "c_batch_2", "scratch_bytes", "panel_at", "partial_at", "panel_bytes",
         "inner_depth", "inner_columns", "partial_columns",
         "sums", "a_sum", "b_sum", "b_offsets")
# The slots of the kernel that packs all of B.
PACK_SLOTS = ("b", "packed", "columns", "depth", "b_k", "b_column", "panels", "batch_1", "batch_2",
              "b_batch_0", "b_batch_1", "b_batch_2", "panel_bytes", "b_sum")

# The direction of unit stride of an operand: the tile's vectors ("across"), k ("along"), or neither ("apart").
ACROSS, ALONG, APART = "across", "along", "apart"
PACKED = "packed"  # an earlier kernel call has packed B
TABLE = "table"    # B's columns are contiguous along k, at byte offsets from a table


def layout(across, along, across_size, along_size):
    """Return the direction in which an operand has unit stride: ACROSS the tile's vectors, ALONG k, or APART."""
    if across == 1 or across_size == 1:
        return (ACROSS if along_size == 1 or across == 1 and along != 1 or across_size > 1 else ALONG if along == 1
                else ACROSS)
    return ALONG if along == 1 or along_size == 1 else APART


def batch_offsets(b, batch, s, operands):
    """Byte offsets of each operand at a flat batch index, split into up to three dimensions."""
    inner = s.batch_2
    rest = b.div(batch, inner)
    indices = [b.div(rest, s.batch_1), b.rem(rest, s.batch_1), b.sub(batch, b.mul(rest, inner))]
    offsets = []
    for operand in operands:
        total = constant(i64, 0)
        for dim, index in enumerate(indices):
            total = b.add(total, b.mul(index, getattr(s, f"{operand}_batch_{dim}")))
        offsets.append(total)
    return offsets


def write_b_panel(b, layout, width, elements, target, columns_left, k_count, fetch=True):
    """Pack one panel of B from its layout."""
    if layout in (ALONG, TABLE):
        pack.write_transposed_panel(b, width, elements, target, columns_left, k_count, fetch)
    else:
        pack.write_panel(b, width, elements, target, columns_left, k_count)


def part_slots(operand, computed):
    """The slots of the parts that an operand is computed from: (all slots, those that are pointers)."""
    parts = [f"{operand}{k}" for k in range(len(computed.distances))] if computed else []
    strides = ("lane", "k", "sum", *(f"batch_{dim}" for dim in range(BATCH_DIMS)))
    return tuple(name for part in parts for name in (part, *(f"{part}_{stride}" for stride in strides))), tuple(parts)


def elements_of(b, numbers, s, operand, lane, layout, computed, batch):
    """Return the Elements of an operand at a flat batch index.  `lane` names the slot of its stride across lanes;
    `computed` is the Prologue that computes it, or None."""
    if computed:
        _, parts = part_slots(operand, computed)
        places = [Strided(b, numbers, b.offset(getattr(s, part), offset),
                          *(getattr(s, f"{part}_{name}") for name in ("lane", "k", "sum")))
                  for part, offset in zip(parts, batch_offsets(b, batch, s, parts))]
        return Computed(b, numbers, computed, places)
    offset, = batch_offsets(b, batch, s, operand)
    pointer, sum = b.offset(getattr(s, operand), offset), getattr(s, f"{operand}_sum")
    if layout == TABLE:
        return Listed(b, numbers, pointer, s.b_offsets, sum)
    return Strided(b, numbers, pointer, None if layout == ACROSS else getattr(s, lane), None if layout == ALONG
                   else getattr(s, f"{operand}_k"), sum)


@remembered(512)
def pack_kernel(numbers, layout, vectors, computed=None):
    """Return the address of the kernel that packs all of B, one panel per work unit."""
    width = vectors * numbers.lanes
    key = f"pack {numbers} {layout} {vectors} {computed and computed.key}"
    return jit.build(key, lambda: _pack_text(numbers, layout, width, computed), ["pack"])["pack"]


def _pack_text(numbers, layout, width, computed):
    slots, pointers = part_slots("b", computed)
    kernel = Units("pack", PACK_SLOTS + slots, ("b", "packed", *pointers))
    f, s = kernel.f, kernel.s

    def panel(unit):
        batch = f.div(unit, s.panels)
        column = f.mul(f.sub(unit, f.mul(batch, s.panels)), width)
        elements = elements_of(f, numbers.of_b, s, "b", "b_column", layout, computed, batch).moved(column, 0)
        target = f.offset(s.packed, f.mul(unit, s.panel_bytes))
        write_b_panel(f, layout, width, elements, target, f.sub(s.columns, column), s.depth)

    return kernel.text(panel)


@remembered(512)
def block_kernel(numbers, out, layouts, computed, rows, vectors, epilogue, ahead=False, lying=False):
    """Return the address of the kernel that computes blocks of C, for one register tile, the layouts of A and B, and
    the Prologues that compute them.
    `ahead`: tiles prefetch the next panel of B, and at a block's end the next block of A, while they compute.
    `lying`: AMX tiles read A unpacked, except its last rows."""
    key = (f"block {numbers} {out} {' '.join(layouts)} {rows} {vectors} {epilogue.key} "
           f"{[c and c.key for c in computed]} {ahead} {lying}")
    make = lambda: _block_text(numbers, out, layouts, computed, rows, vectors, epilogue, ahead, lying)
    return jit.build(key, make, ["block"])["block"]


def _block_text(numbers, out, layouts, computed, rows, vectors, epilogue, ahead, lying):
    module = Module()
    parts = [part_slots(operand, one) for operand, one in zip("ab", computed)]
    slots, pointers = SLOTS + parts[0][0] + parts[1][0], ("a", "b", "c", "scratch", "b_offsets", *parts[0][1],
                                                          *parts[1][1])
    word = numbers.word.bytes
    a_row = word if layouts[0] == ACROSS else numbers.chunk * word
    store = Store(numbers, out, epilogue, len(slots))
    kernel = Units("block", slots, pointers, module)
    common = kernel.f, kernel.s, kernel.args, numbers, out, layouts, computed, rows, vectors * numbers.lanes
    if numbers.tiles:
        rest = tiled.write_rest(module, "rest", numbers, rows, vectors, store)
        passing = "b" if _along_rows(layouts[1]) else ""
        tile = tiled.write_tile(module, "tile", numbers, rows, vectors, store, rest, passing)
        writer = _TiledBlock(*common, tile, rest, tiled.Waiting.allocated(kernel.f, numbers, rows, vectors), lying)
    else:
        tile = write_tile(module, "tile", numbers, rows, vectors, a_row, rows * numbers.chunk * word, store, ahead)
        writer = _Block(*common, tile, ahead)
    scratch = kernel.scratch()
    return kernel.text(lambda unit: writer.unit(unit, scratch), bool(numbers.tiles))


class _Block:
    """Emits the loops of the block kernel, from the outside in."""

    further = []  # arguments of the tile function
    # True if a tile of A stays in the L1 cache while panels of B pass by; False for the reverse
    along_rows = False

    def __init__(self, b, s, args, numbers, out, layouts, computed, tile_rows, width, tile, ahead=False):
        self.ahead = ahead
        # packing need not prefetch what tiles prefetch
        self.a_ahead = ahead and not computed[0] and numbers.per_word == 1 and layouts[0] in (ACROSS, ALONG)
        self.b, self.s, self.args, self.numbers, self.out = b, s, args, numbers, out
        self.a_layout, self.b_layout = layouts
        self.computed, self.tile_rows, self.width, self.tile = computed, tile_rows, width, tile

    def unit(self, unit, scratch):
        """Emit one block of C: its position, then the loop along k."""
        b, s = self.b, self.s
        rest = b.div(unit, s.row_blocks)
        self.batch = b.div(rest, s.column_blocks)
        self.row = b.mul(b.sub(unit, b.mul(rest, s.row_blocks)), s.block_rows)
        self.column = b.mul(b.sub(rest, b.mul(self.batch, s.column_blocks)), s.block_columns)
        self.block_rows = b.minimum(b.sub(s.rows, self.row), s.block_rows)
        self.block_columns = b.minimum(b.sub(s.columns, self.column), s.block_columns)
        b_offset, c_offset = batch_offsets(b, self.batch, s, "bc")
        self.a = elements_of(b, self.numbers, s, "a", "a_row", self.a_layout, self.computed[0],
                             self.batch).moved(self.row, 0)
        if self.b_layout == PACKED:
            self.panels = b.offset(b.offset(s.b, b_offset), b.mul(b.div(self.column, self.width), s.panel_bytes))
        else:
            self.columns = elements_of(b, self.numbers.of_b, s, "b", "b_column", self.b_layout, self.computed[1],
                                       self.batch).moved(self.column, 0)
        c = b.offset(b.offset(s.c, c_offset), b.mul(self.row, s.c_row))
        self.c = b.offset(c, self.column, self.out)
        self.scratch = scratch
        # at least once: a matmul over no elements is zero, and has an epilogue too
        depth = b.maximum(s.depth, 1)
        b.loop(0, s.sums, 1, [], lambda n, _: b.loop(0, depth, s.block_depth, [], lambda k, _: self.depth_block(n, k)))

    def depth_block(self, n, k):
        """Emit one block along k of matmul n of those that are summed: pack A, then loop over inner blocks, whose
        panels stay in the L1 cache."""
        b, s = self.b, self.s
        count = b.minimum(b.sub(s.depth, k), s.block_depth)
        chunks = self.chunks(count)
        self.pack_a(self.a.moved(0, k, n), count, chunks)

        def columns(at, _):
            stop = b.minimum(self.block_columns, b.add(at, s.inner_columns))
            b.loop(0, b.maximum(count, 1), s.inner_depth, [],
                   lambda inner, _: self.inner_block(n, k, inner, count, chunks, at, stop))

        b.loop(0, self.block_columns, s.inner_columns, [], columns)

    def chunks(self, count):
        """Steps of the tile's loop for `count` elements along k."""
        per_chunk = self.numbers.chunk * self.numbers.per_word
        return self.b.div(self.b.add(count, per_chunk - 1), per_chunk)

    def inner_block(self, n, k, inner, count, chunks, begin, stop):
        """Emit every tile of the columns from `begin` to `stop`, from offset `inner` of a block along k of `count`
        elements, or `chunks` steps."""
        b, s = self.b, self.s
        place = b.add(k, inner)
        own = b.minimum(b.sub(count, inner), s.inner_depth)
        first = b.compare("==", b.or_(n, place), 0)
        final = b.and_(b.compare("==", b.add(place, own), s.depth), b.compare("==", b.add(n, 1), s.sums))
        stage = b.or_(b.select(first, constant(i64, FIRST), 0), b.select(final, constant(i64, LAST), 0))
        rows = self.rows_at(n, place, inner, chunks)

        def one(r, at, panel, later):
            a, *how = rows(r)
            self.one_tile(r, at, a, panel, self.chunks(own), stage, [*how, *later])

        def by_panels(at, _):
            panel = self.b_panel(at, n, place, own)
            later = self.later(at, n, place, own, final) if self.ahead else lambda r: []
            b.loop(0, self.block_rows, self.tile_rows, [], lambda r, _: one(r, at, panel, later(r)))

        def by_rows(r, _):
            b.loop(begin, stop, self.width, [], lambda at, _: one(r, at, self.b_panel(at, n, place, own), []))

        if self.along_rows:
            b.loop(0, self.block_rows, self.tile_rows, [], by_rows)
        else:
            b.loop(begin, stop, self.width, [], by_panels)

    def rows_at(self, n, k, inner, chunks):
        """Return a function of a tile's first row that gives the address of its rows of A, at offset `inner` of a block
        along k of `chunks` steps, and the further arguments of tiles for these rows."""
        b, numbers = self.b, self.numbers
        rows = b.offset(self.scratch, b.mul(b.div(inner, numbers.per_word), self.tile_rows * numbers.word.bytes))
        return lambda r: [b.offset(rows, b.mul(b.mul(r, numbers.chunk * numbers.word.bytes), chunks))]

    def pack_a(self, elements, count, chunks):
        """Pack the block's rows into scratch: as panels if rows are contiguous, else as quads."""
        b, numbers = self.b, self.numbers
        if self.a_layout != ACROSS:
            pack.write_quads(b, self.tile_rows, elements, self.scratch, self.block_rows, count, not self.a_ahead)
            return
        tile_bytes = b.mul(chunks, self.tile_rows * numbers.chunk * numbers.word.bytes)

        def target(r):
            return b.offset(self.scratch, b.mul(b.div(r, self.tile_rows), tile_bytes))

        def tile(r, _):
            pack.write_panel(b, self.tile_rows, elements.moved(r, 0), target(r), b.sub(self.block_rows, r), count)

        def tiles(r, _):
            first = target(r)
            pack.write_panels(b, self.tile_rows, elements.moved(r, 0),
                              [b.offset(first, b.mul(tile_bytes, j)) for j in range(PANELS)], count,
                              b.mul(chunks, numbers.chunk))

        together, whole = PANELS * self.tile_rows, constant(i64, 0)
        if numbers.per_word == 1 and self.tile_rows <= numbers.lanes:
            # the last panel's load may read past the panel, by less than a vector
            whole = b.mul(b.div(b.maximum(b.sub(self.block_rows, numbers.lanes), 0), together), together)
            b.loop(0, whole, together, [], tiles)
        b.loop(whole, self.block_rows, self.tile_rows, [], tile)

    def b_panel(self, at, n, k, count):
        """Return the address of the packed panel at column `at` of the block; pack it now unless B is packed."""
        b, s, numbers = self.b, self.s, self.numbers
        if self.b_layout == PACKED:
            within = b.mul(b.div(k, numbers.per_word), self.width * numbers.word.bytes)
            return b.offset(b.offset(self.panels, b.mul(b.div(at, self.width), s.panel_bytes)), within)
        target = b.offset(self.scratch, s.panel_at)
        write_b_panel(b, self.b_layout, self.width, self.columns.moved(at, k, n), target, b.sub(self.block_columns, at),
                      count, not self.ahead)
        return target

    def later(self, at, n, k, count, final):
        """Return a function of a tile's row that gives what the tile prefetches: (address, bytes between lines, bytes
        from chunk to chunk).  The first tiles prefetch the next panel of B, the others a part of the next block of A:
        the next block along k, or at the end the next rows.  Addresses past an operand's end are prefetched as well,
        which never faults."""
        b, s, word, chunks = self.b, self.s, self.numbers.word.bytes, self.chunks(count)
        line, four, nothing = constant(i64, 64), constant(i64, 64 * CHUNK), (self.scratch, constant(i64, 0),
                                                                             constant(i64, 0))
        over = b.compare(">=", b.add(at, self.width), self.block_columns)
        column, depth = b.select(over, 0, b.add(at, self.width)), b.select(over, b.add(k, count), k)
        if self.b_layout == PACKED:
            tiles, first, gap, step = self.width * word // 64, self.b_panel(column, n, depth, count), line, four
        else:
            first = self.columns.moved(column, depth, n).pointer
            if self.b_layout == ACROSS:
                tiles, gap, step = CHUNK, line, s.b_k
            else:
                tiles, gap, step = self.width // CHUNK, s.b_column, constant(i64, CHUNK * word)
        part = b.mul(gap, CHUNK) if self.b_layout == ALONG else b.mul(chunks, step)
        if self.a_ahead:
            a_first = b.select(final, self.a.moved(s.block_rows, b.sub(0, k), n).pointer,
                               self.a.moved(0, b.add(k, count), n).pointer)
            all_tiles = b.div(b.add(self.block_rows, self.tile_rows - 1), self.tile_rows)
            before = b.mul(b.div(at, self.width), b.sub(all_tiles, tiles))

        def of_a(number):
            if self.a_layout == ALONG:
                return b.offset(a_first, b.mul(b.mul(number, CHUNK),
                                               s.a_row)), s.a_row, constant(i64, CHUNK * word), b.mul(number, CHUNK)
            strip, quarter = b.div(number, CHUNK), b.rem(number, CHUNK)
            place = b.offset(b.offset(a_first, b.mul(strip, four)), b.mul(b.mul(quarter, chunks), s.a_k))
            return place, line, s.a_k, b.mul(strip, 64 * CHUNK // word)

        def at_row(r):
            tile = b.div(r, self.tile_rows)
            others = nothing
            if self.a_ahead:
                *there, lane = of_a(b.add(before, b.sub(tile, tiles)))
                more = b.compare("<", lane, self.block_rows)
                others = [b.select(more, x, y) for x, y in zip(there, nothing)]
            place = b.offset(first, b.mul(tile, part))
            return [b.select(b.compare("<", tile, tiles), x, y) for x, y in zip((place, gap, step), others)]

        return at_row

    def one_tile(self, r, at, a, panel, chunks, stage, later):
        """Emit one call of the tile function, for the row r and the column `at` of the block."""
        b, s = self.b, self.s
        c = b.offset(b.offset(self.c, b.mul(r, s.c_row)), at, self.out)
        b.call(self.tile, [self.args, a, panel, chunks, c, s.c_row, *self.partial(r, at, c), stage,
                           b.sub(self.block_rows, r), b.sub(self.block_columns, at), self.batch,
                           b.add(self.row, r), b.add(self.column, at), *self.further, *later])

    def partial(self, r, at, c):
        """Address of a tile's accumulators between blocks along k, and bytes between its rows."""
        b, s, numbers = self.b, self.s, self.numbers
        if self.out is numbers.accumulator:
            return c, s.c_row
        stride = b.mul(s.partial_columns, numbers.accumulator.bytes)
        base = b.offset(self.scratch, s.partial_at)
        return b.offset(b.offset(base, b.mul(r, stride)), at, numbers.accumulator), stride


def _along_rows(b_layout):
    """True if the tiles of one row of tiles are computed consecutively, so that panels of B pass by them."""
    return b_layout == PACKED


class _TiledBlock(_Block):
    """The same for AMX tiles: accumulators are kept tile after tile between blocks along k, and the epilogue of a tile
    runs with the next tile, or at the end of the work unit.  If B is packed beforehand, outputs are written along rows,
    the direction in which the CPU prefetches by itself."""

    def __init__(self, *common_and_tile):
        *common, rest, waiting, self.lying = common_and_tile
        super().__init__(*common)
        self.rest, self.waiting, self.further = rest, waiting, [waiting.memory]
        self.along_rows = _along_rows(self.b_layout)

    def unit(self, unit, scratch):
        self.waiting.clear()
        super().unit(unit, scratch)
        self.b.call(self.rest, [self.args, self.waiting.memory, constant(i64, 0)])

    def pack_a(self, elements, count, chunks):
        b, rows = self.b, self.block_rows
        if self.lying:  # pack only the last rows: full tiles read A unpacked
            whole = self.whole_rows()
            elements, rows = elements.moved(whole, 0), b.sub(rows, whole)
        write = pack.write_turned_quads if self.a_layout == ACROSS else pack.write_quads
        write(b, self.tile_rows, elements, self.scratch, rows, count)

    def whole_rows(self):
        """Number of rows of the block that fill tiles."""
        return self.b.mul(self.b.div(self.block_rows, self.tile_rows), self.tile_rows)

    def rows_at(self, n, k, inner, chunks):
        b, packed = self.b, super().rows_at(n, k, inner, chunks)
        in_quads = constant(i64, tiles.ROW_BYTES), constant(i64, self.tile_rows * tiles.ROW_BYTES)
        if not self.lying:
            return lambda r: [*packed(r), *in_quads]
        whole, there = self.whole_rows(), self.a.moved(0, k, n)

        def place(r):
            full = b.compare("<", r, whole)
            return b.when(full, lambda: [there.at(r, constant(i64, 0)), there.strides[0], in_quads[0]],
                          lambda: [*packed(constant(i64, 0)), *in_quads])

        return place

    def partial(self, r, at, c):
        b, s, numbers = self.b, self.s, self.numbers
        base, size = b.offset(self.scratch, s.partial_at), numbers.accumulator.bytes
        panel = b.mul(b.rem(at, s.partial_columns), b.mul(s.block_rows, size))
        return b.offset(b.offset(base, panel), b.mul(r, self.width * size)), constant(i64, self.width * size)
