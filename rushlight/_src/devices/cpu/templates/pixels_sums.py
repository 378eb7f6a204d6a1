"""Gradients of a convolution's weights in vector registers, from channels-last images and gradients.

Gradients of outputs are read in place: vectors of output channels.  The taps of a row, for all input channels, are one
contiguous run of the image, which is copied if it needs a border; a register tile is some elements of a run, each
broadcast, by some vectors, and goes through all outputs of some rows.  Accumulators are kept in memory between chunks
of rows that the L1 cache holds.
"""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from ..llvm import jit
from ..llvm.builder import Module
from ..llvm.features import targeted
from ..llvm.types import i64, ptr
from . import pixels_gradient, pixels_image
from .contraction import ELEMENTS, Contraction, KernelCall, numbers, table, written_slots
from .tune import pick
from .units import Units

_CHUNK_BYTES = 24 << 10  # of gradients, which stay in the L1 cache while all taps use them
_BAND_BYTES = 768 << 10  # of an image copy that is read while it is in the L2 cache
_OF_WEIGHTS = 6          # ratio of elements to weights from which on packing images takes longer
SLACK = 4096
# "x_rows" and "y_rows" are tables of the byte offset of each row of outputs, or of a part of one, "widths" one of its
# number of outputs, "pieces_at" one of the offset of each piece of a run in x,
# "starts" one of the first channel of each panel, in bytes
SLOTS = ("x", "y", "sums", "x_rows", "y_rows", "pieces_at", "starts", "widths", "rows", "chunk_rows", "x_step",
         "y_step",
         "pieces", "unit_pieces", "piece_units", "panels", "x_group", "y_group", "further")


def sums_kernel(kind, rows, vectors):
    """Return the address of the kernel that adds the contribution of rows of outputs to the sums of a panel of channels
    by some pieces of runs, per work unit.  A piece is `rows` elements of a run, a panel `vectors` of channels."""
    key = f"pixel sums {kind} {rows} {vectors}"
    return jit.build(key, lambda: _text(kind, rows, vectors), ["sums"])["sums"]


def _text(kind, rows, vectors):
    module = Module()
    tile = _tile(module, kind, rows, vectors)
    kernel = Units("sums", SLOTS, ("x", "y", "sums", "x_rows", "y_rows", "widths", "pieces_at", "starts"), module)
    f, s = kernel.f, kernel.s
    size = rows * vectors * kind.vector.bytes

    def unit(unit):
        panel = f.div(unit, s.piece_units)
        first = f.mul(f.sub(unit, f.mul(panel, s.piece_units)), s.unit_pieces)
        last = f.minimum(s.pieces, f.add(first, s.unit_pieces))
        group = f.div(panel, s.panels)
        start = f.load(i64, f.offset(s.starts, f.sub(panel, f.mul(group, s.panels)), i64))
        x, y = f.offset(s.x, f.mul(group, s.x_group)), f.offset(s.y, f.add(f.mul(group, s.y_group), start))
        sums = f.offset(s.sums, f.mul(f.mul(panel, s.pieces), size))
        f.when(f.compare("==", s.further, 0), lambda: f.fill_bytes(
            f.offset(sums, f.mul(first, size)), 0, f.mul(f.sub(last, first), size)))

        def chunk(row, _):
            count = f.minimum(f.sub(s.rows, row), s.chunk_rows)
            f.loop(first, last, 1, [], lambda k, _: f.call(tile, [
                f.offset(x, f.load(i64, f.offset(s.pieces_at, k, i64))), y, f.offset(sums, f.mul(k, size)),
                f.offset(s.x_rows, row, i64), f.offset(s.y_rows, row, i64), f.offset(s.widths, row, i64), count,
                s.x_step, s.y_step]))

        f.loop(0, s.rows, s.chunk_rows, [], chunk)

    return kernel.text(unit)


def _tile(module, kind, rows, vectors):
    """A function that adds the contribution of some rows of outputs to the sums of a tile."""
    parameters = [("x", ptr), ("y", ptr), ("sums", ptr), ("x_rows", ptr), ("y_rows", ptr), ("widths", ptr),
                  ("count", i64), ("x_step", i64), ("y_step", i64)]
    f = module.function("tile", parameters, internal=True)
    x, y, sums, x_rows, y_rows, widths, count, x_step, y_step = f.parameters
    word, bytes_ = kind.word.bytes, kind.vector.bytes
    places = [f.offset(sums, k * bytes_) for k in range(rows * vectors)]

    def row(number, tile):
        def output(_, values):
            at, grads, *tile = values
            given = [f.load(kind.words, f.offset(grads, j * bytes_), align=word) for j in range(vectors)]
            for r in range(rows):
                one = f.splat(f.load(kind.word, f.offset(at, r * word)), kind.lanes)
                for j in range(vectors):
                    tile[r * vectors + j] = kind.multiply_add(f, one, given[j], tile[r * vectors + j])
            return [f.offset(at, x_step), f.offset(grads, y_step), *tile]

        starts = [f.offset(image, f.load(i64, f.offset(places, number, i64)))
                  for image, places in ((x, x_rows), (y, y_rows))]
        width = f.load(i64, f.offset(widths, number, i64))
        return f.loop(0, width, 1, [*starts, *tile], output)[2:]

    tile = f.loop(0, count, 1, [f.load(kind.vector, place) for place in places], row)
    for place, value in zip(places, tile):
        f.store(value, place)
    f.ret()
    return f


