"""Convolution with channels in the lanes of vectors.

The padded image is kept in blocks of as many channels as a vector has lanes, [block][pixel][channel].  A register tile takes some
neighbouring outputs of one row and some vectors of output channels: for each k = (input channel, tap) a number of the image is
broadcast for each output, at a constant distance from the last, and vectors of weights are loaded.  So no lane is wasted on small
images, and strides cost nothing.  Finished tiles are turned in registers, since outputs lie channel by channel.
"""

from dataclasses import replace

from ..llvm import jit
from ..llvm.builder import Module, constant, zero
from ..llvm.types import i64, ptr, vector
from . import pack
from .blocked import ACROSS, ALONG, APART, KERNEL, Slots
from .contraction import CHUNK

IMAGE_SLOTS = ("x", "image", "channels", "planes", "group_planes", "x_batch", "x_channel", "x_depth", "x_height", "x_width",
               "depth", "height", "width", "pad_depth", "pad_height", "pad_width", "rows_depth", "rows_height", "rows_width",
               "plane_bytes", "image_bytes")
# "offsets" is a table of byte offsets of each k in the weights.
WEIGHT_SLOTS = ("weights", "packed", "offsets", "panels", "columns", "depth", "column_stride", "group_stride", "panel_bytes")
SLOTS = ("weights", "image", "out", "scratch", "k_offsets", "image_places", "out_places", "lengths", "depth", "block_depth", "columns",
         "panels", "block_panels", "panel_blocks", "tiles", "block_tiles", "tile_blocks", "tiles_per_image", "panel_bytes",
         "image_bytes", "image_group_bytes", "out_batch", "out_group", "out_channel", "scratch_bytes", "partial_bytes")

SIDE_BY_SIDE, EVERY_OTHER, FAR = 1, 2, 0  # how neighbouring pixels of an input lie


def image_kernel(element, numbers, pixels):
    """The kernel that writes padded images in blocks of channels, one (image, block) a unit; returns its address.

    `pixels` tells how neighbours along the width lie: SIDE_BY_SIDE, EVERY_OTHER element, or FAR.
    """
    key = f"channel image {element} {numbers} {pixels}"
    return jit.build(key, lambda: _image_text(element, numbers, pixels), ["image"])["image"]


