"""Gradients of a convolution's weights with blocked channels.

Input and gradient are images in blocks of channels (`channels_image.py`).  A register tile takes some input channels at
one tap by some vectors of output channels: for each output and channel an element of the input is broadcast, and
vectors of the gradient are loaded.  Accumulators are kept in scratch between chunks of rows that the L1 cache holds,
then are transposed and stored.
"""

import math
from itertools import product

from ..llvm import jit
from ..llvm.builder import Module
from ..llvm.features import targeted
from ..llvm.types import i64, ptr
from . import pack
from .channels_image import MOST_MIXED, SLACK, ChannelImage, image_of
from .contraction import Contraction, KernelCall, numbers, table, written_slots
from .tune import pick
from .units import Units

_CHUNK_BYTES = 24 << 10      # of gradients, which stay in the L1 cache while all taps use them
_NEAR_BYTES = 288 << 10      # of images, or of sums, which stay in the L2 cache
# "x_rows" and "y_rows" are tables of byte offsets of each row of outputs, "taps_at" one of each tap.
SLOTS = ("x", "y", "out", "scratch", "x_rows", "y_rows", "taps_at", "rows", "chunk_rows", "width", "taps", "inputs",
         "outputs", "blocks",
         "panels", "unit_blocks", "block_units", "unit_panels", "panel_units", "x_group_bytes", "y_group_bytes",
         "x_plane", "y_plane", "out_group", "out_row",
         "scratch_bytes")


def weight_kernel(numbers, element, tile, step, known):
    """Return the address of the kernel that computes gradients of weights for some panels of output and some blocks of
    input channels.

    `tile`: (input channels, vectors of output channels); adjacent outputs read pixels `step` apart.  `known` is the
    number of taps if it is small, else 0: weights are stored [output channel][input channel][tap].
    """
    key = f"channel weight gradient {numbers} {element} {tile} {step} {known}"
    return jit.build(key, lambda: _text(numbers, element, *tile, step, known), ["weights"])["weights"]


def _text(numbers, element, rows, vectors, step, known):
    module = Module()
    tile = _tile(module, numbers, rows, vectors, step)
    kernel = Units("weights", SLOTS, ("x", "y", "out", "scratch", "x_rows", "y_rows", "taps_at"), module)
    writer = _Writer(kernel, tile, numbers, element, rows, vectors, known)
    return kernel.text(writer.unit)


