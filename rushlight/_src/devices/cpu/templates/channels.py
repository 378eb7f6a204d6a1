"""Convolution with blocked channels.

The padded image is kept in blocks of channels (`channels_image.py`).  A register tile takes some adjacent outputs of
one row and some vectors of output channels: for each k = (input channel, tap) an element of the image is broadcast for
each output, at a constant distance from the last, and vectors of weights are loaded.  So no lane is wasted on small
images, and strides cost nothing.  Finished tiles are transposed in registers, since outputs are stored channels first.
"""

from dataclasses import dataclass

from ..llvm import jit
from ..llvm.builder import Module
from ..llvm.types import i1, i64, ptr, vector
from ..llvm.values import constant, constant_vector, zero
from . import pack
from .blocked import ALONG, APART
from .contraction import CHUNK
from .elements import Strided
from .units import Slots, Units

# "offsets" is a table of byte offsets of each k in the weights.
WEIGHT_SLOTS = ("weights", "packed", "offsets", "panels", "columns", "depth", "column_stride", "group_stride",
                "panel_bytes", "channels",
                "channel_stride")
SLOTS = ("weights", "image", "out", "scratch", "k_offsets", "image_places", "out_places", "lengths", "depth",
         "block_depth", "columns",
         "panels", "block_panels", "panel_blocks", "tiles", "block_tiles", "tile_blocks", "tiles_per_image",
         "panel_bytes",
         "image_bytes", "image_group_bytes", "out_batch", "out_group", "out_channel", "scratch_bytes", "partial_bytes")

@dataclass(frozen=True)
class Mixed:
    """Weights stored as [channel][output channel][tap], as for a gradient of the input: `taps` of `count` taps are
    used, in this order."""

    count: int
    taps: tuple


def weight_kernel(numbers, vectors, order):
    """Return the address of the kernel that packs weights into panels of some vectors of output channels,
    [panel][k][channel].

    `order` is the layout of the weights: ALONG k, Mixed, or APART with a table of offsets for each k.
    """
    key = f"channel weights {numbers} {vectors} {order}"
    return jit.build(key, lambda: _weight_text(numbers, vectors, order), ["weights"])["weights"]


def _weight_text(numbers, vectors, order):
    kernel = Units("weights", WEIGHT_SLOTS, ("weights", "packed", "offsets"))
    f, s = kernel.f, kernel.s
    width = vectors * numbers.lanes

    def panel(unit):
        group = f.div(unit, s.panels)
        column = f.mul(f.sub(unit, f.mul(group, s.panels)), width)
        stride, left = s.column_stride, f.sub(s.columns, column)
        source = f.offset(f.offset(s.weights, f.mul(group, s.group_stride)), f.mul(column, stride))
        target = f.offset(s.packed, f.mul(unit, s.panel_bytes))
        if order == ALONG:
            pack.write_transposed_panel(f, width, Strided(f, numbers, source, lane=stride), target, left, s.depth)
        elif order == APART:
            _write_apart(f, s, numbers, vectors, source, stride, target, left)
        else:
            f.when(f.compare(">=", left, width),
                   lambda: _write_mixed(f, s, numbers, vectors, order, source, target, None),
                   lambda: _write_mixed(f, s, numbers, vectors, order, source, target, left))

    return kernel.text(panel)


def _write_apart(f, s, numbers, vectors, source, stride, target, left):
    width, word = vectors * numbers.lanes, numbers.word.bytes
    offsets = s.offsets

    def row(k, _):
        at = f.offset(source, f.load(i64, f.offset(offsets, k, i64)))
        for first in range(0, width, numbers.lanes):
            words = Strided(f, numbers, at, lane=stride).across(first, 0, f.sub(left, first), None)
            f.store(words, f.offset(target, f.add(f.mul(k, width * word), first * word)), align=word)

    f.loop(0, s.depth, 1, [], row)


def _write_mixed(f, s, numbers, vectors, order, source, target, left):
    """Vectors of output channels for each tap, collected in registers from the taps of neighbouring output channels."""
    lanes, count, word = numbers.lanes, order.count, numbers.word.bytes
    kind, width, size = vector(numbers.element, lanes), vectors * lanes, numbers.element.bytes
    stride = s.channel_stride

    def channel(c, _):
        at = f.offset(source, f.mul(c, stride))
        to = f.offset(target, f.mul(c, len(order.taps) * width * word))
        for j in range(vectors):
            found = []
            for k in range(j * count, (j + 1) * count):
                place = f.offset(at, k * lanes * size)
                # channels are far apart, so the CPU does not prefetch the next ones
                f.prefetch(f.offset(place, f.mul(stride, 3)))
                mask = None if left is None else f.lane_mask(f.sub(f.mul(left, count), k * lanes), lanes)
                found.append(f.convert(f.load(kind, place, mask=mask), numbers.word))
            for t, tap in enumerate(order.taps):
                value = pack.collected(f, found, [lane * count + tap for lane in range(lanes)])
                f.store(value, f.offset(to, (t * width + j * lanes) * word), align=word)

    f.loop(0, s.channels, 1, [], channel)


def conv_kernel(numbers, out, tile, step, distance, epilogue):
    """Return the address of the kernel that computes blocks of a convolution whose adjacent outputs read pixels `step`
    apart and are stored `distance` elements apart.  `tile` gives the outputs and the vectors of channels of a register
    tile."""
    key = f"channel conv {numbers} {out} {tile} {step} {distance} {epilogue.key}"
    return jit.build(key, lambda: _conv_text(numbers, out, *tile, step, distance, epilogue), ["conv"])["conv"]


