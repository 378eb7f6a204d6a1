"""Kernel calls of a channels-last convolution: a copy of the image if it needs one, packed weights, matmuls."""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from ....core.cached import cached_property
from ..llvm.features import targeted
from . import depthwise_plan, pixels, pixels_blocks, pixels_image, pixels_weights, tiled
from .contraction import ELEMENTS, Contraction, KernelCall, numbers, table, tile_numbers, written_slots
from .portions import round_up
from .registers import register_tile
from .tune import pick

SLACK = 8192               # bytes that tiles may read past the last image
_WASTE = 1.2               # numbered positions per output, up to which an image is read in place
_IMAGE_BYTES = 256 << 10  # copies of images made at a time: they are read again while they are in the L2 cache
_WEIGHT_BYTES = 768 << 10  # a block of weights, which stays in the L2 cache while pixels pass by
_PASSING_BYTES = 96 << 10  # bytes of weights above which they evict pixels from the L1 cache
_TOGETHER = 2              # steps along the channels of a tap before the next tap
_LEAST = 64                # numbered positions of an image that is read in place: the rows of the highest tile
# measured cost of a multiply-add in a tile of (rows, vectors): pixels come from the L1 cache, since taps share them,
# weights from the L2 cache
_TILES = {(32, 2): 1.0, (64, 1): 1.1, (48, 1): 1.1, (16, 4): 1.12, (16, 3): 1.25, (32, 1): 1.25, (16, 2): 1.3,
          (16, 1): 1.6}
# the same for tiles in vector registers, where each row takes an address
_VECTORS = {(6, 4): 1.0, (4, 4): 1.04, (8, 3): 1.15, (8, 2): 1.25, (12, 2): 1.5, (8, 1): 1.8}
_COPY_BYTES = 12           # bytes of an image that are copied in a cycle


@dataclass(frozen=True)
class PixelProduct:
    """One matmul over the (taps, channels) of an image.  `taps` are, for each dimension, the (index in the kernel,
    position in the image) of the summed taps, ascending by position; outputs of spatial size `out` are stored in an
    operand by `strides` from element `first` on."""

    taps: tuple
    out: tuple
    operand: str
    strides: tuple
    first: int


@dataclass(frozen=True)
class Weights:
    """Strides of weights, in elements: `lane` between output channels of a matmul, `k` between channels that are
    summed, `group` between groups, and `taps` between taps of each dimension."""

    lane: int
    k: int
    group: int
    taps: tuple

    def tap(self, places):
        """The offset of a tap."""
        return sum(place * stride for place, stride in zip(places, self.taps))