def _image_text(element, numbers, pixels):
    module = Module()
    f = module.function("image", KERNEL)
    args, begin, end, _ = f.parameters
    s = Slots(f, args, IMAGE_SLOTS, ("x", "image"))
    word, lanes = numbers.word, numbers.lanes
    pixel_bytes = lanes * word.bytes
    kind = vector(element, lanes)

    def unit(unit, _):
        batch = f.div(unit, s.planes)
        plane = f.sub(unit, f.mul(batch, s.planes))
        group = f.div(plane, s.group_planes)
        within = f.mul(f.sub(plane, f.mul(group, s.group_planes)), lanes)
        channel = f.add(f.mul(group, s.channels), within)
        there = f.minimum(f.sub(s.channels, within), lanes)
        x = f.offset(s.x, f.add(f.mul(batch, s.x_batch), f.mul(channel, s.x_channel)))
        image = f.offset(s.image, f.add(f.mul(batch, s.image_bytes), f.mul(plane, s.plane_bytes)))
        x_channel, x_width, width, rows_width, pad = s.x_channel, s.x_width, s.width, s.rows_width, s.pad_width

        def blank(at, count):
            f.loop(0, count, 1, [], lambda k, _: f.store(zero(numbers.words), f.offset(at, f.mul(k, pixel_bytes)), align=word.bytes))

        def turned(source, target):
            """A row from channels whose pixels are neighbours: squares are transposed; pixels past the end become zeros."""
            def square(first, _):
                count = f.sub(width, first)
                at = f.offset(source, f.mul(first, pixels * element.bytes))
                f.when(f.and_(f.compare(">=", count, lanes + pixels - 1), f.compare("==", there, lanes)),
                       lambda: put(first, [load(f.offset(at, f.mul(x_channel, c)), None) for c in range(lanes)]),
                       lambda: put(first, [load(f.offset(at, f.mul(x_channel, c)), f.select(f.compare(">", there, c), count, 0))
                                           for c in range(lanes)]))

            def load(at, count):
                if pixels == SIDE_BY_SIDE:
                    mask = None if count is None else f.lane_mask(count, lanes)
                    return f.convert(f.load(kind, at, mask=mask), word)
                mask = None if count is None else f.lane_mask(f.sub(f.mul(count, pixels), pixels - 1), pixels * lanes)
                wide = f.load(vector(element, pixels * lanes), at, mask=mask)
                return f.convert(f.shuffle(wide, None, range(0, pixels * lanes, pixels)), word)

            def put(first, rows):
                for k, row in enumerate(pack.transpose(f, rows)):
                    f.store(row, f.offset(target, f.mul(f.add(first, k), pixel_bytes)), align=word.bytes)

            f.loop(0, width, lanes, [], square)

        def gathered(source, target):
            """A row pixel by pixel, its channels neighbours or apart."""
            def pixel(lane_stride, k):
                at = f.offset(source, f.mul(k, x_width))
                words = pack.load_words(f, numbers_of_element, at, None, lane_stride, there, None)
                f.store(words, f.offset(target, f.mul(k, pixel_bytes)), align=word.bytes)

            numbers_of_element = replace(numbers, element=element)
            neighbours = f.compare("==", x_channel, element.bytes)
            f.when(neighbours, lambda: f.loop(0, width, 1, [], lambda k, _: pixel(None, k)),
                   lambda: f.loop(0, width, 1, [], lambda k, _: pixel(x_channel, k)))

        def row(number, _):
            at_depth = f.div(number, s.rows_height)
            z = f.sub(at_depth, s.pad_depth)
            y = f.sub(f.sub(number, f.mul(at_depth, s.rows_height)), s.pad_height)
            target = f.offset(image, f.mul(f.mul(number, rows_width), pixel_bytes))
            inside = f.and_(f.compare("<", y, s.height, signed=False), f.compare("<", z, s.depth, signed=False))

            def filled():
                blank(target, pad)
                source = f.offset(x, f.add(f.mul(z, s.x_depth), f.mul(y, s.x_height)))
                first = f.offset(target, f.mul(pad, pixel_bytes))
                (gathered if pixels == FAR else turned)(source, first)
                blank(f.offset(first, f.mul(width, pixel_bytes)), f.sub(f.sub(rows_width, width), pad))

            f.when(inside, filled, lambda: blank(target, rows_width))

        f.loop(0, f.mul(s.rows_depth, s.rows_height), 1, [], row)

    f.loop(begin, end, 1, [], unit)
    f.ret()
    return module.text()


def weight_kernel(numbers, vectors, order):
    """The kernel that packs weights into panels of some vectors of output channels, [panel][k][channel]; returns its address.

    `order` tells what lies side by side: weights ALONG k, or output channels ACROSS a vector, or nothing (APART); then a table says
    where each k lies.
    """
    key = f"channel weights {numbers} {vectors} {order}"
    return jit.build(key, lambda: _weight_text(numbers, vectors, order), ["weights"])["weights"]


def _weight_text(numbers, vectors, order):
    module = Module()
    f = module.function("weights", KERNEL)
    args, begin, end, _ = f.parameters
    s = Slots(f, args, WEIGHT_SLOTS, ("weights", "packed", "offsets"))
    width = vectors * numbers.lanes

    def panel(unit, _):
        group = f.div(unit, s.panels)
        column = f.mul(f.sub(unit, f.mul(group, s.panels)), width)
        stride, left, offsets = s.column_stride, f.sub(s.columns, column), s.offsets
        source = f.offset(f.offset(s.weights, f.mul(group, s.group_stride)), f.mul(column, stride))
        target = f.offset(s.packed, f.mul(unit, s.panel_bytes))

        if order == ALONG:
            pack.write_transposed_panel(f, numbers, width, source, lambda lane: f.mul(stride, lane), target, left, s.depth)
            return

        def row(k, _):
            at = f.offset(source, f.load(i64, f.offset(offsets, k, i64)))
            to = f.offset(target, f.mul(k, width * numbers.word.bytes))
            for j in range(vectors):
                first = j * numbers.lanes
                words = pack.load_words(f, numbers, f.offset(at, f.mul(stride, first)), None, None if order == ACROSS else stride,
                                        f.sub(left, first), None)
                f.store(words, f.offset(to, first * numbers.word.bytes), align=numbers.word.bytes)

        f.loop(0, s.depth, 1, [], row)

    f.loop(begin, end, 1, [], panel)
    f.ret()
    return module.text()


