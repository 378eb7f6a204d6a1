"""Kernel calls of a convolution with blocked channels: images in blocks of channels, packed weights, tiles."""

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from ....core.cached import cached_property
from ..llvm.features import targeted
from . import channels
from .blocked import ALONG, APART
from .channels_image import MOST_MIXED, SLACK, image_of
from .contraction import Contraction, KernelCall, numbers, table, written_slots
from .tune import pick

_IMAGE_BYTES = 6 << 20       # images made at a time: they are read again before they leave the cache
_SLICE_BYTES = 400 << 10     # of images, that a block of tiles reads for each panel of weights
_PANEL_BYTES = 224 << 10     # of weights, that every tile of a block reads
_PARTIAL_BYTES = 256 << 10   # of sums that are kept between blocks along k
_TURN_CYCLES = 8             # to transpose and store a vector of an image, or of finished sums


@dataclass(frozen=True)
class ChannelTile:
    """A register tile: `rows` adjacent outputs by `vectors` of output channels."""

    rows: int
    vectors: int

    @property
    def cycles(self):
        """Cycles of a step along k: two multiply-adds and two loads a cycle, a latency of four cycles for a sum, and a
        vector of weights from the L2 cache every two cycles."""
        return max(self.rows * self.vectors / 2, (self.rows + self.vectors) / 2 + 0.5, 4,
                   2 * self.vectors) + self.vectors / 8


