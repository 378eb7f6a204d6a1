"""The register tile: a block of sums held in vector registers while a loop runs along k.

Rows of A are broadcast word by word, vectors of B are loaded; both come packed, so that every address is the base plus
a constant. A tile of 14 rows by 2 vectors keeps 28 sums, two vectors of B and one broadcast in AVX-512's 32 registers.
"""

from ..llvm import halves
from ..llvm.types import i64, ptr, vector
from ..llvm.values import zero
from .contraction import CHUNK


def sums(b, numbers, rows, vectors, a, a_row, a_step, b_panel, chunks, start=None, ahead=None):
    """The accumulators of `rows` x `vectors` after `chunks` (i64) times four words along k, as a list, row by row.

    Word u of row r of a chunk is at `a + r * a_row + offset(u)`: quads (a_row = 4 words) have contiguous words, in
    panels (a_row = 1 word) they are `a_step / 4` bytes apart; a chunk takes `a_step` bytes. `ahead` = (place, line,
    step): each chunk prefetches four addresses, `line` bytes apart, and moves on by `step` bytes.
    """
    if numbers.blocks and rows > 1:
        return _sums_by_blocks(b, numbers, rows, vectors, a, a_row, a_step, b_panel, chunks, start, ahead)
    word = numbers.word.bytes
    width = vectors * numbers.lanes
    next_word = word if a_row == CHUNK * word else a_step // CHUNK

    excess = vectors if numbers.flips else 0  # sums that are subtracted from every row's

    def chunk(_, values):
        a_at, b_at, later, *tile = values
        for u in range(CHUNK):
            if ahead:
                b.prefetch(b.offset(later, b.mul(ahead[1], u)), locality=2)
            columns = [b.load(numbers.words, b.offset(b_at, (u * width + j * numbers.lanes) * word), align=word)
                       for j in range(vectors)]
            for r in range(rows):
                one = b.load(numbers.word, b.offset(a_at, r * a_row + u * next_word))
                row = b.splat(one, numbers.lanes)
                for j in range(vectors):
                    tile[r * vectors + j] = numbers.multiply_add(b, row, columns[j], tile[r * vectors + j])
            for j in range(excess):
                tile[j - excess] = numbers.add_excess(b, columns[j], tile[j - excess])
        return [b.offset(a_at, a_step), b.offset(b_at, CHUNK * width * word), b.offset(later, ahead[2]) if ahead
                else later, *tile]

    start = start or [zero(numbers.vector)] * (rows * vectors)
    tile = b.loop(0, chunks, 1, [a, b_panel, ahead[0] if ahead else b_panel, *start, *[zero(numbers.vector)] * excess],
                  chunk)[3:]
    if not excess:
        return tile
    return [b.sub(total, tile[rows * vectors + k % vectors]) for k, total in enumerate(tile[:rows * vectors])]


