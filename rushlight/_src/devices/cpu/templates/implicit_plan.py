"""Kernel calls of an implicit-GEMM convolution: pad images, pack weights, multiply; some images at a time."""

import math
from dataclasses import dataclass, replace

import numpy as np

from ..llvm.features import targeted
from . import image, image_turned, implicit
from .contraction import ELEMENTS, Contraction, KernelCall, numbers, table, written_slots
from .image import SLACK, is_contiguous
from .registers import register_tile
from .tune import pick

_IMAGE_BYTES = 4 << 20    # padded images made at a time: they are read again before they leave the cache
_WEIGHT_BYTES = 448 << 10  # a block of weights, in half of the L2 cache
_PARTIAL_BYTES = 384 << 10
_PAD_CYCLES = 40          # to write a vector of a padded image
_SCATTER_CYCLES = 30      # to store a vector of outputs that are not contiguous
_WEIGHT_ROWS = 8  # rows of weights that are read in parallel when they are packed transposed


@dataclass(frozen=True)
class Product:
    """One matmul over (channels, taps) of the images: `rows` outputs a group, of spatial size `out`.

    `strides` and `first` (elements) place the outputs in an operand. `weight_offsets` (bytes; None: in order) locate
    each k in the weights, whose rows are `row_weights` and whose groups are `group_weights` elements apart.
    """

    taps: list
    out: tuple
    operand: str
    strides: tuple
    first: int
    rows: int
    channels: int
    weight_offsets: object
    row_weights: int
    group_weights: int


@dataclass(frozen=True)
class _Blocks:
    """The blocking of a matmul: the register tile, and blocks of tiles, panels of outputs, and words along k."""

    tile_rows: int
    vectors: int
    tiles: int
    panels: int
    panels_per_image: int
    depth: int
    block_tiles: int
    block_panels: int
    block_depth: int

    @property
    def split(self):
        """True if accumulators are kept in scratch between blocks along k."""
        return self.block_depth < self.depth


