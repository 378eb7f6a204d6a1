"""Images in blocks of as many channels as a vector has lanes, [block][pixel][channel], with zeros around."""

import math
from dataclasses import replace

from ..llvm import jit
from ..llvm.types import vector
from ..llvm.values import zero
from . import pack
from .contraction import ELEMENTS, KernelCall, numbers, written_slots
from .elements import APART, SAME, Computed, PrologueLayout, Strided, distance
from .units import Units

SLACK = 4096     # bytes that may be read past the last image
MOST_MIXED = 16  # taps that are separated in registers, if the taps of a weight are contiguous

IMAGE_SLOTS = ("x", "image", "channels", "planes", "group_planes", "x_batch", "x_channel", "x_depth", "x_height",
               "x_width",
               "depth", "height", "width", "pad_depth", "pad_height", "pad_width", "rows_depth", "rows_height",
               "rows_width",
               "plane_bytes", "image_bytes")
SIDE_BY_SIDE, EVERY_OTHER, FAR = 1, 2, 0  # stride of an input's pixels along the width


PART_STRIDES = ("batch", "channel", "depth", "height", "width")


def part_slots(computed):
    """The slots of the parts that an image is computed from: (all slots, those that are pointers)."""
    parts = tuple(f"part{k}" for k in range(len(computed.distances))) if computed else ()
    return tuple(name for part in parts for name in (part, *(f"{part}_{stride}" for stride in PART_STRIDES))), parts


def image_kernel(element, numbers, pixels, computed=None):
    """Return the address of the kernel that writes padded images in blocks of channels, one (image, block) per work
    unit.

    `pixels` is the stride along the width: SIDE_BY_SIDE, EVERY_OTHER element, or FAR. `computed` is the PrologueLayout
    that computes images, or None; channels are its lanes.
    """
    key = f"channel image {element} {numbers} {pixels} {computed and computed.key}"
    return jit.build(key, lambda: _image_text(element, numbers, pixels, computed), ["image"])["image"]


def _image_text(element, numbers, pixels, computed):
    further, parts = part_slots(computed)
    kernel = Units("image", IMAGE_SLOTS + further, ("x", "image", *parts))

    def unit(unit):
        _Plane(kernel, element, numbers, pixels, computed, parts, unit).fill()

    return kernel.text(unit)


