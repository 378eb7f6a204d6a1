"""AMX tiles: eight registers of 16 rows of 64 bytes each, and the instructions that multiply them (Intel AMX).

A tile holds 16 x 16 sums of 32 bits, 16 rows of an operand with 16 words along k, or 16 words along k of 16 columns.  A
word is two bfloat16 or four 8-bit integers, as in vector dot products.

Templates use only eight instructions of them.  If the CPU lacks them and the setting is `RUSHLIGHT_CPU=amx-model`, the
same templates run on a model in plain vectors: a tile is a kilobyte of memory, and results agree bit for bit.
"""

from .types import f32, i32, i64, ptr, vector, void
from .values import constant, zero

ROWS = 16       # of a tile
ROW_BYTES = 64
WORDS = 16      # of 32 bits in a row
TILE_BYTES = ROWS * ROW_BYTES
COUNT = 8       # AMX tiles
_ROW = vector(i32, WORDS)
_LEAST = 2.0 ** -126  # below it floats count as zero, in operands and in results


def tiles_of(b, heights=(), widths=()):
    """The AMX tiles of a function that is being emitted, or their model; `heights` and `widths` as in
    ``configured``."""
    return Tiles(b) if b.features.tiles == "amx" else Model(b, heights, widths)


def configured(b, body, heights=(), widths=()):
    """Emit `body()` between the configuration of the tiles and their release; functions called there may use tiles.
    `heights`: rows of each tile, `widths`: bytes of a row; all if not given.  Sums and their rows of operands have the
    same height, and columns have a row for each word of these."""
    if b.features.tiles != "amx":
        body()
        return
    columns = [byte for width in widths or [ROW_BYTES] * COUNT for byte in (width, 0)]
    shape = [1, *[0] * 15, *columns, *[0] * 16, *(heights or [ROWS] * COUNT), *[0] * 8]
    text = "".join(f"\\{byte:02X}" for byte in shape)
    where = b.module.data("tile_shapes", f"[{len(shape)} x i8]", f'c"{text}"', constant=True)
    b.call("llvm.x86.ldtilecfg", [where])
    body()
    b.call("llvm.x86.tilerelease", [])


class Tiles:
    """The CPU's AMX tiles, by number."""

    def __init__(self, b):
        self.b = b

    def zero(self, tile):
        """Set all its bits to zero."""
        self._call("tilezero", [], tile)

    def load(self, tile, pointer, stride, passing=False):
        """Load its rows, `stride` bytes (i64) apart.  `passing`: they should not evict others from the L1 cache."""
        stride = constant(i64, stride) if isinstance(stride, int) else stride
        self._call("tileloaddt164" if passing else "tileloadd64", [pointer, stride], tile)

    def store(self, tile, pointer, stride):
        """Store its rows, `stride` bytes (i64) apart."""
        self._call("tilestored64", [pointer, constant(i64, stride) if isinstance(stride, int) else stride], tile)

    def multiply_add(self, kind, total, rows, columns):
        """Add the matmul of two tiles of operands to a tile of sums.  `kind`: "bf16ps", or "bssd" and so on: s or u for
        the signedness of either's bytes."""
        self._call(f"tdp{kind}", [], total, rows, columns)

    def _call(self, name, arguments, *tiles):
        b = self.b
        types = ["i8 immarg"] * len(tiles) + [str(a.type) for a in arguments]
        b.module.declare(f"llvm.x86.{name}", void, types)
        written = [f"i8 {tile}" for tile in tiles] + [f"{a.type} {a.text}" for a in arguments]
        b.do(f"call void @llvm.x86.{name}({', '.join(written)})")


