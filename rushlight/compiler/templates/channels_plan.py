"""The steps of a convolution with channels in the lanes: images in blocks of channels, packed weights, tiles."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from ..llvm.features import host
from . import channels
from .blocked import ACROSS, ALONG, APART
from .contraction import ELEMENTS, Contraction, Step, Table, numbers
from .image import is_contiguous
from .tune import pick

_SLACK = 4096                # bytes that may be read past the last image
_IMAGE_BYTES = 6 << 20       # images made at a time: they are read again before they leave the cache
_SLICE_BYTES = 400 << 10     # of images, that a block of tiles reads for each panel of weights
_PANEL_BYTES = 224 << 10     # of weights, that every tile of a block reads
_PARTIAL_BYTES = 256 << 10   # of sums that wait between blocks along k
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
        self.c, self.threads, self.geometry, self.product = c, threads, geometry, product
        self.operand, self.strides, self.channels = operand, strides, group_channels
        self.element, kind = ELEMENTS[c.dtype], numbers(c.dtype)
        self.kind = numbers(next(name for name, e in ELEMENTS.items() if e is kind.accumulator))
        self.lanes, self.size, self.word = self.kind.lanes, self.element.bytes, self.kind.word.bytes
        self.taps = math.prod(map(len, product.taps))
        self.depth = group_channels * self.taps
        self.blocks = -(-group_channels // self.lanes)
        self.rows = tuple((out - 1) * step + max(taps) + 1 for out, step, taps in zip(product.out, geometry.step, product.taps))

    @property
    def suits(self):
        """Whether vectors of channels are full, and outputs and taps as this template wants them."""
        product, lanes = self.product, self.lanes
        return (self.element.is_float and numbers(self.c.dtype).per_word == 1 and self.depth > 0 and product.out[2] >= 4
                and min(product.rows, self.channels) >= lanes and self.blocks * lanes <= 1.25 * self.channels
                and is_contiguous(product.strides, product.out) and min(product.strides[:2]) >= 0)

    @cached_property
    def tile(self):
        return channel_tile(self.product.out[2], self.product.rows, self.lanes)

    @cached_property
    def tiles(self):
        """(image offset in bytes, output offset in elements, outputs) of each tile of an image."""
        product, geometry, rows = self.product, self.geometry, self.tile.rows
        pixel, found = self.lanes * self.word, []
        for z, y, x in _places(product.out, rows):
            at = ((z * geometry.step[0] * self.rows[1]) + y * geometry.step[1]) * self.rows[2] + x * geometry.step[2]
            found.append((at * pixel, (z * product.out[1] + y) * product.out[2] + x, min(rows, product.out[2] - x)))
        return np.array(found, np.int64).T

    @property
    def panels(self):
        return -(-self.product.rows // (self.tile.vectors * self.lanes))

    @property
    def plane(self):
        """Bytes of a block of channels of an image; the last row may spill a vector of pixels."""
        return (math.prod(self.rows) + self.lanes) * self.lanes * self.word

    def cycles(self):
        """About how many cycles all images take on one thread, packing of weights left aside."""
        tiles, tile = self.tiles.shape[1] * self.c.batch, self.tile
        images = self.c.groups * self.blocks * self.c.batch * self.plane / self.word / self.lanes
        stores = tile.vectors * (self.lanes + 4) * _TURN_CYCLES
        return self.c.groups * tiles * self.panels * (self.depth * tile.cycles + stores) + images * _TURN_CYCLES

    def plan(self, epilogue):
        """The finished Contraction."""
        self.steps, self.temporaries, self.keep = [], {}, []
        image = self.plane * self.blocks * self.c.groups
        images = next(n for n in range(self.c.batch, 0, -1) if self.c.batch % n == 0 and (n == 1 or n * image <= _IMAGE_BYTES))
        self.temporaries["image"] = images * image + _SLACK * 4
        self.pack_weights()
        for start in range(0, self.c.batch, images):
            self.add_images(start, images)
            self.multiply(start, images, epilogue)
        return Contraction(tuple(self.steps), self.temporaries, tuple(self.keep))

    def table(self, offsets):
        array = np.ascontiguousarray(offsets, np.int64)
        self.keep.append(array)
        return Table(array)

    def add(self, kernel, extent, grain, names, slots, sources, extra=()):
        written = tuple(sources[name] if name in sources else ("const", slots[name]) for name in names)
        self.steps.append(Step(kernel, extent, grain, written + extra))

    def pack_weights(self):
        """The step that packs the weights of all groups."""
        product, columns = self.product, self.tile.vectors * self.lanes
        order = ALONG if product.weight_offsets is None else ACROSS if product.row_weights == 1 else APART
        offsets = 0 if order == ALONG else self.table(product.weight_offsets)
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

    def add_images(self, start, images):
        """The step that writes some images, from number `start` on."""
        c, geometry, strides = self.c, self.geometry, self.strides
        pixels = {1: channels.SIDE_BY_SIDE, 2: channels.EVERY_OTHER}.get(strides[4], channels.FAR)
        pixels = channels.SIDE_BY_SIDE if geometry.size[2] == 1 and strides[1] != 1 else pixels
        kernel = channels.image_kernel(self.element, self.kind, pixels)
        planes = self.blocks * c.groups
        slots = {"channels": self.channels, "planes": planes, "group_planes": self.blocks, "plane_bytes": self.plane,
                 "image_bytes": self.plane * planes}
        slots.update({f"x_{name}": stride * self.size for name, stride in zip(("batch", "channel", "depth", "height", "width"), strides)})
        for k, name in enumerate(("depth", "height", "width")):
            slots.update({name: geometry.size[k], f"pad_{name}": geometry.pad[k], f"rows_{name}": self.rows[k]})
        sources = {"x": ("pointer", self.operand, start * strides[0] * self.size), "image": ("temp", "image", 0)}
        grain = max(1, min(65536 // self.plane, images * planes // (4 * self.threads)))
        self.add(kernel, images * planes, grain, channels.IMAGE_SLOTS, slots, sources)

    def multiply(self, start, images, epilogue):
        """The step that computes all tiles of some images."""
        c, product, tile = self.c, self.product, self.tile
        width, count = tile.vectors * self.lanes, self.tiles.shape[1]
        planes, tiles, panels = self.blocks * c.groups, count * images, self.panels
        blocks = -(-self.depth * width * self.word // _PANEL_BYTES)
        block_depth = -(-self.depth // blocks)
        block_depth = min(self.depth, -(-block_depth // self.taps) * self.taps)
        sums = tile.rows * width * self.kind.accumulator.bytes
        split = block_depth < self.depth
        slice_bytes = self.plane * block_depth / self.taps / self.lanes / count  # of a tile
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
        image_places, out_places, lengths = map(self.table, self.tiles)
        slots = {
            "k_offsets": self.table(self.k_offsets()), "image_places": image_places, "out_places": out_places, "lengths": lengths,
            "depth": self.depth, "block_depth": block_depth, "columns": product.rows, "panels": panels, "block_panels": block_panels,
            "panel_blocks": -(-panels // block_panels), "tiles": tiles, "block_tiles": block_tiles, "tile_blocks": tile_blocks,
            "tiles_per_image": count, "panel_bytes": self.panel_bytes, "image_bytes": self.plane * planes,
            "image_group_bytes": self.plane * self.blocks, "out_batch": product.strides[0] * self.size,
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
        pixel = self.lanes * self.word
        channel = np.arange(self.channels)
        taps = [((z * self.rows[1] + y) * self.rows[2] + x) * pixel for z, y, x in product(*self.product.taps)]
        return np.add.outer(channel // self.lanes * self.plane + channel % self.lanes * self.word, np.array(taps, np.int64)).reshape(-1)


def _places(out, rows):
    """The first output of every tile."""
    return product(range(out[0]), range(out[1]), range(0, out[2], rows))