class Builder:
    """Collects the kernel calls of a convolution whose images come from one operand."""

    tile = None  # the class that emits its register tile, if not implicit.Tile

    def __init__(self, c, threads, geometry, operand, strides, channels, whole=False, kind=None):
        self.c, self.threads, self.geometry = c, threads, geometry
        self.operand, self.strides = operand, strides
        self.group_channels = channels // c.groups
        self.kind = kind or _image_numbers(c.dtype, self.group_channels)
        self.word, self.element = self.kind.word, ELEMENTS[c.dtype]
        self.size = self.element.bytes
        self.planes = c.groups * self._words(self.group_channels)
        self.steps, self.temporaries, self._keep = (), {}, []
        image_bytes = geometry.plane_elements * self.planes * self.word.bytes
        self.images = c.batch if whole else _divisor(c.batch, max(1, _IMAGE_BYTES // image_bytes))

    def _words(self, channels):
        """Number of planes for `channels` channels."""
        return -(-channels // self.kind.per_word)

    def plan(self):
        """Return the finished Contraction."""
        return Contraction(self.steps, self.temporaries, tuple(self._keep))

    def _geometries(self):
        """The geometry with and without a copy per column of taps and interleaved rows of images."""
        turns = (False, True) if equidistant(self.geometry.taps[2]) else (False,)
        return [replace(self.geometry, columns=columns, images=images) for columns in turns
                for images in sorted({1, self.images})]

    def cycles(self, products):
        """Estimate the cycles for all images on one thread, without the packing of weights."""
        return min(self._cycles(geometry, products) for geometry in self._geometries()) * self.c.batch // self.images

    def _best_geometry(self, products):
        """The geometry that costs fewest cycles."""
        options = self._geometries()
        return options[pick("geometry", sorted(range(len(options)), key=lambda k: self._cycles(options[k], products)))]

    def _cycles(self, geometry, products):
        """Estimate the cycles of a geometry for the current images, on one thread."""
        lanes = self.kind.lanes
        rows = math.prod(geometry.rows[:2]) * math.prod(geometry.phases) * self.planes * self.images
        total = rows * -(-geometry.rows[2] // lanes) * _PAD_CYCLES
        for product in products:
            count = geometry.count(product.out)
            tile_rows, vectors = register_tile(product.rows, count, self.kind)
            panels = -(-count // (vectors * lanes)) * self.images // geometry.images
            depth = self._words(product.channels) * math.prod(len(taps) for taps in product.taps)
            apart = geometry.images > 1 or not is_contiguous(product.strides, product.out)
            tiles = -(-product.rows // tile_rows)
            stored = tiles * tile_rows * vectors * (_SCATTER_CYCLES if apart else 0)
            total += self.c.groups * panels * (stored + self._sum_cycles(tiles, tile_rows, vectors, depth))
        return total

    def _sum_cycles(self, tiles, rows, vectors, depth):
        """Estimate the cycles of `tiles` tiles that share a panel."""
        return tiles * rows * vectors * depth / 2

    def _add(self, kernel, extent, grain, names, slots, sources, extra=(), fills=""):
        self.steps += (KernelCall(kernel, extent, grain, written_slots(names, slots, sources) + extra, fills),)

    def add_image(self, start):
        """Add the call that writes padded, split images from index `start` on into the temporary "<operand> image"."""
        geometry, strides = self.geometry, self.strides
        contiguous = strides[4] == 1 or geometry.size[2] == 1
        step = geometry.step[2] if contiguous and geometry.step[2] <= 2 else 0
        slots = image.pad_slots(geometry, strides, self.group_channels, self._words(self.group_channels), self.c.groups,
                                self.size, self.kind)
        name = f"{self.operand} image"
        sources = {"x": ("pointer", self.operand, start * strides[0] * self.size), "image": ("temp", name, 0)}
        planes = self.planes * (1 if geometry.images > 1 else self.images)
        self.temporaries[name] = (geometry.plane_elements * planes + 4 * geometry.pitch) * self.word.bytes + SLACK
        units, kernel, names = self.images * self.planes, image.pad_kernel, image.PAD_SLOTS
        if strides[1] == 1 and not step and self.element.is_float:  # channels are contiguous
            kernel, names = image_turned.pad_kernel, image_turned.SLOTS
            slots["group_sets"] = -(-slots["group_planes"] // image_turned.planes(self.kind))
            units = self.images * self.c.groups * slots["group_sets"]
        grain = max(1, min(16384 * self.images * self.planes // units // max(geometry.plane_elements // geometry.images,
                                                                             1), units // (4 * self.threads)))
        self._add(kernel(self.element, self.kind, step), units, grain, names, slots, sources)

    def multiply(self, products, epilogue):
        """Add the kernel calls that pack the weights of some matmuls once, and compute them for all images."""
        self._choose(products)
        prepared = [self._prepare(number, product) for number, product in enumerate(products)]
        for start in range(0, self.c.batch, self.images):
            self.add_image(start)
            for product, blocks, slots, packed in prepared:
                self._add_product(product, blocks, slots, packed, start, epilogue)

    def _choose(self, products):
        """Choose the properties that all matmuls share."""
        self.geometry = self._best_geometry(products)

    def _prepare(self, number, product):
        """Pack a matmul's weights and return what its kernel calls share: (product, blocks, slots, packed weights)."""
        out_offsets = self._out_offsets(product)
        blocks = self._blocks(product, len(out_offsets))
        slots = {**self._weight_slots(product, blocks), **self._product_slots(product, blocks, out_offsets)}
        name = f"weights {number}"
        packed = "temp", name, 0
        self.temporaries[name] = self.c.groups * blocks.tiles * slots["tile_bytes"]
        kind = replace(self.kind, element=self.element, name=self.c.dtype)
        contiguous = product.weight_offsets is None and (kind.per_word == 1 or blocks.depth
                                                         == self._words(product.channels))
        kernel = implicit.weight_kernel(kind, blocks.tile_rows, contiguous)
        units = self.c.groups * (blocks.tiles if contiguous else slots["blocks"])
        words = blocks.tile_rows * blocks.depth if contiguous else product.rows * slots["run"]
        grain = max(1, 8192 // max(words, 1))
        sources = {"weights": ("pointer", "weight", 0), "packed": packed}
        self._add(kernel, units, grain, implicit.WEIGHT_SLOTS, slots, sources, fills=name)
        return product, blocks, slots, packed

    def _out_offsets(self, product):
        """The offset of every output index in the operand, -1 for discarded ones."""
        return self.geometry.output_offsets(product.out, (product.strides[0], *product.strides[2:]))

    def _weight_slots(self, product, blocks):
        word_bytes = self.word.bytes
        planes = self._words(product.channels)
        taps = blocks.depth // planes
        run = _WEIGHT_ROWS * taps
        offsets = product.weight_offsets
        if offsets is None:
            offsets = np.arange(product.channels * taps) * self.size
        offsets = offsets.reshape(product.channels, taps)
        return {
            "second": int(offsets[1, 0] - offsets[0, 0]) if len(offsets) > 1 and taps else 0,
            "elements": product.channels * taps,
            "pairs": product.channels // self.kind.per_word * taps,
            "run": run, "blocks": -(-blocks.depth // max(run, 1)),
            "rows": product.rows, "depth": blocks.depth, "row_stride": product.row_weights * self.size,
            "group_tiles": blocks.tiles, "group_stride": product.group_weights * self.size,
            "tile_bytes": -(-blocks.depth // self.kind.chunk) * self.kind.chunk * blocks.tile_rows * word_bytes + 64,
            "offsets": table(offsets[::self.kind.per_word].reshape(-1), self._keep)}

    def _product_slots(self, product, blocks, out_offsets):
        word_bytes, strides = self.word.bytes, product.strides
        plane = self.geometry.plane_elements
        planes = self._words(product.channels)
        width = blocks.vectors * self.kind.lanes
        partial = blocks.tile_rows * width * self.kind.accumulator.bytes
        waiting = blocks.block_tiles * blocks.block_panels if blocks.split else 1
        scratch = -(-partial * waiting // 4096) * 4096
        panel_at, scratch = scratch, scratch + self._panel_bytes(blocks)
        self.temporaries["scratch"] = max(self.temporaries.get("scratch", 0), scratch * self.threads)
        return {
            "k_offsets": table(self._k_offsets(product) * word_bytes, self._keep), "panel_at": panel_at,
            "out_offsets": table(np.pad(out_offsets, (0, width), constant_values=-1), self._keep),
            "block_tiles": blocks.block_tiles, "row_blocks": -(-blocks.tiles // blocks.block_tiles),
            "block_panels": blocks.block_panels, "panel_blocks": -(-blocks.panels // blocks.block_panels),
            "block_depth": blocks.block_depth, "panels_per_image": blocks.panels_per_image, "panels": blocks.panels,
            "image_bytes": plane * self.planes * word_bytes,
            "image_group_bytes": planes * plane * word_bytes,
            "out_batch": strides[0] * self.size, "out_group": product.rows * strides[1] * self.size,
            "out_row": strides[1] * self.size, "scratch_bytes": scratch, "partial_bytes": partial, "partials": waiting}

    def _k_offsets(self, product):
        """The offset of each word along k in an image, in words."""
        planes = np.arange(self._words(product.channels)) * self.geometry.plane_elements
        return np.add.outer(planes, self.geometry.tap_offsets(product.taps)).reshape(-1)

    def _panel_bytes(self, blocks):
        """Bytes of scratch for a panel."""
        return 0

    def _add_product(self, product, blocks, slots, packed, start, epilogue):
        """Add the kernel call that multiplies, for the images that were padded last."""
        # only AVX-512 compresses a vector in one instruction
        dense = is_contiguous(product.strides, product.out)
        compressed = targeted().width == 512 and dense and self.geometry.images == 1
        kernel = implicit.conv_kernel(self.kind, self.element, blocks.tile_rows, blocks.vectors, dense, compressed,
                                      epilogue, self.tile)
        place = (product.first + start * product.strides[0]) * self.size
        sources = {"weights": packed, "image": ("temp", f"{self.operand} image", 0),
                   "scratch": ("temp", "scratch", 0), "out": ("pointer", product.operand, place)}
        units = self.c.groups * slots["row_blocks"] * slots["panel_blocks"]
        grain = 1 if self.c.groups == 1 else max(1, units // (8 * self.threads))
        self._add(kernel, units, grain, implicit.SLOTS, slots, sources, epilogue.slots)

    def _tile(self, product, count):
        """Return (rows, vectors) of a matmul's register tile."""
        return register_tile(product.rows, count, self.kind)

    def _depths(self):
        """Return pairs (most words along k without splitting, words of a block else), best guess first."""
        # taps of several phases touch several times the memory, so less depth fits the caches
        return ((1536, 768),
                (768, 768)) if max(self.geometry.step) == 1 and not self.geometry.columns else ((512, 384), (1536, 768))

    def _blocks(self, product, count):
        """Return the _Blocks of a matmul with `count` contiguous output indices."""
        tile_rows, vectors = self._tile(product, count)
        width = vectors * self.kind.lanes
        tiles, panels_per_image = -(-product.rows // tile_rows), -(-count // width)
        panels = panels_per_image * (1 if self.geometry.images > 1 else self.images)
        depth = self._words(product.channels) * int(np.prod([len(taps) for taps in product.taps]))
        most, block = pick("words along k", self._depths())
        chunk = self.kind.chunk
        block_depth = max(chunk, depth if depth <= most else -(-depth // -(-depth // block) // chunk) * chunk)
        block_tiles = max(1, min(tiles, _WEIGHT_BYTES // (tile_rows * block_depth * self.word.bytes)))
        block_tiles = -(-tiles // -(-tiles // block_tiles))
        row_blocks = -(-tiles // block_tiles)
        block_panels = panels
        if block_depth < depth:
            block_panels = max(1, min(panels, _PARTIAL_BYTES
                                      // (block_tiles * tile_rows * width * self.kind.accumulator.bytes)))
        wanted = 1 if self.threads == 1 else pick("blocks a thread", (6, 3, 12), True) * self.threads
        block_panels = min(block_panels, max(1, -(-panels * row_blocks * self.c.groups // wanted)))
        return _Blocks(tile_rows, vectors, tiles, panels, panels_per_image, depth, block_tiles, block_panels,
                       block_depth)


def _image_numbers(dtype, channels):
    """The Numbers of an image: pairs of channels if the CPU multiplies pairs, else the accumulator's type, so that
    padding converts once."""
    kind = numbers(dtype)
    if kind.per_word == 2 and channels >= 4 and targeted().tiles != "amx":  # AMX CPUs multiply pairs slowly in vectors
        return kind
    return numbers(wide_dtype(kind))


def wide_dtype(kind):
    """The dtype in which matmuls are computed."""
    return next(name for name, element in ELEMENTS.items() if element is kind.accumulator)


def equidistant(taps):
    """True if ascending positions are equally spaced."""
    return len({after - before for before, after in zip(taps, taps[1:])}) <= 1


def _divisor(number, most):
    """The largest divisor of a number that is at most `most`."""
    return next(part for part in range(min(number, most), 0, -1) if number % part == 0)
