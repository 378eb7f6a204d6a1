"""Kernel calls of an implicit-GEMM convolution in AMX tiles, with weights and panels of its own."""

import math
from dataclasses import replace

import numpy as np

from ..llvm import tiles
from . import implicit_tiled, tiled
from .contraction import KernelCall, table, tile_numbers, written_slots
from .implicit_plan import Builder
from .registers import register_tile

_COPY_CYCLES = 1.2  # to copy a vector of a panel


class TiledBuilder(Builder):
    """Collects the kernel calls of a convolution; one call packs the weights of all its matmuls."""

    tile = implicit_tiled.TiledTile

    def __init__(self, c, threads, geometry, operand, strides, channels):
        super().__init__(c, threads, geometry, operand, strides, channels, kind=tile_numbers(c.dtype))

    def suits(self, products):
        """True if the CPU has AMX tiles, and the matmuls fill a good part of them."""
        return all(product.rows > 2 for product in products) and self.group_channels > 1

    def _words(self, channels):
        whole, last = implicit_tiled.sets(channels)
        return whole * tiles.WORDS + last

    def _sum_cycles(self, count, rows, vectors, depth):
        steps = -(-depth // tiles.WORDS)
        return steps * (count * tiled.cycles(rows, vectors) + tiles.WORDS * vectors * _COPY_CYCLES)

    def _depths(self):
        return (128, 128), (320, 256)  # a panel and a tile of weights in the L1 cache

    def _panel_bytes(self, blocks):
        return -(-min(blocks.block_depth + tiles.WORDS, blocks.depth + tiles.WORDS) * blocks.vectors * tiles.ROW_BYTES
                 // 4096) * 4096

    def _k_offsets(self, product):
        plane, taps = self.geometry.plane_elements, self.geometry.tap_offsets(product.taps)
        whole, last = implicit_tiled.sets(product.channels)
        found = [np.add.outer(taps, np.arange(first, first + count) * plane).reshape(-1)
                 for first, count in ((n * tiles.WORDS, tiles.WORDS if n < whole else last)
                                      for n in range(whole + bool(last)))]
        return np.concatenate([np.zeros(0, np.int64), *found])

    def _tile(self, product, count):
        return self.shape

    def _choose(self, products):
        super()._choose(products)
        largest = max(products, key=lambda product: self.geometry.count(product.out))
        self.shape = register_tile(largest.rows, self.geometry.count(largest.out), self.kind)
        self._starts = {}
        # else weights are already in the order in which they are read
        if len(products) > 1 or largest.weight_offsets is not None or self._taps(largest) > 1:
            self._pack_weights(products)

    def _taps(self, product):
        return math.prod(map(len, product.taps))

    def _chunk_bytes(self):
        """Bytes of a step along k for the rows of a tile."""
        return self.shape[0] * tiles.ROW_BYTES

    def _steps(self, product):
        """Steps along k of a matmul."""
        return -(-self._words(product.channels) * self._taps(product) // tiles.WORDS)

    def _pack_weights(self, products):
        """Add the kernel call that packs the weights of all matmuls: in each tile of rows one matmul after the
        other."""
        size, chunk, start = self.size, self._chunk_bytes(), 0
        for product in products:
            self._starts[id(product)] = start
            start += self._steps(product) * chunk
        self._tile_bytes = start + chunk  # the last chunk receives unused positions
        one, rows = products[0], self.shape[0]
        kernel_taps = math.prod(self.c.kernel)
        side_by_side = one.row_weights == kernel_taps
        lines = rows if side_by_side else 1
        places = np.zeros((-(-lines * kernel_taps // tiles.WORDS) * tiles.WORDS, 3), np.int64)
        places[:, ::2] = start
        whole, last = implicit_tiled.sets(one.channels)
        for product in products:
            taps, first = self._taps(product), self._starts[id(product)]
            offsets = np.arange(taps) if product.weight_offsets is None else product.weight_offsets.reshape(
                product.channels, taps)[0] // size
            for r in range(lines):
                words = np.arange(taps) * last
                where = places[r * one.row_weights + offsets]
                where[:, 0] = first + np.arange(taps) * chunk
                where[:, 1] = taps * chunk
                where[:, 2] = first + (whole * taps
                                       + words // tiles.WORDS) * chunk + words % tiles.WORDS * self.word.bytes
                where[:, ::2] += r * tiles.ROW_BYTES
                places[r * one.row_weights + offsets] = where
        blanks = [self._starts[id(product)] + (self._steps(product) - 1) * chunk for product in products
                  if self._words(product.channels) * self._taps(product) % tiles.WORDS]
        offsets = one.weight_offsets
        group_tiles = -(-one.rows // rows)
        slots = {
            "places": table(places.reshape(-1), self._keep), "blanks": table(blanks, self._keep),
            "blank_count": len(blanks), "rows": one.rows,
            "group_tiles": group_tiles, "group_stride": one.group_weights * size, "row_stride": one.row_weights * size,
            "channels": one.channels,
            "channel_stride": kernel_taps * size if offsets is None else self._channel_stride(products),
            "line": kernel_taps,
            "tile_bytes": self._tile_bytes}
        kernel = implicit_tiled.weight_kernel(replace(self.kind, element=self.element), rows, last, side_by_side)
        units = self.c.groups * group_tiles
        self.temporaries["weights"] = units * self._tile_bytes
        sources = {"weights": ("pointer", "weight", 0), "packed": ("temp", "weights", 0)}
        step = KernelCall(kernel, units, max(1, 16384 // (rows * one.channels * kernel_taps)),
                    written_slots(implicit_tiled.WEIGHT_SLOTS, slots, sources), fills="weights")
        self.steps += (step,)

    def _channel_stride(self, products):
        """Bytes from a channel's weights to the next one's."""
        for product in products:
            if self._taps(product):
                offsets = product.weight_offsets.reshape(product.channels, -1)
                return int(offsets[1, 0] - offsets[0, 0])
        return 0

    def _prepare(self, number, product):
        if not self._starts:
            return super()._prepare(number, product)
        out_offsets = self._out_offsets(product)
        blocks = self._blocks(product, len(out_offsets))
        slots = {"rows": product.rows, "depth": blocks.depth, "group_tiles": blocks.tiles,
                 "tile_bytes": self._tile_bytes,
                 **self._product_slots(product, blocks, out_offsets)}
        return product, blocks, slots, ("temp", "weights", self._starts[id(product)])
