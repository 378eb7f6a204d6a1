"""Kernel calls of the weight gradient of a channels-last convolution (`pixels_gradient.py`)."""

import math
from itertools import product

import numpy as np

from ..llvm import tiles
from . import pixels_gradient
from .contraction import ELEMENTS, Contraction, KernelCall, table, tile_numbers, written_slots
from .pixels_gradient import PAIR_BYTES, PANEL, STEPS

_NEAR_BYTES = 1 << 20    # of images in words, made at a time: they are read before they leave the caches
_SUMS_BYTES = 384 << 10  # of sums that a work unit adds to, in the L2 cache
_MOST_MIXED = 16         # taps that are separated in registers
_WORD = 4


class PixelGradient:
    """The gradient of the weights of a channels-last convolution, in AMX tiles; `taps` are the positions of each
    dimension's taps in the padded input."""

    def __init__(self, c, threads, taps):
        self.c, self.threads, self.taps = c, threads, taps
        self.inputs, self.outputs = c.in_channels // c.groups, c.out_channels // c.groups
        # small groups are computed together, with some unused sums
        self.together = max(1, PANEL // self.outputs) if c.groups > 1 else 1
        self.run = c.groups == 1 and self.inputs < tiles.WORDS
        self.planes = 1 if self.run else -(-self.inputs * self.together // tiles.WORDS)  # of a set of groups
        self.panels = -(-self.outputs * self.together // PANEL)
        self.pixel = (self.inputs if self.run else tiles.WORDS) * _WORD  # bytes, in a plane of the image
        self._keep = []

    @property
    def suits(self):
        """True if there are AMX tiles, and images have a suitable layout."""
        c = self.c
        kind = tile_numbers(c.dtype)
        if kind is None or not kind.element.is_float or (c.x[1], c.y[1]) != (1, 1):
            return False
        if c.size[0] != 1 or c.kernel[0] != 1 or c.pad[0]:
            return False
        if self.run:
            return c.dilation[2] == 1 and c.x[4] == self.inputs
        whole = self.inputs * self.together % tiles.WORDS == 0 and self.outputs * self.together % PANEL == 0
        return c.groups == 1 or whole and c.groups % self.together == 0

    # --- numbering of outputs -----------------------------------------------------------------------------------------
    @property
    def row(self):
        """Numbered pixels of a row: adjacent rows of an image share the zeros between them."""
        c = self.c
        return max(c.out[2], -(-(c.size[2] + c.pad[2]) // c.stride[2]))

    @property
    def image_rows(self):
        c = self.c
        return max(c.out[1], -(-(c.size[1] + c.pad[1]) // c.stride[1]))

    @property
    def phases(self):
        """Phases of the rows of the image that taps read."""
        return 1 + max(tap % self.c.stride[1] for tap in self.taps[1])

    @property
    def halo(self):
        """Rows of a phase that are read beyond the numbered ones: by taps, and by the end of the last tile."""
        c, row = self.c, self.row
        beyond = max(self.taps[2]) + tiles.WORDS * c.stride[2]
        return max(self.taps[1]) // c.stride[1] + 1 + beyond // (row * c.stride[2])

    def parts(self):
        """(rows of half a part, number of parts): the parts are made into words one at a time."""
        rows = self.c.batch * self.image_rows
        sets = self.c.groups // self.together
        of_row = self.row * sets * (self.planes * self.phases * self.c.stride[2] * self.pixel
                                    + self.panels * 2 * tiles.ROW_BYTES)
        count = max(1, -(-rows * of_row // (2 * _NEAR_BYTES)))
        half = -(-rows // (2 * count))
        return half, -(-rows // (2 * half))

    @property
    def of_plane(self):
        """Tiles of columns of a plane; an even number if a set holds several groups."""
        known = math.prod(map(len, self.taps))
        return known + known % 2 if self.together > 1 else known

    # --- kernel calls -------------------------------------------------------------------------------------------------
    def plan(self):
        """Return the finished Contraction."""
        c, keep = self.c, self._keep
        half, parts = self.parts()
        sets, row = c.groups // self.together, self.row
        steps = -(-half * row // tiles.WORDS)
        y_plane = steps * tiles.TILE_BYTES
        x_row = row * c.stride[2] * self.pixel
        rows = half + self.halo
        phase = rows * x_row
        plane = self.phases * phase
        columns = self.columns(plane, phase, x_row)
        pairs = len(columns) // 2
        sums = sets * self.panels * pairs * PAIR_BYTES
        chunk = -(-steps // -(-steps // STEPS))
        temporaries = {"x words": sets * self.planes * plane + 4096, "y words": sets * self.panels * 2 * y_plane,
                       "sums": sums, "scratch": 2 * STEPS * tiles.TILE_BYTES * self.threads}
        size = ELEMENTS[c.dtype].bytes
        x_slots = {"images": c.batch, "x_batch": c.x[0] * size, "x_height": c.x[3] * size, "x_pixel": c.x[4] * size,
                   "height": c.size[1], "step": c.stride[1], "pad": c.pad[1], "before": c.pad[2] * self.pixel,
                   "pixels": c.size[2], "after": x_row - (c.pad[2] + c.size[2]) * self.pixel,
                   "channels": c.in_channels, "planes": sets * self.planes, "rows": rows,
                   "image_rows": self.image_rows, "half": half, "plane_bytes": plane, "phase_bytes": phase,
                   "row_bytes": x_row, "tail": 0}
        if self.run:
            x_slots |= {"x_pixel": 32, "pixels": -(-c.size[2] * self.inputs // tiles.WORDS),
                        "channels": c.size[2] * self.inputs}
        y_row = row * tiles.ROW_BYTES
        y_slots = {"images": c.batch, "x_batch": c.y[0] * size, "x_height": c.y[3] * size, "x_pixel": c.y[4] * size,
                   "height": c.out[1], "step": 1, "pad": 0, "before": 0, "pixels": c.out[2],
                   "after": y_row - c.out[2] * tiles.ROW_BYTES, "channels": c.out_channels,
                   "planes": sets * self.panels * 2, "rows": half, "image_rows": self.image_rows, "half": half,
                   "plane_bytes": y_plane, "phase_bytes": 0, "row_bytes": y_row,
                   "tail": y_plane - half * y_row}
        unit_panels, unit_pairs = self.unit(pairs, sets)
        panel_units, pair_units = -(-self.panels // unit_panels), -(-pairs // unit_pairs)
        slots = {"columns": table(columns, keep), "steps": steps, "chunk": chunk, "panels": self.panels,
                 "pairs": pairs, "unit_panels": unit_panels, "unit_pairs": unit_pairs, "panel_units": panel_units,
                 "pair_units": pair_units, "x_group": self.planes * plane,
                 "x_step": tiles.WORDS * c.stride[2] * self.pixel, "x_row": c.stride[2] * self.pixel,
                 "y_plane": y_plane, "scratch_bytes": 2 * STEPS * tiles.TILE_BYTES}
        sources = {name: ("temp", f"{name} words" if name in "xy" else name, 0)
                   for name in ("x", "y", "sums", "scratch")}
        made = []
        for part in range(parts):
            first = {"first": part * 2 * half}
            made += [self.words("x", x_slots | first, self.phases * rows),
                     self.words("y", y_slots | first, half),
                     KernelCall(pixels_gradient.product_kernel(), sets * panel_units * pair_units, 1,
                                written_slots(pixels_gradient.PRODUCT_SLOTS, slots | {"further": int(part > 0)},
                                              sources))]
        return Contraction((*made, self.finish(pairs)), temporaries, tuple(keep))

    def words(self, name, slots, units):
        """The kernel call that writes the words of an image."""
        sources = {"x": ("pointer", name, 0), "image": ("temp", f"{name} words", 0)}
        kernel = pixels_gradient.row_kernel(
            self.run and name == "x", next(n for n in (4, 2, 1) if slots["planes"] % n == 0))
        return KernelCall(kernel, units, max(1, 16384 // (slots["row_bytes"] * slots["planes"])),
                          written_slots(pixels_gradient.ROW_SLOTS, slots, sources))

    def columns(self, plane, phase, row):
        """The offset of each tile of columns in a set's planes; an even number of tiles."""
        step, found = self.c.stride[1], []
        if self.run:
            for tap in self.taps[1]:
                found += [tap % step * phase + tap // step * row + at * tiles.ROW_BYTES for at in range(self.pieces)]
        else:
            for at in range(self.planes):
                found += [at * plane + h % step * phase + h // step * row + w * self.pixel
                          for h, w in product(*self.taps[1:])]
                found += found[-1:] * (self.of_plane - math.prod(map(len, self.taps)))
        return np.array(found + found[-1:] * (len(found) % 2), np.int64)

    @property
    def pieces(self):
        """Tiles of columns of a row of taps that is read as one run."""
        return -(-len(self.taps[2]) * self.inputs // tiles.WORDS)

    def unit(self, pairs, sets):
        """(panels, pairs) of a work unit: few units, whose sums stay in the cache."""
        options = [(panels, columns) for panels in {-(-self.panels // n) for n in range(1, self.panels + 1)}
                   for columns in {-(-pairs // n) for n in range(1, pairs + 1)}
                   if panels * columns * PAIR_BYTES <= _SUMS_BYTES]
        wanted = 1 if self.threads == 1 else 3 * self.threads

        def cost(option):
            units = sets * -(-self.panels // option[0]) * -(-pairs // option[1])
            # gradients are transposed for each unit along pairs, images read for each along panels
            return units < min(wanted, sets * self.panels * pairs), -(-pairs // option[1]) * 2 + -(
                -self.panels // option[0])

        return min(options, key=cost, default=(1, 1))

    def finish(self, pairs):
        """The kernel call that rounds sums and stores them as weights: [output channel][input channel][tap]."""
        c, keep = self.c, self._keep
        known = math.prod(map(len, self.taps))
        mixed = not self.run and known <= _MOST_MIXED and (self.inputs % tiles.WORDS == 0 or c.groups == 1)

        def place(number):
            """The byte offset of a tile of columns."""
            return number // 2 * PAIR_BYTES + number % 2 * tiles.ROW_BYTES

        channel = np.arange(c.out_channels)
        group = channel // self.outputs
        within = group % self.together * self.outputs + channel % self.outputs  # of a set's panels
        number = group // self.together * self.panels + within // PANEL
        first = group % self.together * self.inputs % tiles.WORDS  # of the inputs, in its plane
        planes = group % self.together * self.inputs // tiles.WORDS
        bases = number * pairs * PAIR_BYTES + within % PANEL * 2 * tiles.ROW_BYTES + first * _WORD
        inputs = np.arange(self.inputs)[:, None]
        if mixed:
            places = place(np.arange(self.planes * self.of_plane))
        elif self.run:
            at = np.arange(len(self.taps[2]))[None, None] * self.inputs + inputs[:, :, None]
            places = place(np.arange(len(self.taps[1]))[None, :, None] * self.pieces + at // tiles.WORDS)
            places = (places + at % tiles.WORDS * _WORD).reshape(-1)
        else:
            places = place(inputs // tiles.WORDS * self.of_plane + np.arange(known)) + inputs % tiles.WORDS * _WORD
        if planes.any():
            bases = bases + place(planes * self.of_plane)
        slots = {"bases": table(bases, keep), "places": table(places.reshape(-1), keep),
                 "count": self.inputs * known, "planes": self.planes, "channels": self.inputs,
                 "outputs": c.out_channels}
        kernel = pixels_gradient.finish_kernel(ELEMENTS[c.dtype], known if mixed else 0)
        sources = {"sums": ("temp", "sums", 0), "out": ("pointer", "weight", 0)}
        return KernelCall(kernel, -(-c.out_channels // PANEL), 1,
                          written_slots(pixels_gradient.FINISH_SLOTS, slots, sources))
