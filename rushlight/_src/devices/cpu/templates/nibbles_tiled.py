"""Matrix multiplication by int4 weights in AMX tiles: blocks of weights are converted to bfloat16 in the L1 cache, and
tiles are multiplied by them.

With few rows, weights are converted to q + 128, which bit operations give exactly: 128 is a bfloat16 whose last bit
counts ones.  The sums of each group along k are scaled when they leave the tiles; an additional tile of ones sums up x,
and 136 times that sum is subtracted.  With many rows, weights are scaled and rounded first, a few hundred along k at a
time.
"""

from ..llvm import jit, tiles
from ..llvm.values import constant, zero
from ..llvm.halves import rounded_operand
from ..llvm.types import bf16, f32, i8, i16, i32, i64, vector
from .nibbles_words import AHEAD, BLOCK, MIDDLE, POINTERS, SLOTS, fetch_scales, meant, pairs
from .units import Units

BASE = 128             # offset of the converted weights: the bfloat16 has the bits BASE_BITS
BASE_BITS = 0x4300
DEEP = 2 * tiles.WORDS              # elements along k of a tile
ACROSS = BLOCK // tiles.WORDS       # tiles of a block
CHUNK_BYTES = ACROSS * tiles.TILE_BYTES
PART = 256             # elements along k whose scaled weights are kept for many rows
FEW = tiles.ROWS
_SUMMED, _ONES, _ROWS, _WEIGHTS = range(ACROSS, tiles.COUNT)  # tiles after those of sums
_WORDS, _FLOATS = vector(i32, tiles.WORDS), vector(f32, tiles.WORDS)


def few_kernel(rows):
    """Return the address of the kernel that computes blocks of 64 columns for `rows` rows."""
    return jit.build(f"nibbles tiled few {rows}", lambda: _few_text(rows), ["nibbles"])["nibbles"]


def many_kernel():
    """The same for at least as many rows as tiles have."""
    return jit.build("nibbles tiled many", _many_text, ["nibbles"])["nibbles"]


def _few_text(rows):
    heights = tuple(tiles.ROWS if tile in (_ONES, _WEIGHTS) else rows for tile in range(tiles.COUNT))
    kernel = Units("nibbles", SLOTS, POINTERS)
    return kernel.text(_Few(kernel.f, kernel.s, rows, heights).unit, tiles=True, heights=heights)


def _many_text():
    kernel = Units("nibbles", SLOTS, POINTERS)
    return kernel.text(_Many(kernel.f, kernel.s).unit, tiles=True)