def steps_along_k(channels, taps, per_word, tiled=True):
    """Return (padded channels, elements of a step) for `taps` taps that are contiguous in memory: with the fewest steps
    for AMX tiles, which take as long for fewer words, else with the fewest elements.

    Example:
        >>> steps_along_k(64, 1, 2), steps_along_k(3, 7, 2), steps_along_k(40, 3, 2), steps_along_k(3, 7, 1, False)
        ((64, 32), (4, 28), (40, 30), (3, 7))
    """
    options = []
    for count in range(16 * per_word, 0, -per_word):
        step = count // math.gcd(count, taps)
        padded = round_up(channels, step * per_word // math.gcd(step, per_word))
        options.append((0 if tiled else padded, taps * padded // count, padded, -count))
    *_, padded, count = min(options)
    return padded, -count


def pays(dtype, channels, lanes, groups=1):
    """True if groups of `channels` by `lanes` output channels are computed in this way, rather than with channels
    first."""
    if channels == lanes == 1 < groups:
        return depthwise_plan.pays_with_channels_last(dtype, groups)
    fast = tile_numbers(dtype) is not None or dtype == "float32" and targeted().registers == 32
    return fast and (groups == 1 or min(channels, lanes) >= 4)


class PixelPlan:
    """A channels-last convolution, or its gradient of the input; `together` groups are computed as one."""

    def __init__(self, c, together, threads, geometry, image, channels, lanes, products, weights):
        self.c, self.threads, self.geometry, self.products, self.weights = c, threads, geometry, products, weights
        self.together, self.groups = together, c.groups // together
        self.operand, self.strides = image
        self.channels, self.lanes = channels, lanes  # of a group: that are summed, of the output
        self.kind = tile_numbers(c.dtype, c.b_dtype) or numbers(c.dtype, c.b_dtype)
        self.element, self.out = ELEMENTS[c.dtype], ELEMENTS[c.out_dtype or c.dtype]
        self.size, self.part = self.element.bytes, pixels_image.part_of(self.kind)
        self._keep, self.temporaries = [], {}

    @property
    def suits(self):
        """True if channels are contiguous, both in the input and in the output."""
        groups, written = self.groups, [one.strides for one in self.products]
        read = self.strides[1] == 1 or self.channels * groups == 1
        return read and all(strides[1] == 1 or self.lanes * groups == 1
                            for strides in written) and min(map(min, (self.strides, *written))) >= 0

    # --- the order of words along k -----------------------------------------------------------------------------------
    @cached_property
    def run(self):
        """Number of taps along the width that are contiguous in memory."""
        found = {len(one.taps[2]) for one in self.products if all(map(len, one.taps))}
        if len(found) != 1 or not all(b[1] - a[1] == 1 for one in self.products
                                      for a, b in zip(one.taps[2], one.taps[2][1:])):
            return 1
        count, = found
        together, apart = (steps_along_k(self.channels, taps, self.kind.per_word, bool(self.kind.tiles))
                           for taps in (count, 1))
        return count if count * together[0] // together[1] < count * (apart[0] // apart[1]) else 1

    @cached_property
    def padded(self):
        """Channels of an image's pixel."""
        return self.lying[0]

    @cached_property
    def lying(self):
        return steps_along_k(self.channels, self.run, self.kind.per_word, bool(self.kind.tiles))

    @property
    def words(self):
        """Words of a step along k."""
        return self.lying[1] // self.kind.per_word

    # --- the image ----------------------------------------------------------------------------------------------------
    @cached_property
    def direct(self):
        """(numbered positions of a row, rows of a slice) if the image is read in place, else None."""
        g, (_, _, depth, height, width) = self.geometry, self.strides
        inside = all((out - 1) * step + reach < size
                     for out, step, reach, size in zip(g.out, g.step, self.reach, g.size))
        if (any(g.pad) or not inside or self.padded != self.channels or self.part.bytes != self.size or self.run > 1
            and self.groups > 1):
            return None
        pixel = g.step[2] * width
        if not pixel:
            return None
        row = self._nested(g.step[1] * height, pixel, g.out[1], g.out[2])
        rows = row and self._nested(g.step[0] * depth, pixel * row, g.out[0], g.out[1])
        if not rows or self.run > 1 and width != self.channels:
            return None
        counts = [self._count(row, rows, one.out) for one in self.products]
        return (row, rows) if min(counts) >= _LEAST and max(counts) <= _WASTE * math.prod(g.out) else None

    @staticmethod
    def _nested(stride, inner, outer_count, inner_count):
        """Number of strides of one dimension in a stride of the next; 0 if that is not an integer, or too small."""
        if outer_count == 1:
            return inner_count
        return stride // inner if stride % inner == 0 and stride // inner >= inner_count else 0

    @staticmethod
    def _count(row, rows, out):
        """Number of positions that an output of this size spans in the image's numbering."""
        return ((out[0] - 1) * rows + out[1] - 1) * row + out[2]

    @cached_property
    def reach(self):
        """The farthest position of a tap in each dimension."""
        return tuple(max([at for one in self.products for _, at in one.taps[dim]], default=0) for dim in range(3))

    @cached_property
    def skips(self):
        """Pixels of a row from one that is copied to the next: no tap reads those between."""
        return self.geometry.step[2] if self.reach[2] == 0 else 1

    @cached_property
    def step(self):
        """Pixels of the image from an output to the next along the width."""
        return self.geometry.step[2] // self.skips

    @cached_property
    def phases(self):
        """Number of phases into which rows and slices of a copy are split."""
        return tuple(min(step, reach + 1) for step, reach in zip(self.geometry.step[:2], self.reach))

    @cached_property
    def shape(self):
        """(slices, rows, pixels of a row) of a phase of a copy."""
        g = self.geometry
        height = [out + reach // step for out, reach, step in zip(g.out, self.reach, g.step)][:2]
        return (*height, round_up(max((g.out[2] - 1) * self.step + self.reach[2] + 1, g.out[2] * self.step), self.step))

    @property
    def pixel_bytes(self):
        return self.strides[4] * self.size if self.direct else self.padded * self.part.bytes

    @cached_property
    def numbering(self):
        """(numbered positions of a row, rows of a slice)."""
        return self.direct or (self.shape[2] // self.step, self.shape[1])

    @cached_property
    def group_bytes(self):
        """Bytes of a group in an image."""
        return self.channels * self.size if self.direct else math.prod(self.phases) * math.prod(
            self.shape) * self.pixel_bytes

    @cached_property
    def image_bytes(self):
        return self.strides[0] * self.size if self.direct else self.groups * self.group_bytes

    def place(self, positions):
        """The byte offset in an image of a position."""
        if self.direct:
            return sum(at * stride for at, stride in zip(positions, self.strides[2:])) * self.size
        steps, (_, rows, row) = self.geometry.step, self.shape
        phase = positions[0] % steps[0] * self.phases[1] + positions[1] % steps[1]
        line = (phase * self.shape[0] + positions[0] // steps[0]) * rows + positions[1] // steps[1]
        return (line * row + positions[2]) * self.pixel_bytes

    def _copy(self, start, count):
        """The kernel call that copies `count` images from `start` on."""
        g, c, size = self.geometry, self.c, self.size
        batch, _, depth, height, width = (stride * size for stride in self.strides)
        near = self.part.bytes == size and width == self.channels * size and self.skips == 1
        whole = near and self.padded == self.channels
        spread = near and not whole and self.padded * size <= targeted().width // 8
        slots = {"groups": self.groups, "x_batch": batch, "x_group": self.channels * size, "x_width": width,
                 "x_pixel": self.skips, "width": g.size[2], "pad_width": g.pad[2],
                 "pixels": self.shape[2], "channels": self.channels, "padded": self.padded,
                 "image_bytes": self.image_bytes,
                 "row_bytes": self.shape[2] * self.pixel_bytes, "border": c.border, "x_depth": depth,
                 "x_height": height}
        for k, name in enumerate(("depth", "height")):
            slots.update({f"size_{name}": g.size[k], f"pad_{name}": g.pad[k], f"step_{name}": g.step[k],
                          f"phases_{name}": self.phases[k],
                          f"rows_{name}": self.shape[k]})
        sources = {"x": ("pointer", self.operand, start * batch), "image": ("temp", "image", 0)}
        units = count * self.groups * math.prod(self.phases) * math.prod(self.shape[:2])
        grain = max(1, min(16384 // slots["row_bytes"], units // (4 * self.threads)))
        return KernelCall(pixels_image.image_kernel(self.kind, whole, (self.channels, self.padded) if spread else ()),
                          units, grain,
                    written_slots(pixels_image.SLOTS, slots, sources))

    # --- weights ------------------------------------------------------------------------------------------------------
    @cached_property
    def tile(self):
        count, vectors = max(self._count(*self.numbering, one.out)
                             for one in self.products), -(-self.lanes // self.kind.lanes)
        if not self.kind.tiles and targeted().registers < 32:
            return register_tile(count, self.lanes, self.kind)
        known = _TILES if self.kind.tiles else _VECTORS
        costs = sorted((-(-count // rows) * rows * -(-vectors // across) * across * cost, rows, across)
                       for (rows, across), cost in known.items())
        return pick("tile", [tuple(tile) for _, *tile in costs[:3]])

    @property
    def width(self):
        """Output channels of a panel."""
        return self.tile[1] * self.kind.lanes

    @property
    def panels(self):
        return -(-self.lanes // self.width)

    @property
    def step_bytes(self):
        """Bytes of a panel for a step along k."""
        return self.words * self.width * self.kind.word.bytes

    def steps(self, one):
        """Number of steps along k of a matmul."""
        return math.prod(map(len, one.taps)) * self.padded // self.lying[1]

    def order(self, one):
        """Return (the offset of each step along k in the image, {tap of the kernel: the indices of its words}) of a
        matmul; a tap's words are numbered along its channels."""
        places, words, taps = [], {}, list(product(*one.taps))
        a_step, per_step, count = self.lying[1] * self.part.bytes, self.words, self.padded // self.kind.per_word
        if self.run > 1:
            for at in range(0, len(taps), self.run):
                first = len(places) * per_step
                begin = self.place([position for _, position in taps[at]])
                places += [begin + k * a_step for k in range(self.run * count // per_step)]
                words.update((tuple(k for k, _ in tap), first + n * count + np.arange(count))
                             for n, tap in enumerate(taps[at:at + self.run]))
            return places, words
        found = {tap: [] for tap in taps}
        for block in range(0, count // per_step, _TOGETHER):
            for tap in taps:
                begin = self.place([position for _, position in tap])
                for k in range(block, min(block + _TOGETHER, count // per_step)):
                    found[tap].append(len(places) * per_step + np.arange(per_step))
                    places.append(begin + k * a_step)
        words.update((tuple(k for k, _ in tap), np.concatenate(parts)) for tap, parts in found.items())
        return places, words

    def _pack_weights(self):
        """The kernel call that packs the weights of all matmuls: in each panel one matmul after the other."""
        start, targets, row = 0, {}, self.width * self.kind.word.bytes
        self.starts = []
        for one in self.products:
            self.starts.append(start)
            targets.update({tap: start + words * row for tap, words in self.order(one)[1].items()})
            start += self.steps(one) * self.step_bytes
        self.panel_bytes, nowhere = start + row, start  # unused words go to the end
        kernel, sources, places, count = self._layout(targets, nowhere)
        slots = {"sources": table(sources.reshape(-1), self._keep), "targets": table(places.reshape(-1), self._keep),
                 "count": count, "lanes": self.lanes,
                 "group_panels": self.panels, "group_stride": self.weights.group * self.size,
                 "lane_stride": self.weights.lane * self.size,
                 "panel_bytes": self.panel_bytes, "blank": int(self._has_blanks)}
        units = self.groups * self.panels
        self.temporaries["weights"] = units * self.panel_bytes + 64
        source = ("temp", "dense", 0) if self.together > 1 else ("pointer", "weight", 0)
        given = {"weights": source, "packed": ("temp", "weights", 0)}
        return KernelCall(kernel, units, max(1, 16384 // (self.width * self.channels * max(1, len(targets)))),
                    written_slots(pixels_weights.SLOTS, slots, given), fills="" if self.together > 1 else "weights")

    @property
    def _has_blanks(self):
        """True if a panel has words or vectors that no weight fills."""
        per_word, lanes = self.kind.per_word, self.kind.lanes
        return self.padded // per_word > -(-self.channels // per_word) or -(-self.lanes // lanes) % self.tile[1] > 0

    def _layout(self, targets, nowhere):
        """Return (kernel, its sources, its targets, number of entries in these) for the weights' strides."""
        w, kind, vectors, size = self.weights, self.kind.of_b, self.tile[1], self.size
        kernel_taps = list(product(*map(range, self.c.kernel)))
        flat = [w.tap(tap) for tap in kernel_taps]
        number, dense = len(flat), flat == list(range(len(flat)))
        words = -(-self.channels // kind.per_word)

        def place(tap, word):
            return targets[tap][word] if tap in targets and word < len(targets[tap]) else nowhere

        if w.k == 1 or dense and w.k == number and number <= kind.lanes:
            together = 1 if w.k == 1 else number
            channels, _ = pixels_weights.squares(self.channels, together, kind)
            starts = [(tap, c) for tap in (kernel_taps if together == 1 else kernel_taps[:1])
                      for c in range(0, self.channels, channels)]
            sources = [((w.tap(tap) + c * w.k) * size, min(channels, self.channels - c) * together)
                       for tap, c in starts]
            places = [place(tap if together == 1 else kernel_taps[i % together], c // kind.per_word + i // together)
                      if i < channels // kind.per_word * together else nowhere
                      for tap, c in starts for i in range(kind.lanes)]
            return pixels_weights.square_kernel(kind, vectors,
                                                together), np.array(sources, np.int64), np.array(places, np.int64), len(
                                                    starts)
        offsets = [[k * w.k * size if k < self.channels else -1
                    for k in range(word * kind.per_word, (word + 1) * kind.per_word)] for word in range(words)]
        if dense and w.lane == number and number <= pixels_weights.MOST_TAPS:
            places = [place(tap, word) for word in range(words) for tap in kernel_taps]
            return pixels_weights.line_kernel(kind, vectors,
                                              number), np.array(offsets, np.int64), np.array(places, np.int64), words
        used = [tap for tap in kernel_taps if tap in targets]
        sources = [[w.tap(tap) * size + at if at >= 0 else -1 for at in one] for tap in used for one in offsets]
        places = [place(tap, word) for tap in used for word in range(words)]
        kernel = pixels_weights.word_kernel(kind, vectors, w.lane == 1)
        return kernel, np.array(sources, np.int64), np.array(places, np.int64), len(sources)

    # --- matmuls ------------------------------------------------------------------------------------------------------
    def cycles(self):
        """Estimate the cycles for all images on one thread, without the packing of weights."""
        rows, vectors = self.tile
        each = tiled.cycles(rows, vectors) if self.kind.tiles else rows * vectors * self.words / 2
        total = 0 if self.direct else self.image_bytes / _COPY_BYTES
        for one in self.products:
            count = -(-self._count(*self.numbering, one.out) // rows)
            total += self.groups * count * self.panels * max(self.steps(one) * each, rows * vectors * 2)
        return total * self.c.batch

    def plan(self, epilogue):
        """Return the finished Contraction."""
        pack, batch = self._pack_weights(), self.c.batch
        images = batch if self.direct else min(batch, max(1, _IMAGE_BYTES // self.image_bytes))
        if not self.direct:
            self.temporaries["image"] = images * self.image_bytes + SLACK + 64 * self.pixel_bytes * self.step
        steps = [pack]
        if self.together > 1:
            dense, self.temporaries["dense"] = pixels_blocks.blocks_step(self.c, self.together, self._keep)
            steps.insert(0, dense)
        slots = [self._slots(number, one) for number, one in enumerate(self.products)]
        for start in range(0, batch, images):
            count = min(images, batch - start)
            if not self.direct:
                steps.append(self._copy(start, count))
            steps += [self._product_step(number, one, own, start, count, epilogue)
                      for number, (one, own) in enumerate(zip(self.products, slots))]
        return Contraction(tuple(steps), self.temporaries, tuple(self._keep))

    def _slots(self, number, one):
        """The slots that all kernel calls of a matmul share."""
        row, rows = self.numbering
        count = self._count(row, rows, one.out)
        found = np.full((one.out[0], rows, row), -1, np.int64)
        indices = np.indices(one.out)
        found[:one.out[0], :one.out[1],
              :one.out[2]] = sum(i * stride for i, stride in zip(indices, one.strides[2:])) * self.out.bytes
        offsets = np.pad(found.reshape(-1)[:count], (0, self.tile[0]), constant_values=-1)
        last = count - self.tile[0] if self.direct else count
        block = max(1, min(self.panels, _WEIGHT_BYTES // self.panel_bytes))
        block = -(-self.panels // -(-self.panels // block))
        step = self.geometry.step[2] if self.direct else self.step
        return {"places": table(np.array(self.order(one)[0], np.int64), self._keep),
                "out_offsets": table(offsets, self._keep), "steps": self.steps(one),
                "pixel_bytes": step * self.pixel_bytes, "count": count, "last": last,
                "image_tiles": -(-count // self.tile[0]), "image_bytes": self.image_bytes,
                "image_group": self.group_bytes, "panel_bytes": self.panel_bytes, "panels": self.panels,
                "block_panels": block,
                "panel_blocks": -(-self.panels // block), "out_batch": one.strides[0] * self.out.bytes,
                "out_group": self.lanes * self.out.bytes,
                "channels": self.lanes}

    def _product_step(self, number, one, slots, start, images, epilogue):
        """The kernel call that multiplies `images` images from `start` on."""
        passing = "b" if self.kind.tiles and self.panels * self.panel_bytes > _PASSING_BYTES else ""
        kernel = pixels.pixel_kernel(self.kind, self.out, *self.tile, self.words, epilogue, passing)
        tiles = images * slots["image_tiles"]
        wanted = 1 if self.threads == 1 else 6 * self.threads
        blocks = min(tiles, max(1, -(-wanted // (self.groups * slots["panel_blocks"]))))
        block = -(-tiles // blocks)
        slots = {**slots, "all_tiles": tiles, "block_tiles": block, "tile_blocks": -(-tiles // block)}
        image = ("pointer", self.operand, start * self.image_bytes) if self.direct else ("temp", "image", 0)
        sources = {"weights": ("temp", "weights", self.starts[number]), "image": image,
                   "out": ("pointer", one.operand, one.first * self.out.bytes + start * slots["out_batch"])}
        units = self.groups * slots["panel_blocks"] * slots["tile_blocks"]
        return KernelCall(kernel, units, 1 if self.groups == 1 else max(1, units // (8 * self.threads)),
                    written_slots(pixels.SLOTS, slots, sources) + epilogue.slots)

