"""Convolution as matmuls whose rows are pixels: if channels are contiguous, the words of an output pixel along k are
runs of memory that tiles load directly, from the image itself or from a copy with a border (`pixels_image.py`).

C[output index, output channel] is a sum over steps along k of A[index, k] times packed weights (`pixels_weights.py`).
Output indices continue past the ends of rows, so that consecutive ones are always equally far apart in the image;
indices that are no outputs are discarded.
"""

from ..llvm import jit, tiles
from ..llvm.builder import Module
from ..llvm.types import i64, ptr
from ..llvm.values import constant, zero
from . import tiled
from .tile import Store
from .units import Slots, Units

# "places" is a table of the byte offset of each step along k in the image, "out_offsets" one of the byte offset of each
# output index in the output, -1 for none.
SLOTS = ("weights", "image", "out", "places", "out_offsets", "steps", "pixel_bytes", "count", "last", "image_tiles",
         "image_bytes", "image_group", "panel_bytes", "panels",
         "block_panels", "panel_blocks", "block_tiles", "tile_blocks", "all_tiles", "out_batch", "out_group",
         "channels")
WHERE = ("out", "number", "channel", "left", "skipped")  # destination of a tile's finished sums
UNROLLED = 4, 3, 2, 7, 5, 1  # unrolling factors of the loop over words of a step: the first that divides them


def pixel_kernel(numbers, out, rows, vectors, words, epilogue, passing=""):
    """Return the address of the kernel that computes blocks of a channels-last convolution by one register tile, with
    `words` along k a step.  `passing`: "b" if weights must not evict pixels from the L1 cache."""
    key = f"pixels {numbers} {out} {rows} {vectors} {words} {epilogue.key} {passing}"
    return jit.build(key, lambda: _text(numbers, out, rows, vectors, words, epilogue, passing), ["pixels"])["pixels"]


def shapes(numbers, rows, vectors, words):
    """(rows, bytes of a row) of each AMX tile, as configured."""
    if not numbers.tiles:
        return (), ()
    _, first, count = tiled.operands(rows, vectors)
    heights, widths = [tiles.ROWS] * tiles.COUNT, [tiles.ROW_BYTES] * tiles.COUNT
    for register in range(first["a"], first["a"] + count["a"]):
        widths[register] = words * numbers.word.bytes
    for register in range(first["b"], first["b"] + count["b"]):
        heights[register] = words
    return tuple(heights), tuple(widths)


def _text(numbers, out, rows, vectors, words, epilogue, passing):
    kernel = Units("pixels", SLOTS, ("weights", "image", "out", "places", "out_offsets"),
                   Module(many_streams=not numbers.tiles))
    f, s = kernel.f, kernel.s
    tile = (_Tiled if numbers.tiles else _Vectors)(kernel.module, numbers, rows, vectors, words,
                                                   Store(numbers, out, epilogue, len(SLOTS)), passing)
    tile.prepare(f)
    width = vectors * numbers.lanes

    def unit(number):
        tile.begin(f)
        rest = f.div(number, s.tile_blocks)
        first = f.mul(f.sub(number, f.mul(rest, s.tile_blocks)), s.block_tiles)
        group = f.div(rest, s.panel_blocks)
        panel_first = f.mul(f.sub(rest, f.mul(group, s.panel_blocks)), s.block_panels)
        panel_stop = f.minimum(f.add(panel_first, s.block_panels), s.panels)

        def pixels(p, _):
            n = f.div(p, s.image_tiles)
            wanted = f.mul(f.sub(p, f.mul(n, s.image_tiles)), rows)
            start = f.minimum(wanted, s.last)
            place = f.add(f.add(f.mul(n, s.image_bytes), f.mul(group, s.image_group)), f.mul(start, s.pixel_bytes))
            target = f.offset(s.out, f.add(f.mul(n, s.out_batch), f.mul(group, s.out_group)))

            def one(q, _):
                channel = f.mul(q, width)
                panel = f.offset(s.weights, f.mul(f.add(f.mul(group, s.panels), q), s.panel_bytes))
                f.call(tile.function, [kernel.args, f.offset(s.image, place), panel, f.offset(target, channel, out),
                                       start, f.add(f.mul(group, s.channels), channel),
                                       f.sub(s.channels, channel), f.sub(wanted, start),
                                       f.minimum(f.sub(s.count, start), rows), *tile.further])

            f.loop(panel_first, panel_stop, 1, [], one)

        f.loop(first, f.minimum(f.add(first, s.block_tiles), s.all_tiles), 1, [], pixels)
        tile.end(f, kernel.args)

    return kernel.text(unit, bool(numbers.tiles), *shapes(numbers, rows, vectors, words))