def _conv_text(numbers, out, rows, vectors, step, distance, epilogue):
    kernel = Units("conv", SLOTS, ("weights", "image", "out", "scratch", "k_offsets", "image_places", "out_places",
                                   "lengths"), Module(many_streams=True))
    f, s = kernel.f, kernel.s
    tile = _Tile(kernel.module, numbers, out, rows, vectors, step, distance, epilogue)
    scratch = kernel.scratch()
    width = vectors * numbers.lanes

    def unit(unit):
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
                weights = f.offset(f.offset(group_weights, f.mul(p, s.panel_bytes)),
                                   f.mul(k, width * numbers.word.bytes))

                def one(t, _):
                    n = f.div(t, s.tiles_per_image)
                    place = f.sub(t, f.mul(n, s.tiles_per_image))
                    image, at, length = (f.load(i64, f.offset(table, place, i64))
                                         for table in (s.image_places, s.out_places, s.lengths))
                    waiting = f.add(f.mul(f.sub(p, panel_first), s.block_tiles), f.sub(t, tile_first))
                    target = f.offset(f.offset(group_out, f.mul(n, s.out_batch)), f.mul(column, s.out_channel))
                    f.call(tile.function, [
                        kernel.args, weights, f.offset(f.offset(group_image, f.mul(n, s.image_bytes)), image), offsets,
                        count,
                        f.offset(scratch, f.mul(waiting, s.partial_bytes)), first, last, f.offset(target, at, out),
                        length,
                        f.sub(s.columns, column), f.add(f.mul(group, s.columns), column), at])

                f.loop(tile_first, tile_stop, 1, [], one)

            f.loop(panel_first, panel_stop, 1, [], panel)

        f.loop(0, s.depth, s.block_depth, [], depth_block)

    return kernel.text(unit)


class _Tile:
    """Emits the function that computes one register tile of `rows` outputs by `vectors` of channels, and stores it."""

    def __init__(self, module, numbers, out, rows, vectors, step, distance, epilogue):
        self.numbers, self.out, self.rows, self.vectors, self.step = numbers, out, rows, vectors, step
        self.distance, self.epilogue = distance, epilogue
        parameters = [("args", ptr), ("weights", ptr), ("image", ptr), ("offsets", ptr), ("depth", i64),
                      ("partial", ptr), ("first", i64),
                      ("last", i64), ("out", ptr), ("length", i64), ("channels_left", i64), ("channel", i64),
                      ("number", i64)]
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
            # mostly in another line
            self.epilogue.fetch(f, f.offset(place(c), f.mul(f.sub(length, 1), distance), self.out), slots)

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
        """Emit the loop along k: four at a time, then the rest one by one.  The accumulators of one vector of channels
        are consecutive."""
        numbers, rows, vectors = self.numbers, self.rows, self.vectors
        word = numbers.word.bytes
        pixel = self.step * numbers.lanes * word
        width = vectors * numbers.lanes * word

        def some(count):
            def body(_, values):
                weights, offsets, *tile = values
                for u in range(count):
                    at = f.offset(image, f.load(i64, f.offset(offsets, u, i64)))
                    columns = [f.load(numbers.words, f.offset(weights, u * width + j * numbers.lanes * word),
                                      align=word) for j in range(vectors)]
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
        """Transpose finished accumulators, so that a vector holds adjacent outputs of one channel, and store them."""
        numbers, rows, lanes = self.numbers, self.rows, self.numbers.lanes
        bytes_ = numbers.accumulator.bytes * lanes
        turned = f.alloca(numbers.vector, lanes)
        masks = self.masks(f, length)

        def one_vector(j, _):
            sums = f.offset(partial, f.mul(j, rows * bytes_))
            loaded = [f.load(numbers.vector, f.offset(sums, r * bytes_)) for r in range(rows)]
            for c, value in enumerate(pack.transpose(f, loaded + [zero(numbers.vector)] * (lanes - rows))):
                f.store(value, f.offset(turned, c * bytes_))
            first = f.mul(j, lanes)

            def one(c, _):
                value, at = f.load(numbers.vector, f.offset(turned, f.mul(c, bytes_))), place(f.add(first, c))
                for part, mask in enumerate(masks):
                    self.store_lanes(f, self.spread(f, value, part), f.offset(at, part * lanes, self.out),
                                     f.add(f.add(channel, first), c),
                                     f.add(number, part * lanes), mask, slots)

            f.loop(0, f.minimum(f.sub(there, first), lanes), 1, [], one)

        f.loop(0, f.div(f.add(there, lanes - 1), lanes), 1, [], one_vector)

    def masks(self, f, length):
        """The lane masks of the vectors over which outputs of stride `distance` are spread."""
        lanes, distance = self.numbers.lanes, self.distance
        count, found = f.sub(f.mul(length, distance), distance - 1), []
        for part in range(distance):
            mask = f.lane_mask(f.sub(count, part * lanes), lanes)
            if distance > 1:
                mask = f.and_(mask, constant_vector(i1, [(part * lanes + k) % distance == 0 for k in range(lanes)]))
            found.append(mask)
        return found

    def spread(self, f, value, part):
        """The outputs of one of these vectors, each in its lane."""
        if self.distance == 1:
            return value
        return f.shuffle(value, None,
                         [(part * self.numbers.lanes + k) // self.distance for k in range(self.numbers.lanes)])

    def store_lanes(self, f, value, place, channel, number, mask, slots):
        """Store some outputs of one channel."""
        if self.epilogue.emit is not None:
            value = self.epilogue.emit(f, value, constant(i64, 0), channel, number, place, mask, slots)
        f.store(f.convert(value, self.out), place, mask=mask)