@dataclass(frozen=True)
class SumsTile:
    """A register tile: `rows` elements of a run by `vectors` of output channels."""

    rows: int
    vectors: int

    def cycles(self, run, outputs, lanes):
        """Cycles of an output: two multiply-adds a cycle with a latency of four cycles, and two loads."""
        step = max(self.rows * self.vectors / 2, (self.rows + self.vectors) / 2, 4) + 1
        return -(-run // self.rows) * -(-outputs // (self.vectors * lanes)) * step


class PixelSums:
    """The gradient of the weights of a channels-last convolution, in vector registers; `taps` are the positions of each
    dimension's taps in the padded input."""

    def __init__(self, c, threads, taps):
        self.c, self.threads, self.taps = c, threads, taps
        self.inputs, self.outputs = c.in_channels // c.groups, c.out_channels // c.groups
        self.kind = numbers(c.dtype)
        self.size = ELEMENTS[c.dtype].bytes
        # taps of a row are one run if they are contiguous
        self.together = len(taps[2]) if c.dilation[2] == 1 and c.groups == 1 else 1
        self.run = self.inputs * self.together
        self._keep = []

    @property
    def suits(self):
        """True if images have a suitable layout and far more elements than weights, and there is a vector of output
        channels."""
        c, kind = self.c, self.kind
        if not kind.element.is_float or kind.word is not kind.element or (c.x[1], c.y[1]) != (1, 1):
            return False
        images = c.batch * (c.in_channels * math.prod(c.size) + c.out_channels * math.prod(c.out))
        if images < _OF_WEIGHTS * c.out_channels * self.inputs * math.prod(c.kernel):
            return False
        return self.outputs >= kind.lanes and (self.copied or self.together == 1 or c.x[4] == self.inputs)

    @property
    def copied(self):
        """True if the image is copied, with zeros around it."""
        return any(self.c.pad)

    @property
    def tile(self):
        registers = targeted().registers
        options = [SumsTile(rows, vectors) for vectors in range(1, min(4, self.outputs // self.kind.lanes) + 1)
                   for rows in range(1, min(self.run, (registers - 1) // vectors - 1) + 1)]
        return pick("sums tile", sorted(options, key=lambda tile: tile.cycles(self.run, self.outputs,
                                                                              self.kind.lanes))[:2])

    @staticmethod
    def starts(length, piece):
        """Starts of the pieces of a length; the last one may overlap the one before.

        Example:
            >>> PixelSums.starts(21, 8)
            [0, 8, 13]
        """
        return [min(at, length - piece) for at in range(0, length, piece)]

    @property
    def band(self):
        """Rows of outputs whose part of the image is copied at a time."""
        c = self.c
        row = max(1, c.stride[1] * (c.size[2] + 2 * c.pad[2]) * c.in_channels * self.size)
        return c.out[1] if c.out[0] > 1 else -(-c.out[1] // -(-c.out[1] * row // _BAND_BYTES))

    @property
    def image(self):
        """(strides in elements of an image, its dimensions and pixels as read; rows of a copy, pixels of a row)."""
        c = self.c
        if not self.copied:
            return c.x[2:], None
        shape = [(out - 1) * step + max(taps) + 1 for out, step, taps in zip((c.out[0], self.band, c.out[2]), c.stride,
                                                                            self.taps)]
        row = shape[2] * c.in_channels
        return (shape[1] * row, row, c.in_channels), shape

    def plan(self):
        """Return the finished Contraction."""
        c, keep, size, tile = self.c, self._keep, self.size, self.tile
        strides, shape = self.image
        pieces, panels = self.starts(self.run, tile.rows), self.starts(self.outputs, tile.vectors * self.kind.lanes)
        far = [sum(at * stride for at, stride in zip(tap, strides)) for tap in product(
            *self.taps[:2], self.taps[2] if self.together == 1 else (0,))]
        places = [(at + piece) * size for at in far for piece in pieces]
        of_output = tile.vectors * self.kind.vector.bytes
        part = -(-c.out[2] // -(-c.out[2] * of_output // _CHUNK_BYTES))  # of a row of outputs
        band = self.band if shape else c.out[1]
        rows = list(product(range(c.out[0]), range(band), range(0, c.out[2], part)))
        block = tile.rows * tile.vectors * self.kind.vector.bytes
        chunk = max(1, _CHUNK_BYTES // (part * of_output))
        wanted = 1 if self.threads == 1 else min(len(places), -(-3 * self.threads // (len(panels) * c.groups)))
        unit = -(-len(places) // wanted)
        slots = {"x_rows": table([sum(at * step * stride for at, step, stride in zip(place, c.stride, strides)) * size
                                  for place in rows], keep),
                 "y_rows": table([sum(at * stride for at, stride in zip(place, c.y[2:])) * size for place in rows],
                                 keep),
                 "widths": table([min(part, c.out[2] - x) for *_, x in rows], keep),
                 "pieces_at": table(places, keep), "starts": table([start * size for start in panels], keep),
                 "chunk_rows": chunk, "x_step": c.stride[2] * strides[2] * size,
                 "y_step": c.y[4] * size, "pieces": len(places), "unit_pieces": unit,
                 "piece_units": -(-len(places) // unit), "panels": len(panels), "x_group": self.inputs * size,
                 "y_group": self.outputs * size}
        temporaries = {"sums": c.groups * len(panels) * len(places) * block}
        if shape:
            temporaries["image"] = math.prod(shape) * c.in_channels * size + SLACK
        kernel, made = sums_kernel(self.kind, tile.rows, tile.vectors), []
        for n, first in product(range(c.batch), range(0, c.out[1], band)):
            if shape:
                made.append(self.copy(n, first, shape))
            sources = {"x": ("temp", "image", 0) if shape else ("pointer", "x", n * c.x[0] * size),
                       "y": ("pointer", "y", (n * c.y[0] + first * c.y[3]) * size), "sums": ("temp", "sums", 0)}
            own = {"further": int((n, first) > (0, 0)), "rows": len(rows) * min(band, c.out[1] - first) // band}
            made.append(KernelCall(kernel, c.groups * len(panels) * slots["piece_units"], 1,
                                   written_slots(SLOTS, slots | own, sources)))
        return Contraction((*made, self.finish(pieces, panels, len(places), block)), temporaries, tuple(keep))

    def copy(self, n, first, shape):
        """The kernel call that copies the part of an image read by rows of outputs from `first` on, zero-padded."""
        c, size = self.c, self.size
        row = shape[2] * c.in_channels * size
        slots = {"groups": 1, "x_batch": 0, "x_group": 0, "x_width": c.x[4] * size, "x_pixel": 1, "width": c.size[2],
                 "pad_width": c.pad[2], "pixels": shape[2], "channels": c.in_channels, "padded": c.in_channels,
                 "image_bytes": 0, "row_bytes": row, "border": 0}
        for k, name in enumerate(("depth", "height")):
            slots |= {f"x_{name}": c.x[2 + k] * size, f"size_{name}": c.size[k], f"pad_{name}": c.pad[k],
                      f"step_{name}": 1, f"phases_{name}": 1, f"rows_{name}": shape[k]}
        slots["pad_height"] -= first * c.stride[1]
        sources = {"x": ("pointer", "x", n * c.x[0] * size), "image": ("temp", "image", 0)}
        return KernelCall(pixels_image.image_kernel(self.kind, c.x[4] == c.in_channels), shape[0] * shape[1],
                          max(1, 16384 // row), written_slots(pixels_image.SLOTS, slots, sources))

    def finish(self, pieces, panels, count, block):
        """The kernel call that stores sums in the weights' layout: [output channel][input channel][tap]."""
        c, keep, tile, word = self.c, self._keep, self.tile, self.kind.accumulator.bytes
        width = tile.vectors * self.kind.lanes

        def within(starts, length, numbers):
            """Return (index of the piece, offset in it) of some elements."""
            piece = np.minimum(numbers // length, len(starts) - 1)
            return piece, numbers - np.array(starts)[piece]

        channel = np.arange(c.out_channels)
        panel, lane = within(panels, width, channel % self.outputs)
        bases = (channel // self.outputs * len(panels) + panel) * count * block + lane * word
        taps = np.arange(math.prod(map(len, self.taps)))
        line, tap = taps // self.together, taps % self.together
        piece, row = within(pieces, tile.rows, tap * self.inputs + np.arange(self.inputs)[:, None])
        places = (line * len(pieces) + piece) * block + row * width * word
        slots = {"bases": table(bases, keep), "places": table(places.reshape(-1), keep),
                 "count": self.inputs * len(taps), "planes": 0, "channels": 0, "outputs": c.out_channels}
        kernel = pixels_gradient.finish_kernel(ELEMENTS[c.dtype], 0)
        return KernelCall(kernel, -(-c.out_channels // pixels_gradient.PANEL), 1, written_slots(
            pixels_gradient.FINISH_SLOTS, slots, {"sums": ("temp", "sums", 0), "out": ("pointer", "weight", 0)}))