def conv_kernel(numbers, out, rows, vectors, step, epilogue):
    """The kernel that computes blocks of a convolution whose neighbouring outputs read pixels `step` apart; returns its address."""
    key = f"channel conv {numbers} {out} {rows} {vectors} {step} {epilogue.key}"
    return jit.build(key, lambda: _conv_text(numbers, out, rows, vectors, step, epilogue), ["conv"])["conv"]


def _conv_text(numbers, out, rows, vectors, step, epilogue):
    module = Module()
    f = module.function("conv", KERNEL)
    args, begin, end, worker = f.parameters
    s = Slots(f, args, SLOTS, ("weights", "image", "out", "scratch", "k_offsets", "image_places", "out_places", "lengths"))
    tile = _Tile(module, numbers, out, rows, vectors, step, epilogue)
    scratch = f.offset(s.scratch, f.mul(worker, s.scratch_bytes))
    width = vectors * numbers.lanes

    def unit(unit, _):
        rest = f.div(unit, s.panel_blocks)
        panel_first = f.mul(f.sub(unit, f.mul(rest, s.panel_blocks)), s.block_panels)
        group = f.div(rest, s.tile_blocks)
        tile_first = f.mul(f.sub(rest, f.mul(group, s.tile_blocks)), s.block_tiles)
        panel_stop = f.minimum(f.add(panel_first, s.block_panels), s.panels)
        tile_stop = f.minimum(f.add(tile_first, s.block_tiles), s.tiles)
        group_weights = f.offset(s.weights, f.mul(f.mul(group, s.panels), s.panel_bytes))
        group_image = f.offset(s.image, f.mul(group, s.image_group_bytes))
        group_out = f.offset(s.out, f.mul(group, s.out_group))

        def depth_block(k, _):
            count = f.minimum(f.sub(s.depth, k), s.block_depth)
            first = f.cast("zext", f.compare("==", k, 0), i64)
            last = f.cast("zext", f.compare("==", f.add(k, count), s.depth), i64)
            offsets = f.offset(s.k_offsets, k, i64)

            def panel(p, _):
                column = f.mul(p, width)
                weights = f.offset(f.offset(group_weights, f.mul(p, s.panel_bytes)), f.mul(k, width * numbers.word.bytes))

                def one(t, _):
                    n = f.div(t, s.tiles_per_image)
                    place = f.sub(t, f.mul(n, s.tiles_per_image))
                    image, at, length = (f.load(i64, f.offset(table, place, i64)) for table in (s.image_places, s.out_places, s.lengths))
                    waiting = f.add(f.mul(f.sub(p, panel_first), s.block_tiles), f.sub(t, tile_first))
                    target = f.offset(f.offset(group_out, f.mul(n, s.out_batch)), f.mul(column, s.out_channel))
                    f.call(tile.function, [
                        args, weights, f.offset(f.offset(group_image, f.mul(n, s.image_bytes)), image), offsets, count,
                        f.offset(scratch, f.mul(waiting, s.partial_bytes)), first, last, f.offset(target, at, out), length,
                        f.sub(s.columns, column), f.add(f.mul(group, s.columns), column), at])

                f.loop(tile_first, tile_stop, 1, [], one)

            f.loop(panel_first, panel_stop, 1, [], panel)

        f.loop(0, s.depth, s.block_depth, [], depth_block)

    f.loop(begin, end, 1, [], unit)
    f.ret()
    return module.text()