class _Tile:
    """Emits the function that computes one register tile, and the one that stores rows of it."""

    more = ()     # additional parameters of the tile's function
    further = ()  # their arguments in a kernel

    def __init__(self, module, numbers, rows, vectors, words, store, passing):
        self.passing = passing
        self.numbers, self.rows, self.vectors, self.words, self.store = numbers, rows, vectors, words, store
        where = [("out", ptr), ("number", i64), ("channel", i64), ("left", i64), ("skipped", i64)]
        self.finish = f = module.function("finish", [("args", ptr), ("sums", ptr), ("begin", i64), ("end", i64),
                                                     *where], internal=True)
        self.write_finish(f, *f.parameters)
        f.ret()
        parameters = [("args", ptr), ("image", ptr), ("panel", ptr), *where, ("there", i64), *self.more]
        self.function = f = module.function("tile", parameters, internal=True)
        self.compute(f, Slots(f, f.parameters[0], SLOTS, ("places", "out_offsets")), *f.parameters)
        f.ret()

    def prepare(self, f):
        """Emit the setup of a kernel, once for all work units."""

    def begin(self, f):
        """Emit the beginning of a work unit."""

    def end(self, f, args):
        """Emit the end of a work unit."""

    def write_finish(self, f, args, sums, begin, end, out, number, channel, left, skipped):
        """Store the rows of a tile's accumulators from `begin` to `end` that are outputs and not `skipped`."""
        lanes, table = self.numbers.lanes, Slots(f, args, SLOTS, ("out_offsets",)).out_offsets

        def row(masked):
            def body(r, _):
                offset = f.load(i64, f.offset(table, f.add(number, r), i64))
                f.when(f.compare(">=", offset, 0), lambda: vectors(r, offset, masked))
            return body

        def vectors(r, offset, masked):
            for j in range(self.vectors):
                total = f.load(self.numbers.vector,
                               f.offset(sums, f.mul(f.add(f.mul(r, self.vectors), j), self.numbers.vector.bytes)))
                place = f.offset(f.offset(out, offset), j * lanes, self.store.out)
                mask = f.lane_mask(f.sub(left, j * lanes), lanes) if masked else None
                self.store.finish(f, args, total, place, constant(i64, 0), f.add(number, r), f.add(channel, j * lanes),
                                  mask)

        begin = f.maximum(begin, skipped)
        f.when(f.compare(">=", left, self.vectors * lanes), lambda: f.loop(begin, end, 1, [], row(False)),
               lambda: f.loop(begin, end, 1, [], row(True)))

    def fetch(self, f, args, out, number, begin, end):
        """Prefetch the memory of rows before they are computed."""
        table, slots = Slots(f, args, SLOTS,
                             ("out_offsets",)).out_offsets, self.store.epilogue.values(f, args, len(SLOTS))
        size = self.vectors * self.numbers.lanes * self.store.out.bytes

        def row(r, _):
            place = f.offset(out, f.maximum(f.load(i64, f.offset(table, f.add(number, r), i64)), 0))
            for at in range(0, size, 64):
                self.store.epilogue.fetch(f, f.offset(place, at), slots)

        f.loop(begin, end, 1, [], row)


