"""Dropout within attention's kernels: the kept weights are selected block by block, by the tiles of
``ops/dropping.py``, in the forward and again in the backward pass."""

from ....ops.dropping import KEYS, LEVELS, QUERIES
from ..llvm import scalars
from ..llvm.types import Type, f32, i1, i16, i32, i64, ptr, vector

# The seed and offset of the RNG stream; random words below "threshold" are dropped; a head has "row_tiles" by
# "column_tiles" tiles; the bits of kept weights are at "kept_at"; "larger" are the bits of their factor, a float.
SLOTS = ("seed", "place", "threshold", "row_tiles", "column_tiles", "kept_at", "larger")


def row_bytes(keys):
    """Bytes of bits of a row of a block."""
    return keys // 8


def scale(b, s):
    """The factor of kept weights."""
    return b.bitcast(b.cast("trunc", s.larger, i32), f32)


def write_keep(module, keys):
    """A function (bits, first block of the stream, rows of tiles, tiles of a row, blocks from one row of tiles to the
    next, seed, threshold): writes a bit for each query and key of a block, rows of `keys` bits, 1 for kept elements."""
    f = module.function("keep", [("bits", ptr), ("first", i64), ("rows", i64), ("columns", i64), ("step", i64),
                                 ("seed", i64),
                                 ("threshold", i64)], internal=True)
    bits, first, rows, columns, step, seed, limit = f.parameters
    streams = [[f.splat(k, KEYS) for k in pair] for pair in scalars.philox_keys(f, seed)]
    limit = f.splat(limit, KEYS)

    def tile(row, column):
        block = f.add(f.add(first, f.mul(row, step)), f.mul(column, KEYS))
        words = scalars.philox_words(f, streams, f.add(f.splat(block, KEYS), f.lane_indices(KEYS)))
        target = f.offset(f.offset(bits, f.mul(row, QUERIES * row_bytes(keys))), column, i16)
        for k, word in enumerate(words):
            for half, value in enumerate((f.and_(word, LEVELS - 1), f.and_(f.lshr(word, 16), LEVELS - 1))):
                kept = f.bitcast(f.compare(">=", value, limit), i16)
                f.store(kept, f.offset(target, (2 * k + half) * row_bytes(keys)))

    f.loop(0, rows, 1, [], lambda row, _: f.loop(0, columns, 1, [], lambda column, _: tile(row, column)))
    f.ret()
    return f


def decide(b, s, keep, bits, head, row, rows, key, count):
    """Write the bits of `rows` queries from `row` on and `count` keys from `key` on, both multiples of a tile, of a
    head by its index."""
    step = b.mul(s.column_tiles, KEYS)
    first = b.add(b.mul(b.add(b.mul(head, s.row_tiles), b.div(row, QUERIES)), step), key)
    tall, wide = (b.div(b.add(n, size - 1), size) for n, size in ((rows, QUERIES), (count, KEYS)))
    b.call(keep, [bits, b.add(s.place, first), tall, wide, step, s.seed, s.threshold])


def kept_lanes(b, bits, k, lanes):
    """Mask of the kept ones of `lanes` elements from k on, from a row's bits."""
    found = b.load(i16, b.offset(bits, b.lshr(k, 4), i16))
    if lanes < KEYS:
        shift = b.cast("trunc", b.and_(k, KEYS - 1), i16)
        found = b.cast("trunc", b.lshr(found, shift), Type(f"i{lanes}", "int", lanes))
    return b.bitcast(found, vector(i1, lanes))
