"""Implicit GEMM: convolution as a matmul whose right operand is never materialized.

C[output channel, output index] is a sum over k = (input channel, tap) of weights[output channel, k] times
image[offset(k) + output index], with the images of `image.py`. An earlier kernel call packs weights into quads.
"""

from ..llvm import jit
from ..llvm.builder import Module
from ..llvm.types import i16, i64, ptr, vector
from ..llvm.values import constant, zero
from .contraction import CHUNK
from .elements import Strided
from .pack import write_quads
from .units import Slots, Units

# The slots of the kernels that pack weights: "offsets" is a table of byte offsets of each k.
WEIGHT_SLOTS = ("weights", "packed", "offsets", "rows", "depth", "row_stride", "group_stride", "group_tiles",
                "tile_bytes",
                "blocks", "run", "elements", "second", "pairs")
SLOTS = ("weights", "image", "out", "scratch", "k_offsets", "out_offsets", "rows", "depth", "block_tiles", "row_blocks",
         "block_panels", "panel_blocks", "block_depth", "panels_per_image", "panels", "group_tiles", "tile_bytes",
         "image_bytes", "image_group_bytes", "out_batch", "out_group", "out_row", "scratch_bytes", "partial_bytes",
         "partials", "panel_at")


def weight_kernel(numbers, rows, contiguous):
    """Return the address of the kernel that packs weights into quads.

    `contiguous`: the weights of a row are contiguous in the order of k, and a work unit is a tile of rows. Else a table
    gives the offset of each k, and a work unit is a block along k for all rows: rows are close in memory, and reading
    them tile by tile would return to every cache set many times; such a block has "run" words. A word of two takes the
    other "second" bytes on, up to "pairs" along k.
    """
    write = _write_tile_of_rows if contiguous else _write_block_along_k
    key = f"weights {numbers} {rows} {contiguous}"
    return jit.build(key, lambda: _weight_text(numbers, rows, write), ["weights"])["weights"]


def _weight_text(numbers, rows, write):
    kernel = Units("weights", WEIGHT_SLOTS, ("weights", "packed", "offsets"))
    return kernel.text(lambda unit: write(kernel.f, kernel.s, numbers, rows, unit))


def _write_tile_of_rows(f, s, numbers, rows, unit):
    group = f.div(unit, s.group_tiles)
    first = f.mul(f.sub(unit, f.mul(group, s.group_tiles)), rows)
    stride = s.row_stride
    source = f.offset(f.offset(s.weights, f.mul(group, s.group_stride)), f.mul(first, stride))
    target = f.offset(s.packed, f.mul(unit, s.tile_bytes))
    write_quads(f, rows, Strided(f, numbers, source, lane=stride), target, f.minimum(f.sub(s.rows, first), rows),
                s.elements)


def _write_block_along_k(f, s, numbers, rows, unit):
    word, stride = numbers.word, s.row_stride
    group = f.div(unit, s.blocks)
    first = f.mul(f.sub(unit, f.mul(group, s.blocks)), s.run)
    stop = f.minimum(f.add(first, s.run), s.depth)
    weights = f.offset(s.weights, f.mul(group, s.group_stride))

    def one(at, k):
        value = f.load(numbers.element, at)
        if numbers.per_word == 1:
            return f.convert(value, word)
        paired = f.compare("<", k, s.pairs)
        other = f.load(i16, f.offset(at, f.select(paired, s.second, 0)))
        other = f.select(paired, f.cast("zext", other, word), 0)
        return f.or_(f.cast("zext", f.bitcast(value, i16), word), f.shl(other, 16))

    def tile(t, _):
        row = f.mul(t, rows)
        source = f.offset(weights, f.mul(row, stride))
        target = f.offset(s.packed, f.mul(f.add(f.mul(group, s.group_tiles), t), s.tile_bytes))
        last = f.sub(f.sub(s.rows, row), 1)
        # rows that are not there repeat the last one; their sums are thrown away
        places = [f.mul(f.minimum(constant(i64, r), last), stride) for r in range(rows)]
        ahead = f.mul(stride, 2 * rows)  # short runs far apart: the CPU does not prefetch the next ones

        def column(k, _):
            at = f.offset(source, f.load(i64, f.offset(s.offsets, k, i64)))
            to = f.offset(target, f.add(f.mul(f.div(k, CHUNK), (rows - 1) * CHUNK), k), word)
            for r, place in enumerate(places):
                if r % 2 == 0:
                    f.prefetch(f.offset(at, f.add(place, ahead)))
                f.store(one(f.offset(at, place), k), f.offset(to, r * CHUNK * word.bytes))

        f.loop(first, stop, 1, [], column)

    f.loop(0, s.group_tiles, 1, [], tile)