class _Writer:
    """Emits the kernel: sums of tiles in ``scratch``, which `tile` adds to, and then the weights of `element`."""

    def __init__(self, kernel, tile, numbers, element, rows, vectors, known):
        self.f, self.s, self.tile, self.numbers, self.element = kernel.f, kernel.s, tile, numbers, element
        self.rows, self.vectors, self.known = rows, vectors, known
        self.lanes, self.bytes = numbers.lanes, numbers.lanes * numbers.accumulator.bytes
        self.sums_bytes = self.lanes * vectors * self.bytes  # of one block of input channels at one tap
        self.scratch = kernel.scratch()
        self.taps = None  # read once a work unit
        self.turned = self.f.alloca(numbers.vector, self.lanes * max(known, 1))

    def unit(self, unit):
        """Emit some panels of output channels by some blocks of input channels."""
        f, s, vectors = self.f, self.s, self.vectors
        rest = f.div(unit, s.block_units)
        first_block = f.mul(f.sub(unit, f.mul(rest, s.block_units)), s.unit_blocks)
        group = f.div(rest, s.panel_units)
        first_panel = f.mul(f.sub(rest, f.mul(group, s.panel_units)), s.unit_panels)
        blocks = f.minimum(f.sub(s.blocks, first_block), s.unit_blocks)
        panels = f.minimum(f.sub(s.panels, first_panel), s.unit_panels)
        x = f.offset(f.offset(s.x, f.mul(group, s.x_group_bytes)), f.mul(first_block, s.x_plane))
        y = f.offset(f.offset(s.y, f.mul(group, s.y_group_bytes)), f.mul(f.mul(first_panel, s.y_plane), vectors))
        self.taps = taps = s.taps
        of_panel = f.mul(blocks, taps)
        f.fill_bytes(self.scratch, 0, f.mul(f.mul(panels, of_panel), self.sums_bytes))
        f.loop(0, s.rows, s.chunk_rows, [], lambda row, _: self.chunk(row, x, y, panels, of_panel))
        out = f.offset(s.out, f.mul(group, s.out_group))

        def finished(number, _):
            panel = f.div(number, blocks)
            block = f.sub(number, f.mul(panel, blocks))
            self.store(out, f.add(first_panel, panel), f.add(first_block, block),
                       f.offset(self.scratch, f.mul(f.mul(number, taps), self.sums_bytes)))

        f.loop(0, f.mul(panels, blocks), 1, [], finished)

    def chunk(self, row, x, y, panels, of_panel):
        """Add the contribution of some rows of outputs to all sums of a work unit."""
        f, s, vectors = self.f, self.s, self.vectors
        count = f.minimum(f.sub(s.rows, row), s.chunk_rows)

        def panel(number, _):
            grads = f.offset(y, f.mul(f.mul(number, s.y_plane), vectors))
            f.loop(0, of_panel, 1, [],
                   lambda k, _: at_tap(k, grads, f.offset(self.scratch, f.mul(f.add(f.mul(number, of_panel), k),
                                                                              self.sums_bytes))))

        def at_tap(number, grads, sums):
            block = f.div(number, self.taps)
            tap = f.load(i64, f.offset(s.taps_at, f.sub(number, f.mul(block, self.taps)), i64))
            source = f.offset(f.offset(x, f.mul(block, s.x_plane)), tap)
            for part in range(0, self.lanes, self.rows):
                f.call(self.tile, [f.offset(source, part * self.numbers.word.bytes), grads,
                                   f.offset(sums, part * vectors * self.bytes),
                                   f.offset(s.x_rows, row, i64), f.offset(s.y_rows, row, i64), count, s.width,
                                   s.y_plane])

        f.loop(0, panels, 1, [], panel)

    def store(self, out, panel, block, sums):
        """Transpose the sums of a block of input channels, and store them for each output channel."""
        f, s, lanes, vectors = self.f, self.s, self.lanes, self.vectors
        channel = f.mul(block, lanes)
        inputs = f.sub(s.inputs, channel)
        for j in range(vectors):
            first = f.add(f.mul(panel, vectors * lanes), j * lanes)
            target = f.offset(f.offset(out, f.mul(first, s.out_row)), f.mul(channel, s.taps), self.element)
            there = f.minimum(f.sub(s.outputs, first), lanes)
            self.turn_taps(sums, j * self.bytes, target, inputs, there)

    def turn_taps(self, sums, beside, target, inputs, there):
        """Transpose the sums of one vector of output channels, at offset `beside` of each tap's sums, for all taps; of
        the channels `there` exist."""
        f, s, lanes, bytes_ = self.f, self.s, self.lanes, self.bytes

        def turn(tap, _):
            at = f.offset(sums, f.add(f.mul(tap, self.sums_bytes), beside))
            loaded = [f.load(self.numbers.vector, f.offset(at, c * self.vectors * bytes_)) for c in range(lanes)]
            place = f.offset(self.turned, f.mul(tap, lanes * bytes_)) if self.known else self.turned
            for k, value in enumerate(pack.transpose(f, loaded)):
                f.store(value, f.offset(place, k * bytes_))
            if not self.known:
                f.loop(0, there, 1, [], lambda k, _: self.scattered(target, k, tap, inputs))

        f.loop(0, s.taps, 1, [], turn)
        if self.known:
            f.loop(0, there, 1, [], lambda k, _: self.mixed(target, k, inputs))

    def scattered(self, target, k, tap, inputs):
        """Scatter the weights of one output channel at one tap."""
        f, s, lanes = self.f, self.s, self.lanes
        distance = f.mul(f.lane_indices(lanes), f.splat(s.taps, lanes))
        value = f.convert(f.load(self.numbers.vector, f.offset(self.turned, f.mul(k, self.bytes))), self.element)
        at = f.offset(f.offset(target, f.mul(k, s.out_row)), f.add(distance, f.splat(tap, lanes)), self.element)
        f.scatter(value, at, f.lane_mask(inputs, lanes))

    def mixed(self, target, k, inputs):
        """Store the weights of one output channel at all taps, which are contiguous."""
        f, lanes, known, bytes_ = self.f, self.lanes, self.known, self.bytes
        values = [f.load(self.numbers.vector, f.offset(self.turned, f.add(f.mul(k, bytes_), tap * lanes * bytes_)))
                  for tap in range(known)]
        for part in range(0, known * lanes, lanes):
            value = pack.collected(f, values, [at % known * lanes + at // known for at in range(part, part + lanes)])
            mask = f.lane_mask(f.sub(f.mul(inputs, known), part), lanes)
            place = f.offset(f.offset(target, f.mul(k, self.s.out_row)), part, self.element)
            f.store(f.convert(value, self.element), place, mask=mask)


def _tile(module, numbers, rows, vectors, step):
    """A function that adds the contribution of some rows of outputs to the sums of a tile."""
    parameters = [("x", ptr), ("y", ptr), ("sums", ptr), ("x_rows", ptr), ("y_rows", ptr), ("count", i64),
                  ("width", i64), ("y_plane", i64)]
    f = module.function("tile", parameters, internal=True)
    x, y, sums, x_rows, y_rows, count, width, y_plane = f.parameters
    word, bytes_ = numbers.word.bytes, numbers.lanes * numbers.accumulator.bytes
    pixel = numbers.lanes * word
    places = [f.offset(sums, k * bytes_) for k in range(rows * vectors)]

    def row(number, tile):
        at = f.offset(x, f.load(i64, f.offset(x_rows, number, i64)))
        grads = f.offset(y, f.load(i64, f.offset(y_rows, number, i64)))

        def output(_, values):
            at, grads, *tile = values
            given = [f.load(numbers.words, f.offset(grads, f.mul(y_plane, j)) if j else grads, align=word)
                     for j in range(vectors)]
            for r in range(rows):
                one = f.splat(f.load(numbers.word, f.offset(at, r * word)), numbers.lanes)
                for j in range(vectors):
                    tile[r * vectors + j] = numbers.multiply_add(f, one, given[j], tile[r * vectors + j])
            return [f.offset(at, step * pixel), f.offset(grads, pixel), *tile]

        return f.loop(0, width, 1, [at, grads, *tile], output)[2:]

    tile = f.loop(0, count, 1, [f.load(numbers.vector, place) for place in places], row)
    for place, value in zip(places, tile):
        f.store(value, place)
    f.ret()
    return f


class ChannelWeights:
    """The gradient of the weights, as kernel calls."""

    def __init__(self, c, threads, geometry):
        self.c, self.threads, self.geometry = c, threads, geometry
        self.inputs, self.outputs = c.in_channels // c.groups, c.out_channels // c.groups
        self.x = image_of(c, geometry, geometry.taps, "x", c.x, self.inputs)
        self.y = ChannelImage(c, "y", c.y, self.outputs, c.out, (0, 0, 0), c.out)
        self.kind = self.x.kind
        lanes, wide = self.kind.lanes, targeted().registers == 32
        self.rows = min(lanes, 8 if wide else 4)
        # more vectors of channels at once, or fewer that are not there
        self.vectors = min((2, 3) if wide else (2,),
                           key=lambda vectors: -(-self.outputs // (vectors * lanes)) * vectors)
        self.panels = -(-self.outputs // (self.vectors * lanes))

    @property
    def suits(self):
        """True if vectors of channels are full, and there is enough work for all threads."""
        return (self.x.element.is_float and numbers(self.c.dtype).per_word == 1 and self.x.full and self.y.full
                and (self.threads == 1 or self.panels * self.x.blocks * self.c.groups >= 3 * self.threads))

    def sums_bytes(self, taps):
        """Bytes of the sums of a panel and a block."""
        return taps * self.vectors * self.kind.lanes ** 2 * self.kind.accumulator.bytes

    def unit(self, taps, chunk):
        """(panels, blocks) of a work unit, chosen so that images are rarely read from far memory while sums stay in the
        cache."""
        x, y, step = self.x, self.y, self.geometry.step
        rows = chunk * step[1] + x.rows[1] - (self.c.out[1] - 1) * step[1] - 1
        most = max(1, _NEAR_BYTES // (min(rows, math.prod(x.rows[:2])) * x.rows[2] * x.pixel))
        wanted = 1 if self.threads == 1 else pick("blocks a thread", (3, 6)) * self.threads
        whole = self.panels * x.blocks
        options = [(panels, blocks) for panels in {-(-self.panels // n) for n in range(1, self.panels + 1)}
                   for blocks in {-(-x.blocks // n) for n in range(1, x.blocks + 1)}
                   if blocks <= most and panels * blocks * self.sums_bytes(taps) <= _NEAR_BYTES
                   and -(-self.panels // panels) * -(-x.blocks // blocks) * self.c.groups >= min(wanted, whole)]

        def traffic(option):
            return x.bytes * -(-self.panels // option[0]) + y.bytes * -(-x.blocks // option[1])

        return min(options, key=traffic, default=(1, 1))

    def plan(self):
        """Return the finished Contraction."""
        c, x, y, keep = self.c, self.x, self.y, []
        taps = [x.row_offset(*tap) for tap in product(*self.geometry.taps)]
        places = list(product(range(c.batch), range(c.out[0]), range(c.out[1])))
        step = self.geometry.step
        chunk = max(1, _CHUNK_BYTES // (c.out[2] * self.vectors * y.pixel))
        unit_panels, unit_blocks = self.unit(len(taps), chunk)
        panel_units, block_units = -(-self.panels // unit_panels), -(-x.blocks // unit_blocks)
        scratch = -(-unit_panels * unit_blocks * self.sums_bytes(len(taps)) // 4096) * 4096
        matrix = self.inputs * len(taps)
        slots = {
            "x_rows": table([n * x.bytes + x.row_offset(z * step[0], at * step[1]) for n, z, at in places], keep),
            "y_rows": table([n * y.bytes + y.row_offset(z, at) for n, z, at in places], keep),
            "taps_at": table(taps, keep),
            "rows": len(places), "chunk_rows": chunk, "width": c.out[2], "taps": len(taps), "inputs": self.inputs,
            "outputs": self.outputs,
            "blocks": x.blocks, "panels": self.panels, "unit_blocks": unit_blocks, "block_units": block_units,
            "unit_panels": unit_panels, "panel_units": panel_units,
            "x_group_bytes": x.group_bytes, "y_group_bytes": y.group_bytes, "x_plane": x.plane, "y_plane": y.plane,
            "out_group": self.outputs * matrix * x.size, "out_row": matrix * x.size, "scratch_bytes": scratch}
        sources = {"x": ("temp", "x image", 0), "y": ("temp", "y image", 0), "scratch": ("temp", "scratch", 0),
                   "out": ("pointer", "weight", 0)}
        kernel = weight_kernel(self.kind, x.element, (self.rows, self.vectors), step[2],
                               len(taps) if len(taps) <= MOST_MIXED else 0)
        steps = (x.step("x image", 0, c.batch, self.threads), y.step("y image", 0, c.batch, self.threads),
                 KernelCall(kernel, c.groups * panel_units * block_units, 1, written_slots(SLOTS, slots, sources)))
        # the last panel may read planes of channels that are not there
        spare = self.vectors * y.plane + SLACK
        temporaries = {"x image": c.batch * x.bytes + SLACK, "y image": c.batch * y.bytes + spare,
                       "scratch": scratch * self.threads}
        return Contraction(steps, temporaries, tuple(keep))