class _Plane:
    """Emits one work unit of the kernel: the image of as many channels as a vector has lanes, in one example."""

    def __init__(self, kernel, element, numbers, pixels, computed, parts, unit):
        self.f, self.s = f, s = kernel.f, kernel.s
        self.element, self.numbers, self.pixels, self.computed = element, numbers, pixels, computed
        self.word, self.lanes = numbers.word, numbers.lanes
        self.of_elements = replace(numbers, element=element)
        self.pixel_bytes = numbers.lanes * numbers.word.bytes
        batch = f.div(unit, s.planes)
        plane = f.sub(unit, f.mul(batch, s.planes))
        group = f.div(plane, s.group_planes)
        within = f.mul(f.sub(plane, f.mul(group, s.group_planes)), self.lanes)
        channel = f.add(f.mul(group, s.channels), within)
        self.there = f.minimum(f.sub(s.channels, within), self.lanes)  # channels that exist
        self.x = f.offset(s.x, f.add(f.mul(batch, s.x_batch), f.mul(channel, s.x_channel)))
        self.strides = [[getattr(s, f"{part}_{stride}") for stride in PART_STRIDES] for part in parts]
        self.starts = [f.offset(getattr(s, part), f.add(f.mul(batch, own[0]), f.mul(channel, own[1])))
                       for part, own in zip(parts, self.strides)]
        self.image = f.offset(s.image, f.add(f.mul(batch, s.image_bytes), f.mul(plane, s.plane_bytes)))
        self.x_channel, self.x_width, self.width = s.x_channel, s.x_width, s.width
        self.rows_width, self.pad = s.rows_width, s.pad_width

    def fill(self):
        self.f.loop(0, self.f.mul(self.s.rows_depth, self.s.rows_height), 1, [], self.row)

    def row(self, number, _):
        """One row of the image: zeros outside of the operand."""
        f, s = self.f, self.s
        at_depth = f.div(number, s.rows_height)
        z = f.sub(at_depth, s.pad_depth)
        y = f.sub(f.sub(number, f.mul(at_depth, s.rows_height)), s.pad_height)
        target = f.offset(self.image, f.mul(f.mul(number, self.rows_width), self.pixel_bytes))
        inside = f.and_(f.compare("<", y, s.height, signed=False), f.compare("<", z, s.depth, signed=False))
        f.when(inside, lambda: self.filled(z, y, target), lambda: self.blank(target, self.rows_width))

    def filled(self, z, y, target):
        """Emit the pixels of a row of the operand, with zeros before and after them."""
        f, s = self.f, self.s
        self.blank(target, self.pad)
        first = f.offset(target, f.mul(self.pad, self.pixel_bytes))
        if self.computed:
            places = [Strided(f, self.of_elements, f.offset(start, f.add(f.mul(z, own[2]), f.mul(y, own[3]))),
                              own[1], own[4])
                      for start, own in zip(self.starts, self.strides)]
            self.calculated(Computed(f, self.of_elements, self.computed, places), first)
        else:
            source = f.offset(self.x, f.add(f.mul(z, s.x_depth), f.mul(y, s.x_height)))
            (self.gathered if self.pixels == FAR else self.turned)(source, first)
        self.blank(f.offset(first, f.mul(self.width, self.pixel_bytes)),
                   f.sub(f.sub(self.rows_width, self.width), self.pad))

    def blank(self, at, count):
        """Pixels that are zero."""
        f = self.f
        f.loop(0, count, 1, [], lambda k, _: f.store(zero(self.numbers.words), f.offset(at, f.mul(k, self.pixel_bytes)),
                                                     align=self.word.bytes))

    def put(self, target, first, rows):
        """Store a square whose rows are channels, pixel by pixel."""
        f = self.f
        for k, row in enumerate(pack.transpose(f, rows)):
            f.store(row, f.offset(target, f.mul(f.add(first, k), self.pixel_bytes)), align=self.word.bytes)

    def squares(self, target, first, enough, channel):
        """Emit one square from ``channel(c, count)``: a row of pixels of a channel, whose first ``count`` exist (None:
        all)."""
        f, lanes = self.f, self.lanes
        count = f.sub(self.width, first)
        channel = channel(first)
        f.when(f.and_(f.compare(">=", count, enough), f.compare("==", self.there, lanes)),
               lambda: self.put(target, first, [channel(c, None) for c in range(lanes)]),
               lambda: self.put(target, first, [channel(c, f.select(f.compare(">", self.there, c), count, 0))
                                                for c in range(lanes)]))

    def turned(self, source, target):
        """Emit a row from channels with contiguous pixels: squares are transposed; pixels past the end are zeros."""
        f = self.f

        def channel(first):
            at = f.offset(source, f.mul(first, self.pixels * self.element.bytes))
            return lambda c, count: self.load(f.offset(at, f.mul(self.x_channel, c)), count)

        f.loop(0, self.width, self.lanes, [],
               lambda first, _: self.squares(target, first, self.lanes + self.pixels - 1, channel))

    def load(self, at, count):
        """Load adjacent pixels of one channel, or every other pixel; the first ``count`` exist."""
        f, lanes, pixels = self.f, self.lanes, self.pixels
        if pixels == SIDE_BY_SIDE:
            mask = None if count is None else f.lane_mask(count, lanes)
            return f.convert(f.load(vector(self.element, lanes), at, mask=mask), self.word)
        mask = None if count is None else f.lane_mask(f.sub(f.mul(count, pixels), pixels - 1), pixels * lanes)
        wide = f.load(vector(self.element, pixels * lanes), at, mask=mask)
        return f.convert(f.shuffle(wide, None, range(0, pixels * lanes, pixels)), self.word)

    def calculated(self, elements, target):
        """A row of computed elements, along the width or pixel by pixel."""
        f = self.f

        def pixel(k, _):
            f.store(elements.across(0, k, self.there, None), f.offset(target, f.mul(k, self.pixel_bytes)),
                    align=self.word.bytes)

        def channel(first):
            return lambda c, count: elements.along(c, first, count)

        if self.pixels == FAR:
            f.loop(0, self.width, 1, [], pixel)
        else:
            f.loop(0, self.width, self.lanes, [],
                   lambda first, _: self.squares(target, first, self.lanes, channel))

    def gathered(self, source, target):
        """Emit a row pixel by pixel, its channels contiguous or strided."""
        f = self.f

        def pixel(lane_stride, k):
            at = f.offset(source, f.mul(k, self.x_width))
            words = Strided(f, self.of_elements, at, lane=lane_stride).across(0, 0, self.there, None)
            f.store(words, f.offset(target, f.mul(k, self.pixel_bytes)), align=self.word.bytes)

        neighbours = f.compare("==", self.x_channel, self.element.bytes)
        f.when(neighbours, lambda: f.loop(0, self.width, 1, [], lambda k, _: pixel(None, k)),
               lambda: f.loop(0, self.width, 1, [], lambda k, _: pixel(self.x_channel, k)))


