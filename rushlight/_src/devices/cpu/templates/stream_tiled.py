"""Skinny matmul by AMX tiles: B, whose columns are contiguous along k, is read once, directly from memory into tiles.

The roles are swapped: columns of B are the rows of tiles, and A, packed before, is the other operand.  Accumulators are
transposed before they are stored.
"""


from ..llvm import jit, tiles
from ..llvm.features import remembered
from ..llvm.types import i64
from ..llvm.values import constant
from . import tiled
from .pack import transpose
from .tile import Store
from .units import Units

SLOTS = ("b", "packed", "c", "scratch", "rows", "columns", "chunks", "b_column", "c_row", "scratch_bytes",
         "panel_bytes")
MOST = 128   # rows of A
AHEAD = 512  # prefetch distance along a column, in bytes


def grid(rows):
    """Vectors of rows of A in a panel, and columns of B in a work unit, for `rows` rows."""
    vectors = -(-rows // tiles.ROWS)
    if vectors > 4:  # the fewer rows that are not there, the better
        vectors = min((4, 2), key=lambda v: -(-vectors // v) * v)
    return vectors, max(1, 4 // vectors) * tiles.ROWS


@remembered(512)
def stream_kernel(numbers, out, vectors, down, epilogue):
    """Return the address of the kernel for panels of `vectors` vectors of rows of A, and `down` columns of B at a time;
    `numbers` are those of B times A."""
    key = f"tiled stream {numbers} {out} {vectors} {down} {epilogue.key}"
    return jit.build(key, lambda: _text(numbers, out, vectors, down, epilogue), ["stream"])["stream"]


def _text(numbers, out, vectors, down, epilogue):
    kernel = Units("stream", SLOTS, ("b", "packed", "c", "scratch"))
    f, s = kernel.f, kernel.s
    registers, store = tiles.tiles_of(f), Store(numbers, out, epilogue, len(SLOTS))
    sums, turned = (f.alloca(numbers.vector, down * vectors) for _ in range(2))
    scratch = kernel.scratch()

    def whole(pointer):
        return [pointer, s.b_column]

    def part(pointer, left):
        """Copy the last columns, which do not fill a work unit: tiles read all of their rows."""
        size = f.mul(s.chunks, tiles.ROW_BYTES)
        f.loop(0, left, 1, [],
               lambda r, _: f.copy_bytes(f.offset(scratch, f.mul(r, size)), f.offset(pointer, f.mul(r, s.b_column)),
                                         size))
        return [scratch, size]

    def unit(number):
        column = f.mul(number, down)
        left = f.sub(s.columns, column)
        pointer = f.offset(s.b, f.mul(column, s.b_column))
        at, stride = f.when(f.compare(">=", left, down), lambda: whole(pointer), lambda: part(pointer, left))

        panels = f.div(f.add(s.rows, vectors * tiles.ROWS - 1), vectors * tiles.ROWS)
        f.loop(0, panels, 1, [], lambda panel, _: one_panel(panel, at, stride, column, left))

    def fetch(place, stride):
        for r in range(down):
            f.prefetch(f.offset(place, f.mul(stride, r)), locality=2)

    def one_panel(panel, at, stride, column, left):
        def ask(step):
            f.when(f.compare("==", panel, 0),
                   lambda: fetch(f.offset(at, f.add(f.mul(step, tiles.ROW_BYTES), AHEAD)), stride))

        for register in range(down // tiles.ROWS * vectors):
            registers.zero(register)
        packed = f.offset(s.packed, f.mul(panel, s.panel_bytes))
        tiled.write_sums(f, registers, numbers, down, vectors, at, packed, s.chunks, ask, stride, tiles.ROW_BYTES)
        for r in range(down // tiles.ROWS):
            for j in range(vectors):
                registers.store(r * vectors + j, f.offset(sums, (r * tiles.ROWS * vectors + j) * tiles.ROW_BYTES),
                                vectors * tiles.ROW_BYTES)
        _turn(f, numbers, sums, turned, down, vectors)
        first = f.mul(panel, vectors * tiles.ROWS)
        f.loop(0, f.minimum(f.sub(s.rows, first), vectors * tiles.ROWS), 1, [],
               lambda r, _: finish(r, f.add(first, r), column, left))

    def finish(r, row, column, left):
        line = f.offset(f.offset(s.c, f.mul(row, s.c_row)), column, out)
        for g in range(0, down, tiles.ROWS):
            total = f.load(numbers.vector, f.offset(turned, f.add(f.mul(r, 4 * down), 4 * g)))
            mask = f.lane_mask(f.sub(left, g), tiles.ROWS)
            f.when(f.compare(">", left, g), lambda g=g, total=total, mask=mask: store.finish(
                f, kernel.args, total, f.offset(line, g * out.bytes), constant(i64, 0), row, f.add(column, g), mask))

    return kernel.text(unit, tiles=True)


def _turn(f, numbers, source, target, rows, vectors):
    """Transpose a matrix of sums, `rows` x `vectors`."""
    def square(r, _):
        for j in range(vectors):
            words = [f.load(numbers.vector,
                            f.offset(source, f.add(f.mul(r, vectors * tiles.ROW_BYTES),
                                                   (k * vectors + j) * tiles.ROW_BYTES)))
                     for k in range(tiles.ROWS)]
            for k, column in enumerate(transpose(f, words)):
                f.store(column, f.offset(target, f.add(f.mul(r, 4), (j * tiles.ROWS + k) * rows * 4)))

    f.loop(0, rows, tiles.ROWS, [], square)
