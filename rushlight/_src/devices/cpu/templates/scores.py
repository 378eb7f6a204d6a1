"""Matmuls of attention's blocks, for scores and for outputs, in vector registers or AMX tiles."""

from dataclasses import dataclass

from ..llvm import tiles
from ..llvm.types import f32, i64, ptr
from . import tiled
from .contraction import CHUNK, numbers, tile_numbers
from .registers import register_tiles
from .tile import sums
from .tune import pick


@dataclass(frozen=True)
class ScoreBlock:
    """Number of queries and keys of a block of scores, which stays in the caches. Multiples of every tile's rows and
    width."""

    queries: int
    keys: int


TILE = 32, 2  # (rows, vectors) of a tile of sums in four AMX tiles


def numbers_of(dtype, few):
    """Return the Numbers of attention in a dtype; `few`: so few queries that AMX tiles would stay nearly empty."""
    return numbers(dtype) if few else tile_numbers(dtype) or numbers(dtype)


def tile_of(kind, rows, columns, block):
    """Return the (rows, vectors) of a matmul tile: one that divides the block, and wastes little of `rows` x `columns`
    scores."""
    if kind.tiles:
        return (tiles.ROWS if rows <= tiles.ROWS else TILE[0]), TILE[1]
    there = -(-columns // kind.lanes)
    costs = [(-(-rows // tile[0]) * -(-there // tile[1]) * cycles, k, tile)
             for k, (tile, cycles) in enumerate(register_tiles(kind.flips))
             if not (block.queries % tile[0] or block.keys % tile[0] or block.keys % (tile[1] * kind.lanes))]
    return pick("tile", [tile for *_, tile in sorted(costs)[:3]])


def write_scores(module, numbers, tile, row_floats, name="scores"):
    """A function (rows as quads, panel, chunks, target) that computes a matmul tile into rows of `row_floats`."""
    rows, vectors = tile
    f = module.function(name, [("a", ptr), ("panel", ptr), ("chunks", i64), ("out", ptr)], internal=True)
    a, panel, chunks, out = f.parameters
    word = numbers.word.bytes
    if numbers.tiles:
        registers = tiles.tiles_of(f)
        for register in range(rows // tiles.ROWS * vectors):
            registers.zero(register)
        tiled.write_sums(f, registers, numbers, rows, vectors, a, panel, chunks)
        move(f, registers.store, rows, vectors, out, row_floats * 4)
    else:
        totals = sums(f, numbers, rows, vectors, a, CHUNK * word, rows * CHUNK * word, panel, chunks)
        for r in range(rows):
            for j in range(vectors):
                f.store(totals[r * vectors + j], f.offset(out, (r * row_floats + j * numbers.lanes) * 4))
    f.ret()
    return f


def write_products(module, numbers, tile, a_row, a_step, name):
    """A function (a, panel, chunks, sums) that adds a matmul tile to sums, whose rows are as long as the tile. Rows of
    A are `a_row` bytes apart; a step along k takes `a_step`."""
    rows, vectors = tile
    f = module.function(name, [("a", ptr), ("panel", ptr), ("chunks", i64), ("out", ptr)], internal=True)
    a, panel, chunks, out = f.parameters
    if numbers.tiles:
        add_tiles(f, numbers, tile, a, panel, chunks, out, vectors * numbers.lanes * 4, a_row, a_step)
    else:
        places = [f.offset(out, k * numbers.vector.bytes) for k in range(rows * vectors)]
        totals = sums(f, numbers, rows, vectors, a, a_row, a_step, panel, chunks,
                      [f.load(numbers.vector, at) for at in places])
        for total, at in zip(totals, places):
            f.store(total, at)
    f.ret()
    return f


def write_turned_products(module, numbers, tile, row, name):
    """A function (transposed quads, words, chunks, sums) of AMX tiles that adds a matmul tile to sums; rows of words
    and of sums are `row` bytes apart."""
    f = module.function(name, [("a", ptr), ("words", ptr), ("chunks", i64), ("out", ptr)], internal=True)
    a, words, chunks, out = f.parameters
    add_tiles(f, numbers, tile, a, words, chunks, out, row, b_row=row)
    f.ret()
    return f


def write_values(module, numbers, tile, row_bytes):
    """A function (probabilities in rows of `row_bytes`, panel, chunks, sums, corrections) that multiplies sums by their
    row's correction and adds a matmul tile."""
    rows, vectors = tile
    f = module.function("values", [("a", ptr), ("panel", ptr), ("chunks", i64), ("out", ptr), ("corrections", ptr)],
                        internal=True)
    a, panel, chunks, out, corrections = f.parameters
    lanes, width = numbers.lanes, vectors * numbers.lanes
    step = numbers.chunk * numbers.word.bytes

    if numbers.tiles:
        for first in range(0, rows, lanes):
            correct_tiles(f, numbers, vectors, f.offset(out, first * width * 4), f.offset(corrections, first * 4))
        add_tiles(f, numbers, tile, a, panel, chunks, out, width * 4, row_bytes, step)
    else:
        start = [total for r in range(rows) for total in corrected(f, numbers, vectors, f.offset(out, r * width * 4),
                                                                   f.offset(corrections, r * 4))]
        totals = sums(f, numbers, rows, vectors, a, row_bytes, step, panel, chunks, start)
        for k, total in enumerate(totals):
            f.store(total, f.offset(out, k * lanes * 4))
    f.ret()
    return f


def corrected(f, numbers, vectors, out, correction):
    """A row of sums times its correction."""
    factor = f.splat(f.load(f32, correction), numbers.lanes)
    return [f.mul(f.load(numbers.vector, f.offset(out, j * numbers.lanes * 4)), factor) for j in range(vectors)]


def correct_tiles(f, numbers, vectors, out, corrections):
    """Multiply a vector's count of rows of sums by their corrections, unless all of these are 1."""
    lanes = numbers.lanes
    changed = f.reduce("or", f.compare("!=", f.load(numbers.vector, corrections, align=4), 1.0))

    def row(r, _):
        place = f.offset(out, f.mul(r, vectors * lanes * 4))
        for j, total in enumerate(corrected(f, numbers, vectors, place, f.offset(corrections, r, f32))):
            f.store(total, f.offset(place, j * lanes * 4))

    f.when(changed, lambda: f.loop(0, lanes, 1, [], row) and None)


def add_tiles(f, numbers, tile, a, panel, chunks, out, out_row, a_row=tiles.ROW_BYTES, a_step=None, b_row=None):
    """Add a matmul to a tile of sums in memory, whose rows are `out_row` bytes apart."""
    registers = tiles.tiles_of(f)
    move(f, registers.load, *tile, out, out_row)
    tiled.write_sums(f, registers, numbers, *tile, a, panel, chunks, a_row=a_row, a_step=a_step, b_row=b_row)
    move(f, registers.store, *tile, out, out_row)


def move(f, act, rows, vectors, out, out_row):
    """Load or store a tile of sums, whose rows are `out_row` bytes apart."""
    for k in range(rows // tiles.ROWS * vectors):
        act(k, f.offset(out, k // vectors * tiles.ROWS * out_row + k % vectors * tiles.ROW_BYTES), out_row)