class ChannelImage:
    """Images of an operand in blocks of as many channels as a vector has lanes: `size` pixels with zeros around, `rows`
    in all."""

    def __init__(self, c, operand, strides, channels, size, pad, rows):
        self.operand, self.strides, self.channels, self.groups = operand, strides, channels, c.groups
        self.spatial, self.pad, self.rows = size, pad, rows
        self.element, kind = ELEMENTS[c.dtype], numbers(c.dtype)
        self.kind = numbers(next(name for name, e in ELEMENTS.items() if e is kind.accumulator))
        self.lanes, self.size, self.word = self.kind.lanes, self.element.bytes, self.kind.word.bytes
        self.blocks = -(-channels // self.lanes)
        self.pixel = self.lanes * self.word
        self.computed, self.parts = None, ()

    def compute(self, prologue, parts):
        """Compute the images by a Prologue from parts with these strides, (batch, channel, depth, height, width)."""
        self.parts = parts
        self.computed = PrologueLayout(prologue, tuple((distance(part[1]), distance(part[4])) for part in parts))

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
        """True if few lanes lack a channel."""
        return self.channels >= self.lanes and self.blocks * self.lanes <= 1.25 * self.channels

    def row_offset(self, z, y, x=0):
        """Bytes from an image's first pixel to this one."""
        return ((z * self.rows[1] + y) * self.rows[2] + x) * self.pixel

    def step(self, target, start, images, threads):
        """The KernelCall that writes some images, from index `start` on, into a temporary."""
        strides = self.strides
        pixels = {1: SIDE_BY_SIDE, 2: EVERY_OTHER}.get(strides[4], FAR)
        pixels = SIDE_BY_SIDE if self.spatial[2] == 1 and strides[1] != 1 else pixels
        planes = self.blocks * self.groups
        slots = {"channels": self.channels, "planes": planes, "group_planes": self.blocks, "plane_bytes": self.plane,
                 "image_bytes": self.bytes}
        slots.update({f"x_{name}": stride * self.size
                      for name, stride in zip(("batch", "channel", "depth", "height", "width"), strides)})
        for k, name in enumerate(("depth", "height", "width")):
            slots.update({name: self.spatial[k], f"pad_{name}": self.pad[k], f"rows_{name}": self.rows[k]})
        sources = {"x": ("pointer", self.operand, start * strides[0] * self.size), "image": ("temp", target, 0)}
        if self.computed:
            sources["x"] = ("const", 0)
            pixels = FAR if any(along == APART for across, along in self.computed.distances
                                if across != SAME) else SIDE_BY_SIDE
        for k, (part, dtype) in enumerate(zip(self.parts, self.computed.prologue.parts if self.computed else ())):
            sources[f"part{k}"] = ("pointer", f"{self.operand}{k}", start * part[0] * dtype.itemsize)
            slots.update({f"part{k}_{name}": stride * dtype.itemsize for name, stride in zip(PART_STRIDES, part)})
        grain = max(1, min(65536 // self.plane, images * planes // (4 * threads)))
        kernel = image_kernel(self.element, self.kind, pixels, self.computed)
        return KernelCall(kernel, images * planes, grain,
                    written_slots(IMAGE_SLOTS + part_slots(self.computed)[0], slots, sources))


def image_of(c, geometry, taps, operand, strides, group_channels):
    """The image that matmuls with these taps read."""
    rows = tuple((out - 1) * step + max(at) + 1 for out, step, at in zip(geometry.out, geometry.step, taps))
    return ChannelImage(c, operand, strides, group_channels, geometry.size, geometry.pad, rows)