class _Tile:
    """Writes the function that computes one register tile of `rows` outputs by `vectors` of channels, and stores it."""

    def __init__(self, module, numbers, out, rows, vectors, step, epilogue):
        self.numbers, self.out, self.rows, self.vectors, self.step, self.epilogue = numbers, out, rows, vectors, step, epilogue
        parameters = [("args", ptr), ("weights", ptr), ("image", ptr), ("offsets", ptr), ("depth", i64), ("partial", ptr), ("first", i64),
                      ("last", i64), ("out", ptr), ("length", i64), ("channels_left", i64), ("channel", i64), ("number", i64)]
        self.function = f = module.function("tile", parameters, internal=True)
        args, weights, image, offsets, depth, partial, first, last, target, length, left, channel, number = f.parameters
        s = Slots(f, args, SLOTS, ("out_places",))
        slots = self.epilogue.values(f, args, len(SLOTS))
        there = f.minimum(left, vectors * numbers.lanes)
        final = f.compare("!=", last, 0)

        def place(c):
            return f.offset(target, f.mul(s.out_channel, c))

        def fetch(c, _):
            self.epilogue.fetch(f, place(c), slots)
            self.epilogue.fetch(f, f.offset(place(c), f.sub(length, 1), self.out), slots)  # mostly in another line

        f.when(final, lambda: f.loop(0, there, 1, [], fetch))
        tile = self.sums(f, weights, image, offsets, depth)
        bytes_ = numbers.accumulator.bytes * numbers.lanes

        def waiting(k):
            return f.offset(partial, k * bytes_)

        tile = f.when(f.compare("!=", first, 0), lambda: tile,
                      lambda: [f.add(value, f.load(numbers.vector, waiting(k))) for k, value in enumerate(tile)])
        for k, value in enumerate(tile):  # vector of channels by vector of channels
            f.store(value, waiting(k))
        f.when(final, lambda: self.store(f, partial, there, lambda c: place(c), length, channel, number, slots))
        f.ret()

    def sums(self, f, weights, image, offsets, depth):
        """The loop along k: four at a time, then the rest one by one.  The sums of one vector of channels follow each other."""
        numbers, rows, vectors = self.numbers, self.rows, self.vectors
        word = numbers.word.bytes
        pixel = self.step * numbers.lanes * word
        width = vectors * numbers.lanes * word

        def some(count):
            def body(_, values):
                weights, offsets, *tile = values
                for u in range(count):
                    at = f.offset(image, f.load(i64, f.offset(offsets, u, i64)))
                    columns = [f.load(numbers.words, f.offset(weights, u * width + j * numbers.lanes * word), align=word) for j in range(vectors)]
                    for r in range(rows):
                        one = f.splat(f.load(numbers.word, f.offset(at, r * pixel)), numbers.lanes)
                        for j in range(vectors):
                            tile[j * rows + r] = numbers.multiply_add(f, one, columns[j], tile[j * rows + r])
                return [f.offset(weights, count * width), f.offset(offsets, count, i64), *tile]
            return body

        start = [weights, offsets, *[zero(numbers.vector)] * (rows * vectors)]
        values = f.loop(0, f.div(depth, CHUNK), 1, start, some(CHUNK))
        return f.loop(0, f.rem(depth, CHUNK), 1, values, some(1))[2:]

    def store(self, f, partial, there, place, length, channel, number, slots):
        """Turns finished sums, so that a vector holds neighbouring outputs of one channel, and stores them."""
        numbers, rows, lanes = self.numbers, self.rows, self.numbers.lanes
        bytes_ = numbers.accumulator.bytes * lanes
        turned = f.alloca(numbers.vector, lanes)
        mask = f.lane_mask(length, lanes)

        def one_vector(j, _):
            sums = f.offset(partial, f.mul(j, rows * bytes_))
            loaded = [f.load(numbers.vector, f.offset(sums, r * bytes_)) for r in range(rows)]
            for c, value in enumerate(pack.transpose(f, loaded + [zero(numbers.vector)] * (lanes - rows))):
                f.store(value, f.offset(turned, c * bytes_))
            first = f.mul(j, lanes)

            def one(c, _):
                value, at = f.load(numbers.vector, f.offset(turned, f.mul(c, bytes_))), place(f.add(first, c))
                if self.epilogue.emit is not None:
                    value = self.epilogue.emit(f, value, constant(i64, 0), f.add(f.add(channel, first), c), number, at, mask, slots)
                f.store(f.convert(value, self.out), at, mask=mask)

            f.loop(0, f.minimum(f.sub(there, first), lanes), 1, [], one)

        f.loop(0, f.div(f.add(there, lanes - 1), lanes), 1, [], one_vector)