def conv_kernel(numbers, out, rows, vectors, dense_out, packed_out, epilogue, tile=None):
    """Return the address of the kernel that computes blocks of a convolution.  `tile`: the class that writes its
    register tile, if not Tile.

    `dense_out`: the outputs of an image are contiguous, so most vectors are stored unchanged. `packed_out`: the others
    are compressed and stored at once, else scattered.
    """
    key = f"conv {numbers} {out} {rows} {vectors} {dense_out} {packed_out} {epilogue.key}"
    return jit.build(key, lambda: _conv_text(tile or Tile, numbers, out, rows, vectors, dense_out, packed_out,
                                             epilogue), ["conv"])["conv"]


def _conv_text(writer, numbers, out, rows, vectors, dense_out, packed_out, epilogue):
    kernel = Units("conv", SLOTS, ("weights", "image", "out", "scratch", "k_offsets", "out_offsets"),
                   Module(many_streams=True))
    f, s = kernel.f, kernel.s
    tile = writer(kernel.module, numbers, out, rows, vectors, dense_out, packed_out, epilogue)
    tile.prepare(f)
    scratch = kernel.scratch()
    word, width = numbers.word.bytes, vectors * numbers.lanes

    def unit(unit):
        tile.begin(f)
        rest = f.div(unit, s.row_blocks)
        tile_first = f.mul(f.sub(unit, f.mul(rest, s.row_blocks)), s.block_tiles)
        group = f.div(rest, s.panel_blocks)
        panel_first = f.mul(f.sub(rest, f.mul(group, s.panel_blocks)), s.block_panels)
        tile_stop = f.minimum(f.add(tile_first, s.block_tiles), s.group_tiles)
        panel_stop = f.minimum(f.add(panel_first, s.block_panels), s.panels)
        group_weights = f.offset(s.weights, f.mul(f.mul(group, s.group_tiles), s.tile_bytes))

        def depth_block(k, _):
            count = f.minimum(f.sub(s.depth, k), s.block_depth)
            first = f.compare("==", k, 0)
            last = f.compare("==", f.add(k, count), s.depth)

            def panel(p, _):
                n = f.div(p, s.panels_per_image)
                number = f.mul(f.sub(p, f.mul(n, s.panels_per_image)), width)
                image = f.offset(s.image, f.add(f.mul(n, s.image_bytes), f.mul(group, s.image_group_bytes)))
                image = f.offset(image, number, numbers.word)
                out_at = f.offset(s.out, f.add(f.mul(n, s.out_batch), f.mul(group, s.out_group)))
                offsets = f.offset(s.k_offsets, k, i64)
                columns, steps = tile.columns(f, image, offsets, count, f.offset(scratch, s.panel_at))

                def partial(t):
                    waiting = f.add(f.mul(f.sub(p, panel_first), s.block_tiles), f.sub(t, tile_first))
                    return f.offset(scratch, f.mul(f.rem(waiting, s.partials), s.partial_bytes))

                def one(t, _):
                    weights = f.offset(f.offset(group_weights, f.mul(t, s.tile_bytes)), f.mul(k, rows * word))
                    row = f.mul(t, rows)
                    f.call(tile.function, [kernel.args, weights, columns, offsets, steps, partial(t),
                                           f.cast("zext", first, i64), f.cast("zext", last, i64),
                                           f.offset(out_at, f.mul(row, s.out_row)), f.sub(s.rows, row), number,
                                           f.add(f.mul(group, s.rows), row), *tile.further])

                f.loop(tile_first, tile_stop, 1, [], one)

            f.loop(panel_first, panel_stop, 1, [], panel)

        # at least once: an output that no tap reaches is zero
        f.loop(0, f.maximum(s.depth, 1), s.block_depth, [], depth_block)
        tile.end(f, kernel.args)

    return kernel.text(unit, bool(numbers.tiles))


