"""Implicit-GEMM convolution in AMX tiles: the packing of weights, and the register tile.

Channels come in pairs, which are the words of images (`image.py`).  k runs over sets of 16 pairs, over taps, over the
pairs of a set, so that weights are packed by transposing squares; the last set has a power of two of pairs.  The words
of some output indices are copied from the image into a panel, which all tiles of rows read.
"""

from ..llvm import jit, tiles
from ..llvm.types import i64, vector
from ..llvm.values import constant, zero
from . import implicit, pack, tiled
from .elements import join
from .units import Units

# "places" is a table of (byte offset, further bytes for each set, byte offset in the last set) of each position in a
# line of weights, "blanks" one of the vectors that end the words of a row.
WEIGHT_SLOTS = ("weights", "packed", "places", "blanks", "rows", "group_tiles", "group_stride", "row_stride",
                "channels", "channel_stride", "line",
                "blank_count", "tile_bytes")


def sets(channels):
    """Return (full sets of pairs, pairs of the last set) of `channels` channels.

    Example:
        >>> sets(64), sets(40), sets(3)
        ((2, 0), (1, 4), (0, 2))
    """
    whole, rest = divmod(channels, 2 * tiles.WORDS)
    return whole, rest and 1 << (-(-rest // 2) - 1).bit_length()


def weight_kernel(numbers, rows, last, side_by_side):
    """Return the address of the kernel that packs weights into tiles of `rows` rows.

    `last`: pairs of the last set of channels.  `side_by_side`: the taps of adjacent rows are contiguous and form one
      line; else each row is a line.
    """
    key = f"tiled weights {numbers} {rows} {last} {side_by_side}"
    return jit.build(key, lambda: _weight_text(numbers, rows, last, side_by_side), ["weights"])["weights"]


def _weight_text(numbers, rows, last, side_by_side):
    kernel = Units("weights", WEIGHT_SLOTS, ("weights", "packed", "places", "blanks"))
    f, s = kernel.f, kernel.s
    half, element = vector(numbers.element, tiles.WORDS), numbers.element
    channels, channel_stride, places = s.channels, s.channel_stride, s.places

    def unit(unit):
        group = f.div(unit, s.group_tiles)
        row = f.mul(f.sub(unit, f.mul(group, s.group_tiles)), rows)
        there = f.minimum(f.sub(s.rows, row), rows)
        source = f.offset(f.offset(s.weights, f.mul(group, s.group_stride)), f.mul(row, s.row_stride))
        target = f.offset(s.packed, f.mul(unit, s.tile_bytes))

        def blank(k, _):
            at = f.offset(target, f.load(i64, f.offset(s.blanks, k, i64)))
            f.loop(0, rows, 1, [], lambda r, _: f.store(zero(numbers.words), f.offset(at, f.mul(r, tiles.ROW_BYTES))))

        f.loop(0, s.blank_count, 1, [], blank)
        if side_by_side:
            one_line(source, target, f.mul(s.line, there))
        else:
            f.loop(0, there, 1, [], lambda r, _: one_line(f.offset(source, f.mul(r, s.row_stride)),
                                                          f.offset(target, f.mul(r, tiles.ROW_BYTES)), s.line))

    def one_line(source, target, length):
        def square(q, _):
            mask = f.lane_mask(f.sub(length, q), tiles.WORDS)
            at, places_at = f.offset(source, q, element), f.offset(places, f.mul(q, 24))

            def whole(number, _):
                first = f.offset(at, f.mul(f.mul(number, 2 * tiles.WORDS), channel_stride))
                rows = [f.load(half, f.offset(first, f.mul(channel_stride, k)), mask=mask)
                        for k in range(2 * tiles.WORDS)]
                put(rows, lambda lane: f.add(f.load(i64, f.offset(places_at, 24 * lane)),
                                             f.mul(number, f.load(i64, f.offset(places_at, 24 * lane + 8)))),
                    tiles.WORDS)

            def put(rows, place, pairs):
                words = [join(f, numbers, rows[k:k + 2])
                         for k in range(0, 2 * pairs, 2)] + [zero(numbers.words)] * (tiles.WORDS - pairs)
                for lane, value in enumerate(pack.transpose(f, words)):
                    value = f.shuffle(value, None, range(pairs)) if pairs < tiles.WORDS else value
                    f.store(value, f.offset(target, place(lane)), align=4)

            sets = f.div(channels, 2 * tiles.WORDS)
            f.loop(0, sets, 1, [], whole)
            if last:
                first = f.mul(sets, 2 * tiles.WORDS)
                start, rows = f.offset(at, f.mul(first, channel_stride)), []
                for k in range(2 * last):
                    there = f.and_(mask, f.splat(f.compare(">", channels, f.add(first, k)), tiles.WORDS))
                    rows.append(f.load(half, f.offset(start, f.mul(channel_stride, k)), mask=there))
                put(rows, lambda lane: f.load(i64, f.offset(places_at, 24 * lane + 16)), last)

        f.loop(0, length, tiles.WORDS, [], square)

    return kernel.text(unit)


def write_panel(f, numbers, vectors, image, offsets, depth, target):
    """Copy `depth` (i64) words of consecutive output indices, at these offsets in the image, into a panel; zeros up to
    a full step along k."""
    width = vectors * tiles.ROW_BYTES

    def put(k, load):
        to = f.offset(target, f.mul(k, width))
        for j in range(0, width, tiles.ROW_BYTES):
            f.store(load(j), f.offset(to, j))

    def some(count):
        def body(k, _):
            for u in range(count):
                at = f.offset(image, f.load(i64, f.offset(offsets, f.add(k, u), i64)))
                put(f.add(k, u), lambda j, at=at: f.load(numbers.words, f.offset(at, j), align=4))
        return body

    whole = f.mul(f.div(depth, 4), 4)
    f.loop(0, whole, 4, [], some(4))
    f.loop(whole, depth, 1, [], some(1))
    padded = f.mul(f.div(f.add(depth, tiles.WORDS - 1), tiles.WORDS), tiles.WORDS)
    f.loop(depth, padded, 1, [], lambda k, _: put(k, lambda j: zero(numbers.words)))


WHERE = ("out", "number", "channel")  # destination of a tile's finished sums


class TiledTile(tiled.WaitingTile, implicit.Tile):
    """Emits the functions that compute one tile in AMX tiles and store it while the next one is computed; its image is
    a panel, its depth the steps along k."""

    where = WHERE

    def end(self, f, args):
        waiting = self.waiting
        f.when(f.compare("!=", waiting.get("rows"), 0), lambda: self.finish_rows(
            f, args, waiting.get("sums"), constant(i64, 0), waiting.get("rows"), waiting.where()))

    def columns(self, f, image, offsets, depth, panel):
        write_panel(f, self.numbers, self.vectors, image, offsets, depth, panel)
        return panel, f.div(f.add(depth, tiles.WORDS - 1), tiles.WORDS)

    def compute(self, f, args, operands, first, last, partial, rows, where):
        weights, panel, _, steps = operands
        waiting = tiled.Waiting(f, f.parameters[-1], self.numbers, self.rows, self.vectors, WHERE)

        def finisher():
            sums, there = waiting.get("sums"), waiting.where()
            return lambda begin, end: self.finish_rows(f, args, sums, begin, end, there)

        def rest(begin):
            finisher()(begin, waiting.get("rows"))
            waiting.clear()

        finishing = finisher, rest, lambda sums: waiting.put(rows, sums, *where)
        tiled.write_products(f, waiting, weights, panel, steps, first, last, partial, finishing)