class _Few:
    """Emits a block for few rows."""

    def __init__(self, f, s, rows, heights):
        self.f, self.s, self.rows = f, s, rows
        self.tiles = tiles.tiles_of(f, heights)
        self.ones = f.alloca(_WORDS, tiles.ROWS)
        self.panels = f.alloca(_WORDS, 2 * CHUNK_BYTES // _WORDS.bytes)  # one is filled while the other is multiplied
        self.sums = f.alloca(_FLOATS, (ACROSS + 1) * rows)
        self.totals = f.alloca(_FLOATS, ACROSS * rows)

    def unit(self, number):
        f, s = self.f, self.s
        column = f.mul(number, BLOCK)
        weight = f.offset(s.weight, f.div(f.mul(column, s.depth), 2))
        for r in range(tiles.ROWS):
            f.store(constant(_WORDS, 0x3F803F80), f.offset(self.ones, r * tiles.ROW_BYTES))
        for k in range(ACROSS * self.rows):
            f.store(zero(_FLOATS), f.offset(self.totals, k * _FLOATS.bytes))
        self.tiles.load(_ONES, self.ones, tiles.ROW_BYTES)
        chunks, per_group = f.div(s.depth, DEEP), f.div(s.group, DEEP)
        self.unpack(weight, constant(i64, 0))

        def group(g, _):
            line = f.offset(s.scales, f.mul(f.add(f.mul(g, s.columns), column), 4))
            fetch_scales(f, bf16, line, s.columns)
            for tile in (*range(ACROSS), _SUMMED):
                self.tiles.zero(tile)
            first = f.mul(g, per_group)
            f.loop(first, f.add(first, per_group), 1, [], lambda chunk, _: self.chunk(weight, chunk, chunks))
            for tile in range(ACROSS + 1):
                self.tiles.store(tile, f.offset(self.sums, tile * self.rows * tiles.ROW_BYTES), tiles.ROW_BYTES)
            self.scale(line)

        f.loop(0, s.groups, 1, [], group)

        def keep(r, _):
            place = f.offset(s.out, f.add(f.mul(r, s.columns), column), f32)
            for j in range(ACROSS):
                f.store(f.load(_FLOATS, self.total(r, j)), f.offset(place, j * tiles.ROW_BYTES), align=4)

        f.loop(0, self.rows, 1, [], keep)

    def chunk(self, weight, chunk, chunks):
        """Multiply a chunk of 32 along k, and unpack the next one."""
        f, s = self.f, self.s
        self.tiles.load(_ROWS, f.offset(s.x, f.mul(chunk, tiles.ROW_BYTES)), f.mul(s.depth, 2))
        panel = self.panel(chunk)
        self.tiles.multiply_add("bf16ps", _SUMMED, _ROWS, _ONES)
        for j in range(ACROSS):
            self.tiles.load(_WEIGHTS, f.offset(panel, j * tiles.TILE_BYTES), tiles.ROW_BYTES)
            self.tiles.multiply_add("bf16ps", j, _ROWS, _WEIGHTS)
        self.unpack(weight, f.minimum(f.add(chunk, 1), f.sub(chunks, 1)), f.add(chunk, 1))

    def panel(self, chunk):
        return self.f.offset(self.panels, self.f.mul(self.f.and_(chunk, 1), CHUNK_BYTES))

    def unpack(self, weight, chunk, turn=None):
        """Weights of a chunk as bfloat16, pairs along k in words."""
        f, kind = self.f, vector(i8, 64)
        source, panel = f.offset(weight, f.mul(chunk, DEEP * BLOCK // 2)), self.panel(chunk if turn is None else turn)
        halves = [[16 * part + lane // 4 + 32 * (lane // 2 % 2) for lane in range(64)] for part in range(2)]
        for row in range(tiles.WORDS):
            place = f.offset(source, row * BLOCK)
            f.prefetch(f.offset(place, AHEAD), locality=2)
            both = f.load(kind, place, align=1)
            for part in range(2):
                found = f.bitcast(f.shuffle(both, None, halves[part]), vector(i16, 32))  # each byte twice
                for high in range(2):
                    bits = f.lshr(found, 4) if high else found
                    value = f.or_(f.and_(bits, 15), BASE_BITS)
                    f.store(f.bitcast(value, _WORDS),
                            f.offset(panel, (2 * high + part) * tiles.TILE_BYTES + row * tiles.ROW_BYTES))

    def total(self, r, j):
        return self.f.offset(self.totals, self.f.add(self.f.mul(r, ACROSS * _FLOATS.bytes), j * _FLOATS.bytes))

    def scale(self, line):
        """Add a group's sums, scaled, to the totals."""
        f = self.f
        scaled = [pairs(f, bf16, f.offset(line, 4 * tiles.WORDS * j), tiles.WORDS) for j in range(ACROSS)]

        def row(r, _):
            at = lambda tile: f.offset(self.sums, f.add(f.mul(r, tiles.ROW_BYTES), tile * self.rows * tiles.ROW_BYTES))
            given = f.load(_FLOATS, at(ACROSS))
            for j, (scale, shift) in enumerate(scaled):
                own = f.fma(constant(_FLOATS, -float(BASE + MIDDLE)), given, f.load(_FLOATS, at(j)))
                total = f.fma(scale, own, f.load(_FLOATS, self.total(r, j)))
                f.store(f.fma(shift, given, total), self.total(r, j))

        f.loop(0, self.rows, 1, [], row)


class _Many:
    """Emits a block for many rows."""

    def __init__(self, f, s):
        self.f, self.s, self.tiles = f, s, tiles.tiles_of(f)
        self.panel = f.alloca(_WORDS, PART * BLOCK * 2 // _WORDS.bytes)
        self.rest = f.alloca(_FLOATS, ACROSS * tiles.ROWS)  # sums of the last rows, if they do not fill a tile

    def unit(self, number):
        f, s = self.f, self.s
        column = f.mul(number, BLOCK)
        weight = f.offset(s.weight, f.div(f.mul(column, s.depth), 2))
        left = f.and_(s.rows, tiles.ROWS - 1)
        whole, last = f.sub(s.rows, left), f.sub(s.rows, tiles.ROWS)
        block, row_bytes = f.offset(s.out, column, f32), f.mul(s.columns, 4)

        def part(k, _):
            deep = f.minimum(f.sub(s.depth, k), PART)
            f.loop(0, deep, DEEP, [], lambda at, _: self.scaled(weight, column, f.add(k, at), at))
            f.loop(0, whole, tiles.ROWS, [],
                   lambda row, _: self.some(row, f.offset(block, f.mul(row, row_bytes)), row_bytes, k, deep))
            # the last rows are computed with some before them
            f.when(f.compare(">", left, 0), lambda: self.some(last, self.rest, constant(i64, 4 * BLOCK), k, deep))

        def keep(r, _):
            for j in range(0, 4 * BLOCK, tiles.ROW_BYTES):
                source = f.offset(self.rest, f.add(f.mul(f.add(f.sub(tiles.ROWS, left), r), 4 * BLOCK), j))
                f.store(f.load(_FLOATS, source), f.offset(f.offset(block, f.mul(f.add(whole, r), row_bytes)), j),
                        align=4)

        f.loop(0, s.depth, PART, [], part)
        f.loop(0, left, 1, [], keep)

    def scaled(self, weight, column, k, at):
        """A chunk of 32 along k: dequantized weights, rounded to bfloat16, pairs along k in words."""
        f, s = self.f, self.s
        group = f.div(k, s.group)
        line = f.offset(s.scales, f.mul(f.add(f.mul(group, s.columns), column), 4))
        factors = [pairs(f, bf16, f.offset(line, 4 * tiles.WORDS * j), tiles.WORDS) for j in range(ACROSS)]
        panel, source = f.offset(self.panel, f.mul(at, BLOCK * 2)), f.offset(weight, f.mul(k, BLOCK // 2))

        def pair(row, _):
            lines = [f.offset(source, f.add(f.mul(row, BLOCK), half * BLOCK // 2)) for half in range(2)]
            f.prefetch(f.offset(lines[0], AHEAD))
            for part in range(2):
                found = [f.cast("zext", f.load(vector(i8, tiles.WORDS), f.offset(line, part * tiles.WORDS)), _WORDS)
                         for line in lines]
                for high in range(2):
                    scale, shift = factors[2 * high + part]
                    words = []
                    for bits in found:
                        rounded = rounded_operand(f, f.fma(meant(f, f.lshr(bits, 4) if high else bits), scale, shift),
                                                  bf16)
                        words.append(f.cast("zext", f.bitcast(rounded, vector(i16, tiles.WORDS)), _WORDS))
                    joined = f.or_(words[0], f.shl(words[1], 16))
                    f.store(joined, f.offset(panel, f.add(f.mul(row, tiles.ROW_BYTES),
                                                          (2 * high + part) * tiles.TILE_BYTES)))

        f.loop(0, tiles.WORDS, 1, [], pair)

    def some(self, row, place, stride, k, deep):
        """Multiply 16 rows by a part of the block, and add to the sums at an address."""
        f, s = self.f, self.s
        for j in range(ACROSS):
            f.when(f.compare("==", k, 0), lambda j=j: self.tiles.zero(j),
                   lambda j=j: self.tiles.load(j, f.offset(place, j * tiles.ROW_BYTES), stride))
        x = f.offset(s.x, f.add(f.mul(row, s.depth), k), bf16)

        def chunk(at, _):
            self.tiles.load(_ROWS, f.offset(x, f.mul(at, 2)), f.mul(s.depth, 2))
            for j in range(ACROSS):
                self.tiles.load(_WEIGHTS, f.offset(f.offset(self.panel, f.mul(at, BLOCK * 2)), j * tiles.TILE_BYTES),
                                tiles.ROW_BYTES)
                self.tiles.multiply_add("bf16ps", j, _ROWS, _WEIGHTS)

        f.loop(0, deep, DEEP, [], chunk)
        for j in range(ACROSS):
            self.tiles.store(j, f.offset(place, j * tiles.ROW_BYTES), stride)
