"""The steps of a convolution with channels in the lanes: images in blocks of channels, packed weights, tiles."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from ..llvm.features import host
from . import channels, channels_weight
from .blocked import ACROSS, ALONG, APART
from .contraction import ELEMENTS, Contraction, Step, Table, numbers
from .image import is_contiguous
from .tune import pick

_SLACK = 4096                # bytes that may be read past the last image
_IMAGE_BYTES = 6 << 20       # images made at a time: they are read again before they leave the cache
_SLICE_BYTES = 400 << 10     # of images, that a block of tiles reads for each panel of weights
_PANEL_BYTES = 224 << 10     # of weights, that every tile of a block reads
_PARTIAL_BYTES = 256 << 10   # of sums that wait between blocks along k
_CHUNK_BYTES = 24 << 10      # of gradients, that stay in the first cache while all taps use them
_NEAR_BYTES = 288 << 10      # of images, or of sums, that stay in the second cache
_TURN_CYCLES = 8             # what a vector of an image, or of finished sums, takes to turn and to store


@dataclass(frozen=True)
class ChannelTile:
    """A register tile: `rows` neighbouring outputs by `vectors` of output channels."""

    rows: int
    vectors: int

    @property
    def cycles(self):
        """What a step along k takes: two multiply-adds a cycle, two loads a cycle, a sum takes four cycles to come back, and the
        second cache gives a vector of weights every two."""
        return max(self.rows * self.vectors / 2, (self.rows + self.vectors) / 2 + 0.5, 4, 2 * self.vectors) + self.vectors / 8


class ChannelImage:
    """Images of an operand in blocks of as many channels as a vector has lanes: `size` pixels with zeros around, `rows` in all."""

    def __init__(self, c, operand, strides, channels, size, pad, rows):
        self.operand, self.strides, self.channels, self.groups = operand, strides, channels, c.groups
        self.spatial, self.pad, self.rows = size, pad, rows
        self.element, kind = ELEMENTS[c.dtype], numbers(c.dtype)
        self.kind = numbers(next(name for name, e in ELEMENTS.items() if e is kind.accumulator))
        self.lanes, self.size, self.word = self.kind.lanes, self.element.bytes, self.kind.word.bytes
        self.blocks = -(-channels // self.lanes)
        self.pixel = self.lanes * self.word

    @property
    def plane(self):
        """Bytes of a block of channels of an image; the last row may spill a vector of pixels."""
        return (math.prod(self.rows) + self.lanes) * self.pixel

    @property
    def group_bytes(self):
        return self.plane * self.blocks

    @property
    def bytes(self):
        return self.group_bytes * self.groups

    @property
    def full(self):
        """Whether few lanes lack a channel."""
        return self.channels >= self.lanes and self.blocks * self.lanes <= 1.25 * self.channels

    def row_offset(self, z, y, x=0):
        """Bytes from an image's first pixel to this one."""
        return ((z * self.rows[1] + y) * self.rows[2] + x) * self.pixel

    def step(self, target, start, images, threads):
        """The Step that writes some images, from number `start` on, into a temporary."""
        strides = self.strides
        pixels = {1: channels.SIDE_BY_SIDE, 2: channels.EVERY_OTHER}.get(strides[4], channels.FAR)
        pixels = channels.SIDE_BY_SIDE if self.spatial[2] == 1 and strides[1] != 1 else pixels
        planes = self.blocks * self.groups
        slots = {"channels": self.channels, "planes": planes, "group_planes": self.blocks, "plane_bytes": self.plane, "image_bytes": self.bytes}
        slots.update({f"x_{name}": stride * self.size for name, stride in zip(("batch", "channel", "depth", "height", "width"), strides)})
        for k, name in enumerate(("depth", "height", "width")):
            slots.update({name: self.spatial[k], f"pad_{name}": self.pad[k], f"rows_{name}": self.rows[k]})
        sources = {"x": ("pointer", self.operand, start * strides[0] * self.size), "image": ("temp", target, 0)}
        grain = max(1, min(65536 // self.plane, images * planes // (4 * threads)))
        return Step(channels.image_kernel(self.element, self.kind, pixels), images * planes, grain, _slots(channels.IMAGE_SLOTS, slots, sources))


def _slots(names, numbers, sources):
    return tuple(sources[name] if name in sources else ("const", numbers[name]) for name in names)


def _table(offsets, keep):
    """The address of a table that lives as long as the plan that keeps it."""
    array = np.ascontiguousarray(offsets, np.int64)
    keep.append(array)
    return Table(array)


def channel_tile(width, columns, lanes):
    """The tile for rows of so many outputs of so many channels that wastes least."""
    registers = host().registers
    most = -(-columns // lanes)
    options = [ChannelTile(rows, min(most, (registers - 1) // (rows + 1))) for rows in range(2, min(lanes, registers // 2 - 2, width) + 1)]

    def cost(tile):
        return -(-width // tile.rows) * -(-most // tile.vectors) * tile.cycles

    return pick("channel tile", sorted(options, key=cost)[:2])


class ChannelPlan:
    """One product over (channels, taps) of an image, as steps; the arguments are as for `implicit_plan.Builder` and its products."""

    def __init__(self, c, threads, geometry, operand, strides, group_channels, product):
        self.c, self.threads, self.geometry, self.product, self.channels = c, threads, geometry, product, group_channels
        self.taps = math.prod(map(len, product.taps))
        self.depth = group_channels * self.taps
        self.image = image_of(c, geometry, product.taps, operand, strides, group_channels)
        self.element, self.kind, self.lanes, self.size, self.word = (getattr(self.image, name) for name in
                                                                     ("element", "kind", "lanes", "size", "word"))

    @property
    def suits(self):
        """Whether vectors of channels are full, and outputs and taps as this template wants them."""
        product = self.product
        return (self.element.is_float and numbers(self.c.dtype).per_word == 1 and self.depth > 0 and product.out[2] >= 4
                and product.rows >= self.lanes and self.image.full
                and is_contiguous(product.strides, product.out) and min(product.strides[:2]) >= 0)

    @cached_property
    def tile(self):
        return channel_tile(self.product.out[2], self.product.rows, self.lanes)

    @cached_property
    def tiles(self):
        """(image offset in bytes, output offset in elements, outputs) of each tile of an image."""
        out, step, rows, found = self.product.out, self.geometry.step, self.tile.rows, []
        for z, y, x in product(range(out[0]), range(out[1]), range(0, out[2], rows)):
            at = self.image.row_offset(z * step[0], y * step[1], x * step[2])
            found.append((at, (z * out[1] + y) * out[2] + x, min(rows, out[2] - x)))
        return np.array(found, np.int64).T

    @property
    def panels(self):
        return -(-self.product.rows // (self.tile.vectors * self.lanes))

    def cycles(self):
        """About how many cycles all images take on one thread, packing of weights left aside."""
        tiles, tile = self.tiles.shape[1] * self.c.batch, self.tile
        images = self.c.batch * self.image.bytes / self.image.pixel
        stores = tile.vectors * (self.lanes + 4) * _TURN_CYCLES
        return self.c.groups * tiles * self.panels * (self.depth * tile.cycles + stores) + images * _TURN_CYCLES

    def plan(self, epilogue):
        """The finished Contraction."""
        self.steps, self.temporaries, self.keep = [], {}, []
        image = self.image.bytes
        images = next(n for n in range(self.c.batch, 0, -1) if self.c.batch % n == 0 and (n == 1 or n * image <= _IMAGE_BYTES))
        self.temporaries["image"] = images * image + _SLACK * 4
        self.pack_weights()
        for start in range(0, self.c.batch, images):
            self.steps.append(self.image.step("image", start, images, self.threads))
            self.multiply(start, images, epilogue)
        return Contraction(tuple(self.steps), self.temporaries, tuple(self.keep))

    def add(self, kernel, extent, grain, names, slots, sources, extra=()):
        self.steps.append(Step(kernel, extent, grain, _slots(names, slots, sources) + extra))

    def pack_weights(self):
        """The step that packs the weights of all groups."""
        product, columns = self.product, self.tile.vectors * self.lanes
        order = ALONG if product.weight_offsets is None else ACROSS if product.row_weights == 1 else APART
        offsets = 0 if order == ALONG else _table(product.weight_offsets, self.keep)
        self.panel_bytes = -(-self.depth // self.lanes) * self.lanes * columns * self.word  # whole squares are written
        slots = {"offsets": offsets, "panels": self.panels, "columns": product.rows, "depth": self.depth,
                 "column_stride": product.row_weights * self.size, "group_stride": product.group_weights * self.size,
                 "panel_bytes": self.panel_bytes}
        kind = replace(self.kind, element=self.element)
        kernel = channels.weight_kernel(kind, self.tile.vectors, order)
        sources = {"weights": ("pointer", "weight", 0), "packed": ("temp", "weights", 0)}
        units = self.c.groups * self.panels
        self.temporaries["weights"] = units * self.panel_bytes
        self.add(kernel, units, max(1, 16384 // (self.depth * columns)), channels.WEIGHT_SLOTS, slots, sources)

    def multiply(self, start, images, epilogue):
        """The step that computes all tiles of some images."""
        c, product, tile = self.c, self.product, self.tile
        width, count = tile.vectors * self.lanes, self.tiles.shape[1]
        tiles, panels = count * images, self.panels
        blocks = -(-self.depth * width * self.word // _PANEL_BYTES)
        block_depth = -(-self.depth // blocks)
        block_depth = min(self.depth, -(-block_depth // self.taps) * self.taps)
        sums = tile.rows * width * self.kind.accumulator.bytes
        split = block_depth < self.depth
        slice_bytes = self.image.plane * block_depth / self.taps / self.lanes / count  # of a tile
        block_tiles = max(1, min(tiles, int(_SLICE_BYTES / slice_bytes)))
        wanted = 1 if self.threads == 1 else pick("blocks a thread", (6, 3, 12)) * self.threads
        if split:
            block_tiles = min(block_tiles, max(1, _PARTIAL_BYTES // sums))
        block_tiles = -(-tiles // -(-tiles // block_tiles))
        tile_blocks = -(-tiles // block_tiles)
        block_panels = min(panels, max(1, tile_blocks * panels * c.groups // wanted))
        if split:
            block_panels = max(1, min(block_panels, _PARTIAL_BYTES // (sums * block_tiles)))
        scratch = -(-sums * (block_tiles * block_panels if split else 1) // 4096) * 4096
        self.temporaries["scratch"] = scratch * self.threads
        image_places, out_places, lengths = (_table(column, self.keep) for column in self.tiles)
        slots = {
            "k_offsets": _table(self.k_offsets(), self.keep), "image_places": image_places, "out_places": out_places, "lengths": lengths,
            "depth": self.depth, "block_depth": block_depth, "columns": product.rows, "panels": panels, "block_panels": block_panels,
            "panel_blocks": -(-panels // block_panels), "tiles": tiles, "block_tiles": block_tiles, "tile_blocks": tile_blocks,
            "tiles_per_image": count, "panel_bytes": self.panel_bytes, "image_bytes": self.image.bytes,
            "image_group_bytes": self.image.group_bytes, "out_batch": product.strides[0] * self.size,
            "out_group": product.rows * product.strides[1] * self.size, "out_channel": product.strides[1] * self.size,
            "scratch_bytes": scratch, "partial_bytes": sums if split else 0}
        kernel = channels.conv_kernel(self.kind, self.element, tile.rows, tile.vectors, self.geometry.step[2], epilogue)
        place = (product.first + start * product.strides[0]) * self.size
        sources = {"weights": ("temp", "weights", 0), "image": ("temp", "image", 0), "scratch": ("temp", "scratch", 0),
                   "out": ("pointer", product.operand, place)}
        units = c.groups * tile_blocks * slots["panel_blocks"]
        self.add(kernel, units, 1, channels.SLOTS, slots, sources, epilogue.slots)

    def k_offsets(self):
        """The offset of each (channel, tap) in an image."""
        channel = np.arange(self.channels)
        taps = [self.image.row_offset(*tap) for tap in product(*self.product.taps)]
        return np.add.outer(channel // self.lanes * self.image.plane + channel % self.lanes * self.word, np.array(taps, np.int64)).reshape(-1)


def image_of(c, geometry, taps, operand, strides, group_channels):
    """The image that products with these taps read."""
    rows = tuple((out - 1) * step + max(at) + 1 for out, step, at in zip(geometry.out, geometry.step, taps))
    return ChannelImage(c, operand, strides, group_channels, geometry.size, geometry.pad, rows)


class ChannelWeights:
    """The gradient of the weights, as steps."""

    def __init__(self, c, threads, geometry):
        self.c, self.threads, self.geometry = c, threads, geometry
        self.inputs, self.outputs = c.in_channels // c.groups, c.out_channels // c.groups
        self.x = image_of(c, geometry, geometry.taps, "x", c.x, self.inputs)
        self.y = ChannelImage(c, "y", c.y, self.outputs, c.out, (0, 0, 0), c.out)
        self.kind = self.x.kind
        lanes, wide = self.kind.lanes, host().registers == 32
        self.rows = min(lanes, 8 if wide else 4)
        # more vectors of channels at once, or fewer that are not there
        self.vectors = min((2, 3) if wide else (2,), key=lambda vectors: -(-self.outputs // (vectors * lanes)) * vectors)
        self.panels = -(-self.outputs // (self.vectors * lanes))

    @property
    def suits(self):
        """Whether vectors of channels are full, and there is enough to share between threads."""
        return (self.x.element.is_float and numbers(self.c.dtype).per_word == 1 and self.x.full and self.y.full
                and (self.threads == 1 or self.panels * self.x.blocks * self.c.groups >= 3 * self.threads))

    def sums_bytes(self, taps):
        """Bytes of the sums of a panel and a block."""
        return taps * self.vectors * self.kind.lanes ** 2 * self.kind.accumulator.bytes

    def unit(self, taps, chunk):
        """(panels, blocks) of a unit of work, so that images are read from afar as rarely as possible while sums stay near."""
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
        """The finished Contraction."""
        c, x, y, keep = self.c, self.x, self.y, []
        taps, lanes = [x.row_offset(*tap) for tap in product(*self.geometry.taps)], self.kind.lanes
        places = list(product(range(c.batch), range(c.out[0]), range(c.out[1])))
        step = self.geometry.step
        chunk = max(1, _CHUNK_BYTES // (c.out[2] * self.vectors * y.pixel))
        unit_panels, unit_blocks = self.unit(len(taps), chunk)
        panel_units, block_units = -(-self.panels // unit_panels), -(-x.blocks // unit_blocks)
        scratch = -(-unit_panels * unit_blocks * self.sums_bytes(len(taps)) // 4096) * 4096
        matrix = self.inputs * len(taps)
        slots = {
            "x_rows": _table([n * x.bytes + x.row_offset(z * step[0], at * step[1]) for n, z, at in places], keep),
            "y_rows": _table([n * y.bytes + y.row_offset(z, at) for n, z, at in places], keep), "taps_at": _table(taps, keep),
            "rows": len(places), "chunk_rows": chunk, "width": c.out[2], "taps": len(taps), "inputs": self.inputs, "outputs": self.outputs,
            "blocks": x.blocks, "panels": self.panels, "unit_blocks": unit_blocks, "block_units": block_units,
            "unit_panels": unit_panels, "panel_units": panel_units,
            "x_group_bytes": x.group_bytes, "y_group_bytes": y.group_bytes, "x_plane": x.plane, "y_plane": y.plane,
            "out_group": self.outputs * matrix * x.size, "out_row": matrix * x.size, "scratch_bytes": scratch}
        sources = {"x": ("temp", "x image", 0), "y": ("temp", "y image", 0), "scratch": ("temp", "scratch", 0), "out": ("pointer", "weight", 0)}
        kernel = channels_weight.weight_kernel(self.kind, x.element, self.rows, self.vectors, step[2])
        steps = (x.step("x image", 0, c.batch, self.threads), y.step("y image", 0, c.batch, self.threads),
                 Step(kernel, c.groups * panel_units * block_units, 1, _slots(channels_weight.SLOTS, slots, sources)))
        # the last panel may read planes of channels that are not there
        spare = self.vectors * y.plane + _SLACK
        temporaries = {"x image": c.batch * x.bytes + _SLACK, "y image": c.batch * y.bytes + spare, "scratch": scratch * self.threads}
        return Contraction(steps, temporaries, tuple(keep))