class Tile:
    """Emits the functions that compute one register tile of a convolution, and that store it."""

    more = ()  # additional parameters of the function of a tile
    further = ()  # their arguments in a kernel

    def __init__(self, module, numbers, out, rows, vectors, dense_out, packed_out, epilogue):
        self.numbers, self.out, self.rows, self.vectors = numbers, out, rows, vectors
        self.dense_out, self.packed_out, self.epilogue = dense_out, packed_out, epilogue
        parameters = [("args", ptr), ("sums", ptr), ("begin", i64), ("end", i64), ("out", ptr), ("number", i64),
                      ("channel", i64)]
        self.finish = f = module.function("finish", parameters, internal=True)
        self.store(f, *f.parameters)
        f.ret()
        parameters = [("args", ptr), ("weights", ptr), ("image", ptr), ("offsets", ptr), ("depth", i64),
                      ("partial", ptr),
                      ("first", i64), ("last", i64), ("out", ptr), ("rows_left", i64), ("number", i64),
                      ("channel", i64), *self.more]
        self.function = f = module.function("tile", parameters, internal=True)
        args, weights, image, offsets, depth, partial, first, last, target, rows_left, number, channel, *_ = (
            f.parameters)
        first, last, there = f.compare("!=", first, 0), f.compare("!=", last, 0), f.minimum(rows_left, rows)
        f.when(last, lambda: self.fetch(f, args, target, there, number))
        self.compute(f, args, (weights, image, offsets, depth), first, last, partial, there, (target, number, channel))
        f.ret()

    def prepare(self, f):
        """Emit the setup of a kernel, once for all work units."""

    def begin(self, f):
        """Emit the beginning of a work unit."""

    def end(self, f, args):
        """Emit the end of a work unit."""

    def columns(self, f, image, offsets, depth, panel):
        """Return the tiles' operand from the image for `depth` words along k, and its steps; `panel` may hold it."""
        return image, depth

    def compute(self, f, args, operands, first, last, partial, rows, where):
        """Emit a tile: add it to the accumulators in memory, or begin them, so that the store code is emitted once
        instead of once per row.  The last block along k stores `rows` rows; `where` is the output address and the
        tile's first column and row in it."""
        numbers, bytes_ = self.numbers, self.numbers.accumulator.bytes * self.numbers.lanes
        tile = self.sums(f, *operands)

        def place(k):
            return f.offset(partial, k * bytes_)

        tile = f.when(first, lambda: tile,
                      lambda: [f.add(value, f.load(numbers.vector, place(k))) for k, value in enumerate(tile)])
        for k, value in enumerate(tile):
            f.store(value, place(k))
        f.when(last, lambda: self.finish_rows(f, args, partial, constant(i64, 0), rows, where))

    def finish_rows(self, f, args, sums, begin, end, where):
        """Store a range of rows of a tile's accumulators."""
        f.call(self.finish, [args, sums, begin, end, *where])

    def fetch(self, f, args, target, rows, number):
        """Prefetch the memory of a tile before it is computed."""
        s = Slots(f, args, SLOTS, ("out_offsets",))
        slots, out_row = self.epilogue.values(f, args, len(SLOTS)), s.out_row
        width = self.vectors * self.numbers.lanes
        starts = [f.load(i64, f.offset(s.out_offsets, f.add(number, j), i64))
                  for j in (*range(0, width, self.numbers.lanes), width - 1)]

        def row(r, _):
            for start in starts:
                self.epilogue.fetch(f, f.offset(f.offset(target, f.mul(r, out_row)), start, self.out), slots)

        f.loop(0, rows, 1, [], row)

    def sums(self, f, weights, image, offsets, depth):
        """Emit the loop along k: four offsets at a time, then the rest one by one."""
        numbers, rows, vectors = self.numbers, self.rows, self.vectors
        word = numbers.word

        def step(u, weights, offsets, tile):
            at = f.offset(image, f.load(i64, f.offset(offsets, u, i64)))
            columns = [f.load(numbers.words, f.offset(at, j * numbers.lanes * word.bytes), align=word.bytes)
                       for j in range(vectors)]
            for r in range(rows):
                one = f.splat(f.load(word, f.offset(weights, (r * CHUNK + u) * word.bytes)), numbers.lanes)
                for j in range(vectors):
                    tile[r * vectors + j] = numbers.multiply_add(f, one, columns[j], tile[r * vectors + j])

        def four(_, values):
            weights, offsets, *tile = values
            for u in range(CHUNK):
                step(u, weights, offsets, tile)
            return [f.offset(weights, rows * CHUNK * word.bytes), f.offset(offsets, CHUNK, i64), *tile]

        def single(_, values):
            weights, offsets, *tile = values
            step(0, weights, offsets, tile)
            return [f.offset(weights, word.bytes), f.offset(offsets, 1, i64), *tile]

        start = [weights, offsets, *[zero(numbers.vector)] * (rows * vectors)]
        whole = f.div(depth, CHUNK)
        values = f.loop(0, whole, 1, start, four)
        return f.loop(0, f.rem(depth, CHUNK), 1, values, single)[2:]

    def store(self, f, args, partial, begin, end, target, number, channel):
        """Store the finished accumulators of a tile's rows, vector by vector, all rows of one vector in turn."""
        numbers, lanes, out = self.numbers, self.numbers.lanes, self.out
        s = Slots(f, args, SLOTS, ("out_offsets",))
        bytes_ = numbers.accumulator.bytes * lanes
        slots = self.epilogue.values(f, args, len(SLOTS))
        out_row, table = s.out_row, s.out_offsets

        def sums(r, j):
            return f.load(numbers.vector, f.offset(partial, f.mul(f.add(f.mul(r, self.vectors), j), bytes_)))

        def finished(value, r, place, mask):
            if self.epilogue.emit is not None:
                value = self.epilogue.emit(f, value, constant(i64, 0), f.add(channel, r), number, place, mask, slots)
            return f.convert(value, out)

        def one_vector(j):
            # the table goes on with -1 past its end
            places_at = f.offset(table, f.add(number, j * lanes), i64)
            start = f.load(i64, places_at)

            def direct(r, _):
                place = f.offset(f.offset(target, f.mul(r, out_row)), start, out)
                f.store(finished(sums(r, j), r, place, None), place)

            def scattered():
                places = f.load(vector(i64, lanes), places_at)
                kept = f.compare(">=", places, 0)

                def apart(r, _):
                    there = f.offset(f.offset(target, f.mul(r, out_row)), places, out)
                    f.scatter(finished(sums(r, j), r, there, kept), there, kept)

                if not self.packed_out:
                    f.loop(begin, end, 1, [], apart)
                    return
                count = f.reduce("add", f.cast("zext", kept, vector(i64, lanes)))
                lowest = f.reduce("min", f.select(kept, places, constant(vector(i64, lanes), 1 << 62)))
                side_by_side = f.lane_mask(count, lanes)

                def row(r, _):
                    value = sums(r, j)
                    close = f.intrinsic("llvm.experimental.vector.compress", value.type,
                                        [value, kept, zero(value.type)])
                    place = f.offset(f.offset(target, f.mul(r, out_row)), lowest, out)
                    f.store(finished(close, r, place, side_by_side), place, mask=side_by_side)

                f.when(f.compare(">", count, 0), lambda: f.loop(begin, end, 1, [], row))

            if self.dense_out:
                final = f.load(i64, f.offset(places_at, lanes - 1, i64))
                whole = f.and_(f.compare("==", f.sub(final, start), lanes - 1), f.compare(">=", start, 0))
                f.when(whole, lambda: f.loop(begin, end, 1, [], direct), scattered)
            else:
                scattered()

        for j in range(self.vectors):
            one_vector(j)