def _sums_by_blocks(b, numbers, rows, vectors, a, a_row, a_step, b_panel, chunks, start, ahead):
    """The same by an instruction that multiplies two rows by two columns; a remaining row, by the one for single rows.

    Two words along k at a time: the loads for more of them would not fit into registers.
    """
    word, lanes, paired = numbers.word.bytes, numbers.lanes, rows // 2 * 2
    next_word = word if a_row == CHUNK * word else a_step // CHUNK
    half = 2 * vectors * lanes * word

    def words(_, values):
        a_at, b_at, later, *tile = values
        if ahead:
            for _ in range(2):
                b.prefetch(later, locality=2)
                later = b.offset(later, ahead[1])
        columns = [[b.load(numbers.words, b.offset(b_at, (u * vectors + j) * lanes * word), align=word)
                    for j in range(vectors)] for u in range(2)]
        for u in range(2):
            for r in range(paired, rows):
                row = b.splat(b.load(numbers.word, b.offset(a_at, r * a_row + u * next_word)), lanes)
                for j in range(vectors):
                    tile[r * vectors + j] = numbers.multiply_add(b, row, columns[u][j], tile[r * vectors + j])
        columns = [numbers.blocks.columns(b, *pair) for pair in zip(*columns)]
        for r in range(0, paired, 2):
            both = _two_rows(b, numbers, b.offset(a_at, r * a_row), a_row, next_word)
            for j, (first, second) in enumerate(columns):
                for k, operand in ((r * vectors + j, first), ((r + 1) * vectors + j, second)):
                    tile[k] = numbers.blocks.emit(b, tile[k], both, operand)
        return [b.offset(a_at, 2 * next_word), b.offset(b_at, half), later, *tile]

    def chunk(_, values):
        a_at, b_at, later, *tile = values
        tile = b.loop(0, CHUNK // 2, 1, [a_at, b_at, later, *tile], words)[3:]
        return [b.offset(a_at, a_step), b.offset(b_at, 2 * half), b.offset(later, ahead[2]) if ahead else later, *tile]

    start = _turned(b, start or [zero(numbers.vector)] * (rows * vectors), paired, vectors, numbers.blocks.sums_of_rows)
    tile = b.loop(0, chunks, 1, [a, b_panel, ahead[0] if ahead else b_panel, *start], chunk)[3:]
    return _turned(b, tile, paired, vectors, numbers.blocks.rows_of_sums)


def _turned(b, tile, paired, vectors, turn):
    """The tile with the sums of each pair of rows rearranged by `turn`, vector by vector."""
    tile = list(tile)
    for r in range(0, paired, 2):
        for j in range(vectors):
            here, below = r * vectors + j, (r + 1) * vectors + j
            tile[here], tile[below] = turn(b, tile[here], tile[below])
    return tile


def _two_rows(b, numbers, a, a_row, next_word):
    """Two words along k of two rows of A, for every 128 bits of a vector."""
    pair = vector(numbers.word, 2)
    if next_word == numbers.word.bytes:  # words of a row are contiguous
        there = [b.load(pair, b.offset(a, row), align=numbers.word.bytes) for row in (0, a_row)]
        both = b.shuffle(*there, [0, 1, 2, 3])
    else:
        there = [b.load(pair, b.offset(a, k), align=numbers.word.bytes) for k in (0, next_word)]
        both = b.shuffle(*there, [0, 2, 1, 3])
    if numbers.lanes == 4:
        return both
    twice = b.bitcast(both, vector(i64, 2))
    return b.bitcast(b.shuffle(twice, twice, [0, 1] * (numbers.lanes // 4)), numbers.words)


class Store:
    """The store of a tile: accumulators are added to earlier partial sums, pass the epilogue, and go to the output."""

    def __init__(self, numbers, out, epilogue, first_slot):
        self.numbers = numbers
        self.out = out
        self.epilogue = epilogue
        self.first_slot = first_slot

    def finish(self, b, args, total, place, batch, row, column, mask):
        """One vector of final sums: epilogue, conversion, store."""
        if self.epilogue.emit is not None:
            slots = self.epilogue.values(b, args, self.first_slot)
            total = self.epilogue.emit(b, total, batch, row, column, place, mask, slots)
        elif self.numbers.tiles == "bf16ps":
            total = halves.rounded_operand(b, total, self.out)  # AMX tiles hold no denormals
        b.store(b.convert(total, self.out), place, mask=mask)

    def fetch(self, b, args, out, out_stride, rows, vectors, begin=0):
        """Prefetch the memory of a tile's rows from `begin` on before they are computed."""
        slots, width = self.epilogue.values(b, args, self.first_slot), vectors * self.numbers.lanes * self.out.bytes

        def row(r, _):
            for at in (*range(0, width, 64), width - 1):
                self.epilogue.fetch(b, b.offset(out, b.add(b.mul(out_stride, r), at)), slots)

        b.loop(begin, rows, 1, [], row)


def fetch_rows(b, place, stride, rows, width):
    """Prefetch the memory of `rows` rows, `width` bytes each, that will be written."""
    def row(r, _):
        for at in (*range(0, width, 64), width - 1):
            b.prefetch(b.offset(place, b.add(b.mul(stride, r), at)), write=True)

    b.loop(0, rows, 1, [], row)


PARAMETERS = [("args", ptr), ("a", ptr), ("panel", ptr), ("chunks", i64), ("out", ptr), ("out_stride", i64),
              ("partial", ptr), ("partial_stride", i64), ("stage", i64), ("rows_left", i64), ("columns_left", i64),
              ("batch", i64), ("row", i64), ("column", i64)]
LATER = [("ahead", ptr), ("ahead_line", i64), ("ahead_step", i64)]  # what a tile prefetches in addition
FIRST, LAST = 1, 2  # bits of `stage`: no partial sums exist yet; these sums are the final ones


def write_tile(module, name, numbers, rows, vectors, a_row, a_step, store, ahead=False):
    """A function that computes one tile and stores it; its parameters are PARAMETERS, strides in bytes.

    `partial` holds sums in the accumulator's type between blocks of k; with `ahead`, LATER are further parameters, for
    prefetching.
    """
    f = module.function(name, PARAMETERS + LATER * ahead, internal=True)
    (args, a, panel, chunks, out, out_stride, partial, partial_stride, stage, rows_left, columns_left,
     batch, row, column, *later) = f.parameters
    lanes, bytes_ = numbers.lanes, numbers.accumulator.bytes
    width = vectors * lanes
    first, last = (f.compare("!=", f.and_(stage, bit), 0) for bit in (FIRST, LAST))
    there, bytes_wide = f.minimum(rows_left, rows), width * bytes_
    f.when(last, lambda: store.fetch(f, args, out, out_stride, there, vectors),
           lambda: fetch_rows(f, partial, partial_stride, there, bytes_wide))
    tile = sums(f, numbers, rows, vectors, a, a_row, a_step, panel, chunks, ahead=later if ahead else None)

    def place(base, stride, r, j, size):
        return f.offset(base, f.add(f.mul(stride, r), j * lanes * size))

    def whole():
        def earlier():
            return [f.add(tile[r * vectors + j], f.load(numbers.vector, place(partial, partial_stride, r, j, bytes_)))
                    for r in range(rows) for j in range(vectors)]

        totals = f.when(first, lambda: tile, earlier)

        def final():
            if store.epilogue.emit is None:
                for r in range(rows):
                    one_row(r, totals[r * vectors:(r + 1) * vectors])
                return
            # an epilogue is long: written once, for sums that pass through memory
            buffer = f.alloca(numbers.vector, rows * vectors)
            for k, value in enumerate(totals):
                f.store(value, f.offset(buffer, k * lanes * bytes_))
            f.loop(0, rows, 1, [], lambda r, _: one_row(r, [
                f.load(numbers.vector, f.offset(buffer, f.add(f.mul(r, width * bytes_), j * lanes * bytes_)))
                for j in range(vectors)]))

        def one_row(r, values):
            for j, value in enumerate(values):
                store.finish(f, args, value, place(out, out_stride, r, j, store.out.bytes), batch, f.add(row, r),
                             f.add(column, j * lanes), None)

        def keep():
            for r in range(rows):
                for j in range(vectors):
                    f.store(totals[r * vectors + j], place(partial, partial_stride, r, j, bytes_))

        f.when(last, final, keep)

    def edge():
        # through memory, a row at a time: edges are few, and straight code for them would double the function
        buffer = f.alloca(numbers.vector, rows * vectors)
        for k, value in enumerate(tile):
            f.store(value, f.offset(buffer, k * lanes * bytes_))

        def one_row(r, _):
            for j in range(vectors):
                f.when(f.compare(">", columns_left, j * lanes), lambda j=j: one_vector(r, j))

        def one_vector(r, j):
            mask = f.lane_mask(f.sub(columns_left, j * lanes), lanes)
            total = f.load(numbers.vector, f.offset(buffer, f.add(f.mul(r, width * bytes_), j * lanes * bytes_)))
            waiting = place(partial, partial_stride, r, j, bytes_)
            total, = f.when(first, lambda: [total], lambda: [f.add(total, f.load(numbers.vector, waiting, mask=mask))])
            f.when(last,
                   lambda: store.finish(f, args, total, place(out, out_stride, r, j, store.out.bytes), batch,
                                        f.add(row, r), f.add(column, j * lanes), mask),
                   lambda: f.store(total, waiting, mask=mask))

        f.loop(0, f.minimum(rows_left, rows), 1, [], one_row)

    full = f.and_(f.compare(">=", rows_left, rows), f.compare(">=", columns_left, width))
    f.when(full, whole, edge)
    f.ret()
    return f