def channel_tile(width, columns, lanes):
    """Return the tile that wastes least for rows of `width` outputs of `columns` channels."""
    registers = targeted().registers
    most = -(-columns // lanes)
    options = [ChannelTile(rows, min(most, (registers - 1) // (rows + 1)))
               for rows in range(2, min(lanes, registers // 2 - 2, width) + 1)]

    def cost(tile):
        return -(-width // tile.rows) * -(-most // tile.vectors) * tile.cycles

    return pick("channel tile", sorted(options, key=cost)[:2])


class ChannelProduct:
    """One matmul over (channels, taps) of an image: its tiles, and the kernel calls that pack its weights and compute
    it."""

    def __init__(self, plan, number, product):
        self.c, self.threads, self.image, self.product, self.step = (plan.c, plan.threads, plan.image, product,
                                                                     plan.geometry.step)
        self.taps = math.prod(map(len, product.taps))
        self.depth = plan.image.channels * self.taps
        self.packed = f"weights {number}"

    @property
    def suits(self):
        product = self.product
        return (self.depth > 0 and product.out[2] >= 4 and product.rows >= self.image.lanes
                and product.strides[4] in (1, 2)
                and min(product.strides) >= 0)

    @cached_property
    def tile(self):
        return channel_tile(self.product.out[2], self.product.rows, self.image.lanes)

    @cached_property
    def tiles(self):
        """(image offset in bytes, output offset in elements, outputs) of each tile of an image."""
        out, step, rows, found = self.product.out, self.step, self.tile.rows, []
        for z, y, x in product(range(out[0]), range(out[1]), range(0, out[2], rows)):
            at = self.image.row_offset(z * step[0], y * step[1], x * step[2])
            found.append((at, sum(k * stride for k, stride in zip((z, y, x), self.product.strides[2:])),
                          min(rows, out[2] - x)))
        return np.array(found, np.int64).T

    @property
    def width(self):
        """Channels of a panel of weights."""
        return self.tile.vectors * self.image.lanes

    @property
    def panels(self):
        return -(-self.product.rows // self.width)

    @property
    def panel_bytes(self):
        """Bytes of a packed panel; full squares are written."""
        return -(-self.depth // self.image.lanes) * self.image.lanes * self.width * self.image.word

    def cycles(self):
        """Estimate the cycles for all images, on one thread."""
        tiles, tile = self.tiles.shape[1] * self.c.batch, self.tile
        stores = tile.vectors * (self.image.lanes * self.product.strides[4] + 4) * _TURN_CYCLES
        return self.c.groups * tiles * self.panels * (self.depth * tile.cycles + stores)

    def pack_weights(self, keep):
        """The kernel call that packs the weights of all groups."""
        product, image = self.product, self.image
        order, offsets, distance = ALONG, 0, 0
        if product.weight_offsets is not None:
            places = product.weight_offsets.reshape(image.channels, self.taps)
            order, offsets = APART, table(product.weight_offsets, keep)
            distance = int(places[-1, 0] - places[-2, 0])
            if product.row_weights <= MOST_MIXED:
                order = channels.Mixed(product.row_weights, tuple(int(place) // image.size for place in places[0]))
        slots = {"channels": image.channels, "channel_stride": distance, "offsets": offsets, "panels": self.panels,
                 "columns": product.rows, "depth": self.depth,
                 "column_stride": product.row_weights * image.size, "group_stride": product.group_weights * image.size,
                 "panel_bytes": self.panel_bytes}
        kernel = channels.weight_kernel(replace(image.kind, element=image.element), self.tile.vectors, order)
        sources = {"weights": ("pointer", "weight", 0), "packed": ("temp", self.packed, 0)}
        grain = max(1, 16384 // (self.depth * self.width))
        return KernelCall(kernel, self.c.groups * self.panels, grain,
                          written_slots(channels.WEIGHT_SLOTS, slots, sources), fills=self.packed)

    def blocks(self, tiles):
        """Return (block_tiles, block_panels, block_depth) of a work unit, for `tiles` tiles in all."""
        image, sums = self.image, self.sums_bytes
        cuts = -(-self.depth * self.width * image.word // _PANEL_BYTES)
        block_depth = min(self.depth, -(-self.depth // (cuts * self.taps)) * self.taps)
        split = block_depth < self.depth
        slice_bytes = image.plane * block_depth / self.taps / image.lanes / self.tiles.shape[1]  # of a tile
        block_tiles = max(1, min(tiles, int(_SLICE_BYTES / slice_bytes), _PARTIAL_BYTES // sums if split else tiles))
        block_tiles = -(-tiles // -(-tiles // block_tiles))
        wanted = 1 if self.threads == 1 else pick("blocks a thread", (6, 3, 12), True) * self.threads
        block_panels = min(self.panels, max(1, -(-tiles // block_tiles) * self.panels * self.c.groups // wanted))
        if split:
            block_panels = max(1, min(block_panels, _PARTIAL_BYTES // (sums * block_tiles)))
        if self.threads > 1:
            block_tiles, block_panels = self.shared_out(tiles, block_tiles, block_panels)
        return block_tiles, block_panels, block_depth

    def shared_out(self, tiles, block_tiles, block_panels):
        """Return blocks of about this size that balance the load of threads."""
        cuts = -(-tiles // block_tiles)
        options = [(-(-tiles // n), panels) for n in range(cuts, min(cuts + 4, tiles) + 1)
                   for panels in range(block_panels, max(0, block_panels - 4), -1)]

        def longest(option):
            units = -(-tiles // option[0]) * -(-self.panels // option[1]) * self.c.groups
            return -(-units // self.threads) * option[0] * option[1]

        return min(options, key=longest)

    @property
    def sums_bytes(self):
        return self.tile.rows * self.width * self.image.kind.accumulator.bytes

    def multiply(self, start, images, epilogue, temporaries, keep):
        """The kernel call that computes all tiles of some images, from index `start` on."""
        c, image, product, tile = self.c, self.image, self.product, self.tile
        count = self.tiles.shape[1]
        tiles, panels = count * images, self.panels
        block_tiles, block_panels, block_depth = self.blocks(tiles)
        split = block_depth < self.depth
        tile_blocks, panel_blocks = -(-tiles // block_tiles), -(-panels // block_panels)
        scratch = -(-self.sums_bytes * (block_tiles * block_panels if split else 1) // 4096) * 4096
        temporaries["scratch"] = max(temporaries.get("scratch", 0), scratch * self.threads)
        image_places, out_places, lengths = (table(column, keep) for column in self.tiles)
        slots = {
            "k_offsets": table(self.k_offsets(), keep), "image_places": image_places, "out_places": out_places,
            "lengths": lengths,
            "depth": self.depth, "block_depth": block_depth, "columns": product.rows, "panels": panels,
            "block_panels": block_panels,
            "panel_blocks": panel_blocks, "tiles": tiles, "block_tiles": block_tiles, "tile_blocks": tile_blocks,
            "tiles_per_image": count, "panel_bytes": self.panel_bytes, "image_bytes": image.bytes,
            "image_group_bytes": image.group_bytes,
            "out_batch": product.strides[0] * image.size, "out_group": product.rows * product.strides[1] * image.size,
            "out_channel": product.strides[1] * image.size, "scratch_bytes": scratch, "partial_bytes": self.sums_bytes
            if split else 0}
        kernel = channels.conv_kernel(image.kind, image.element, (tile.rows, tile.vectors), self.step[2],
                                      product.strides[4], epilogue)
        place = (product.first + start * product.strides[0]) * image.size
        sources = {"weights": ("temp", self.packed, 0), "image": ("temp", "image", 0),
                   "scratch": ("temp", "scratch", 0),
                   "out": ("pointer", product.operand, place)}
        return KernelCall(kernel, c.groups * tile_blocks * panel_blocks, 1,
                    written_slots(channels.SLOTS, slots, sources) + epilogue.slots)

    def k_offsets(self):
        """The offset of each (channel, tap) in an image."""
        image, channel = self.image, np.arange(self.image.channels)
        taps = [image.row_offset(*tap) for tap in product(*self.product.taps)]
        return np.add.outer(channel // image.lanes * image.plane + channel % image.lanes * image.word,
                            np.array(taps, np.int64)).reshape(-1)


class ChannelPlan:
    """Matmuls over (channels, taps) of one image, as kernel calls; the arguments are as for `implicit_plan.Builder` and
    its matmuls."""

    def __init__(self, c, threads, geometry, operand, strides, group_channels, products):
        self.c, self.threads, self.geometry = c, threads, geometry
        self.image = image_of(c, geometry, geometry.taps, operand, strides, group_channels)
        self.products = [ChannelProduct(self, number, one) for number, one in enumerate(products)]

    @property
    def suits(self):
        """True if vectors of channels are full, and this template supports the outputs and taps."""
        return (self.image.element.is_float and numbers(self.c.dtype).per_word == 1 and self.image.full
                and all(one.suits for one in self.products))

    def cycles(self):
        """Estimate the cycles for all images on one thread, without the packing of weights."""
        return sum(one.cycles()
                   for one in self.products) + self.c.batch * self.image.bytes / self.image.pixel * _TURN_CYCLES

    def plan(self, epilogue):
        """Return the finished Contraction."""
        keep, batch, size = [], self.c.batch, self.image.bytes
        images = next(n for n in range(batch, 0, -1) if batch % n == 0 and (n == 1 or n * size <= _IMAGE_BYTES))
        temporaries = {"image": images * size + 4 * SLACK} | {one.packed: self.c.groups * one.panels * one.panel_bytes
                                                              for one in self.products}
        steps = [one.pack_weights(keep) for one in self.products]
        for start in range(0, batch, images):
            steps.append(self.image.step("image", start, images, self.threads))
            steps += [one.multiply(start, images, epilogue, temporaries, keep) for one in self.products]
        return Contraction(tuple(steps), temporaries, tuple(keep))