class Model:
    """The same registers in memory."""

    def __init__(self, b, heights, widths):
        self.b, self.heights, self.widths = b, heights or (ROWS,) * COUNT, widths or (ROW_BYTES,) * COUNT
        self.memory = b.alloca(_ROW, COUNT * ROWS)

    def zero(self, tile):
        """Set all its bits to zero."""
        self._rows(lambda row: self.b.store(zero(_ROW), self.b.offset(self.at(tile), row)))

    def load(self, tile, pointer, stride, passing=False):
        """Load its rows, `stride` bytes (i64) apart."""
        if (self.heights[tile], self.widths[tile]) != (ROWS, ROW_BYTES):
            self.zero(tile)
        self._move(self.at(tile), ROW_BYTES, pointer, stride, tile)

    def store(self, tile, pointer, stride):
        """Store its rows, `stride` bytes (i64) apart."""
        self._move(pointer, stride, self.at(tile), ROW_BYTES, tile)

    def multiply_add(self, kind, total, rows, columns):
        """Add the matmul of two tiles of operands to a tile of sums."""
        name, module = f"tile_{kind}", self.b.module
        if name not in module.functions:
            _write_multiply_add(module.function(name, [("total", ptr), ("rows", ptr), ("columns", ptr)], internal=True),
                                kind)
        self.b.call(module.functions[name], [self.at(total), self.at(rows), self.at(columns)])

    def at(self, tile):
        """Address of a tile."""
        return self.b.offset(self.memory, tile * TILE_BYTES)

    def _rows(self, body):
        self.b.loop(0, TILE_BYTES, ROW_BYTES, [], lambda at, _: body(at))

    def _move(self, target, target_stride, source, source_stride, tile):
        b, words = self.b, vector(i32, self.widths[tile] // 4)

        def row(r, _):
            found = b.load(words, b.offset(source, b.mul(r, source_stride)), align=1)
            b.store(found, b.offset(target, b.mul(r, target_stride)), align=1)

        b.loop(0, self.heights[tile], 1, [], row)


def _write_multiply_add(b, kind):
    """Emit the function that emulates the instruction of this kind on three tiles in memory."""
    total, rows, columns = b.parameters

    def row(r, _):
        place, own = b.offset(total, b.mul(r, ROW_BYTES)), b.offset(rows, b.mul(r, ROW_BYTES))
        products = _pairs if kind == "bf16ps" else _bytes

        def step(k, sums):
            word = b.splat(b.load(i32, b.offset(own, b.mul(k, 4))), WORDS)
            return products(b, kind, word, b.load(_ROW, b.offset(columns, b.mul(k, ROW_BYTES))), sums)

        if kind == "bf16ps":
            floats = vector(f32, WORDS)
            even, odd = b.loop(0, WORDS, 1, [zero(floats)] * 2, step)
            b.store(_flushed(b, b.add(b.load(floats, place), _flushed(b, b.add(even, odd)))), place)
        else:
            b.store(b.loop(0, WORDS, 1, [b.load(_ROW, place)], step)[0], place)

    b.loop(0, ROWS, 1, [], row)
    b.ret()


def _pairs(b, kind, x, y, sums):
    """Sums of products of the even and of the odd bfloat16 of words."""
    floats = vector(f32, WORDS)
    halves = [[_flushed(b, b.bitcast(bits, floats)) for bits in (b.shl(words, 16), b.and_(words, -1 << 16))]
              for words in (x, y)]
    return [_flushed(b, b.fma(left, right, sum)) for left, right, sum in zip(*halves, sums)]


def _bytes(b, kind, x, y, sums):
    """Sums of products of the four bytes of words, with the kind's signedness."""
    total, = sums
    for shift in (24, 16, 8, 0):
        left, right = (b.ashr(b.shl(words, shift), 24) if sign == "s" else b.lshr(b.shl(words, shift), 24)
                       for words, sign in ((x, kind[1]), (y, kind[2])))
        total = b.add(total, b.mul(left, right))
    return [total]


def _flushed(b, x):
    """The floats with denormals replaced by zeros of the same sign."""
    bits = b.bitcast(x, _ROW)
    return b.select(b.compare("<", b.abs(x), _LEAST), b.bitcast(b.and_(bits, -1 << 31), x.type), x)