class _Tiled(tiled.WaitingTile, _Tile):
    """In AMX tiles: finished accumulators wait for the next tile."""

    where = WHERE

    def end(self, f, args):
        waiting = self.waiting
        f.when(f.compare("!=", waiting.get("rows"), 0), lambda: f.call(
            self.finish, [args, waiting.get("sums"), constant(i64, 0), waiting.get("rows"), *waiting.where()]))

    def compute(self, f, s, args, image, panel, out, number, channel, left, skipped, there, memory):
        numbers, rows, vectors = self.numbers, self.rows, self.vectors
        registers = tiles.tiles_of(f, *shapes(numbers, rows, vectors, self.words))
        waiting = tiled.Waiting(f, memory, numbers, rows, vectors, WHERE)
        squares = range(rows // tiles.ROWS * vectors)
        for register in squares:
            registers.zero(register)

        def finisher():
            sums, where = waiting.get("sums"), waiting.where()
            return lambda begin, end: f.call(self.finish, [args, sums, begin, end, *where])

        def rest(begin):
            finisher()(begin, waiting.get("rows"))
            waiting.clear()

        def fetch(begin, end):
            self.fetch(f, args, out, number, f.minimum(begin, there), f.minimum(end, there))

        tiled.multiply(f, registers, waiting, image, panel, s.steps, finisher, rest, fetch, a_row=s.pixel_bytes,
                       a_places=s.places, words=self.words, passing=self.passing)
        sums = waiting.buffer()
        for register in squares:
            at = (register // vectors * tiles.ROWS * vectors + register % vectors) * tiles.ROW_BYTES
            registers.store(register, f.offset(sums, at), vectors * tiles.ROW_BYTES)
        waiting.put(there, sums, out, number, channel, left, skipped)


class _Vectors(_Tile):
    """In vector registers: the words of a pixel are read one by one, for all lanes."""

    def compute(self, f, s, args, image, panel, out, number, channel, left, skipped, there):
        numbers, rows, vectors = self.numbers, self.rows, self.vectors
        word, stride, places = numbers.word.bytes, s.pixel_bytes, s.places
        self.fetch(f, args, out, number, constant(i64, 0), there)
        distances = [f.mul(stride, r) for r in range(rows)]
        excess = vectors if numbers.flips else 0

        def step(k, values):
            at = f.offset(image, f.load(i64, f.offset(places, k, i64)))
            together = next(n for n in UNROLLED if self.words % n == 0)

            def some(u, values):
                b_at, *sums = values
                for v in range(together):
                    columns = [f.load(numbers.words, f.offset(b_at, (v * vectors + j) * numbers.lanes * word),
                                      align=word) for j in range(vectors)]
                    for r, distance in enumerate(distances):
                        one = f.splat(f.load(numbers.word, f.offset(f.offset(at, distance), f.mul(f.add(u, v), word)),
                                             align=1), numbers.lanes)
                        for j in range(vectors):
                            sums[r * vectors + j] = numbers.multiply_add(f, one, columns[j], sums[r * vectors + j])
                    for j in range(excess):
                        sums[rows * vectors + j] = numbers.add_excess(f, columns[j], sums[rows * vectors + j])
                return [f.offset(b_at, together * vectors * numbers.lanes * word), *sums]

            return f.loop(0, self.words, together, values, some)

        found = f.loop(0, s.steps, 1, [panel, *[zero(numbers.vector)] * (rows * vectors + excess)], step)[1:]
        buffer = f.alloca(numbers.vector, rows * vectors)
        for k in range(rows * vectors):
            total = f.sub(found[k], found[rows * vectors + k % vectors]) if excess else found[k]
            f.store(total, f.offset(buffer, k * numbers.vector.bytes))
        f.call(self.finish, [args, buffer, constant(i64, 0), there, out, number, channel, left, skipped])
