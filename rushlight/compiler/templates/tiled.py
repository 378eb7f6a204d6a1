"""The register tile of blocked products in tile registers: 32 rows by 2 vectors of sums in four registers, and kin.

Operands come packed as for vector registers, rows as quads of a whole vector of words: a tile of A is a kilobyte in one piece, a
tile of B every vector of a panel.  Sums leave through memory, where the epilogue reads them.
"""

from ..llvm import tiles
from ..llvm.builder import constant
from ..llvm.types import i64
from .tile import FIRST, LAST, PARAMETERS

SHAPES = ((32, 2), (16, 4), (64, 1), (16, 3), (48, 1), (16, 2), (32, 1), (16, 1))  # (rows, vectors)
PRODUCT, LOAD = 16, 8  # cycles of an instruction


def cycles(rows, vectors):
    """Cycles of a step along k of one shape, operands in the first cache."""
    down = rows // tiles.ROWS
    return max(PRODUCT * down * vectors, LOAD * (down + vectors))


def write_sums(b, registers, numbers, rows, vectors, a, panel, chunks):
    """Adds the products of `chunks` (i64) steps along k to the sums in registers 0 and on, row by row."""
    down, word = rows // tiles.ROWS, numbers.word.bytes
    width = vectors * numbers.lanes
    held, passing = ("a", "b") if down <= vectors else ("b", "a")
    counts = {"a": down, "b": vectors}
    first = {held: down * vectors, passing: down * vectors + counts[held]}
    free = {held: counts[held], passing: tiles.COUNT - first[passing]}

    def step(_, at):
        places, strides = dict(zip("ab", at)), {"a": tiles.ROW_BYTES, "b": width * word}
        jumps = {"a": tiles.TILE_BYTES, "b": tiles.ROW_BYTES}

        def load(operand, number):
            register = first[operand] + number % free[operand]
            registers.load(register, b.offset(places[operand], number * jumps[operand]), strides[operand])
            return register

        kept = []
        for n in range(counts[passing]):
            one = load(passing, n)
            for m in range(counts[held]):
                if n == 0:
                    kept.append(load(held, m))
                pair = {passing: (n, one), held: (m, kept[m])}
                registers.multiply_add(numbers.tiles, pair["a"][0] * vectors + pair["b"][0], pair["a"][1], pair["b"][1])
        return [b.offset(places["a"], rows * tiles.ROW_BYTES), b.offset(places["b"], tiles.WORDS * width * word)]

    b.loop(0, chunks, 1, [a, panel], step)


def write_tile(module, name, numbers, rows, vectors, store):
    """A function that computes one tile and stores it; its parameters are PARAMETERS, strides in bytes.

    `partial` is where sums in the accumulator's type wait between blocks of k.
    """
    f = module.function(name, PARAMETERS, internal=True)
    (args, a, panel, chunks, out, out_stride, partial, partial_stride, stage, rows_left, columns_left,
     batch, row, column) = f.parameters
    lanes, size = numbers.lanes, numbers.accumulator.bytes
    width = vectors * lanes
    registers = tiles.tiles_of(f)
    grid = [(r * vectors + j, r * tiles.ROWS, j * lanes) for r in range(rows // tiles.ROWS) for j in range(vectors)]
    first, last = (f.compare("!=", f.and_(stage, bit), 0) for bit in (FIRST, LAST))
    full = f.and_(f.compare(">=", rows_left, rows), f.compare(">=", columns_left, width))
    goes_on = f.and_(full, f.compare("==", first, 0))

    def place(base, stride, r, j, bytes_):
        return f.offset(base, f.add(f.mul(stride, r), j * bytes_))

    def move(act, base, stride):
        for register, r, j in grid:
            act(register, place(base, stride, r, j, size), stride)

    def finish(masked):
        buffer = f.alloca(numbers.vector, rows * vectors)
        move(registers.store, buffer, constant(i64, width * size))

        def vector(r, j):
            mask = f.lane_mask(f.sub(columns_left, j), lanes) if masked else None
            total = f.load(numbers.vector, place(buffer, constant(i64, width * size), r, j, size))
            waiting = place(partial, partial_stride, r, j, size)
            if masked:  # else the registers began with what waited
                total, = f.when(first, lambda: [total], lambda: [f.add(total, f.load(numbers.vector, waiting, mask=mask))])
            final = lambda: store.finish(f, args, total, place(out, out_stride, r, j, store.out.bytes), batch, f.add(row, r), f.add(column, j), mask)
            f.when(last, final, lambda: f.store(total, waiting, mask=mask)) if masked else final()

        def one_row(r, _):
            for j in range(0, width, lanes):
                f.when(f.compare(">", columns_left, j), lambda j=j: vector(r, j)) if masked else vector(r, j)

        f.loop(0, f.minimum(rows_left, rows) if masked else rows, 1, [], one_row)

    f.when(last, lambda: store.fetch(f, args, out, out_stride, f.minimum(rows_left, rows), vectors))
    f.when(goes_on, lambda: move(registers.load, partial, partial_stride),
           lambda: [registers.zero(register) for register, *_ in grid] and None)
    write_sums(f, registers, numbers, rows, vectors, a, panel, chunks)
    plain = store.epilogue.emit is None and store.out is numbers.accumulator
    waits = full if plain else f.and_(full, f.compare("==", last, 0))
    f.when(waits, lambda: move(registers.store, partial, partial_stride), lambda: f.when(full, lambda: finish(False), lambda: finish(True)))
    f.ret()
    return f
