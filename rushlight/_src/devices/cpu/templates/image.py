"""Images prepared for convolution: padded, and split by stride, so that every tap reads contiguous memory.

A stride-s convolution reads x[o * s + t] at output o and tap t. Split into s phases, phase[p][i] = x[i * s + p], that
is phase[t % s][o + t // s]: for a fixed tap, adjacent outputs read adjacent elements. Outputs are indexed over the rows
of the phase image (its pitch included), so a vector of consecutive outputs is one load at "output index plus the tap's
offset"; the few indices past the end of a row are computed and discarded.

If too many would be discarded, the rows of several images are interleaved (row 0 of each, then row 1 of each, ...), and
each column of taps gets a copy of the image that starts at its tap: rows then have the output's width, and nothing is
discarded.
"""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from ....core.cached import cached_property
from ..llvm import jit
from ..llvm.types import i8, i32, i64, vector
from ..llvm.values import constant_vector
from .elements import join
from .units import Units

SLACK = 4096  # bytes that may be read past the last image

PAD_SLOTS = ("x", "image", "channels", "planes", "group_planes", "x_batch", "x_channel", "x_depth", "x_height",
             "x_width",
             "depth", "height", "width", "pad_depth", "pad_height", "pad_width", "step_depth", "step_height",
             "step_width",
             "phases_depth", "phases_height", "phases_width", "rows_depth", "rows_height", "rows_width",
             "tap_width", "pitch",
             "image_batch", "image_channel", "phase_bytes")


@dataclass(frozen=True)
class Geometry:
    """Three spatial dimensions (1 for missing ones) of a convolution that reads `size` and writes `out`.

    `taps` gives, per dimension, the positions of the taps in the padded input, ascending; `step` the distance of
    adjacent outputs. `columns`: a copy of the image for each tap along the width. `images`: number of images whose rows
    are interleaved.
    """

    size: tuple
    out: tuple
    pad: tuple
    step: tuple
    taps: tuple
    columns: bool = False
    images: int = 1

    @cached_property
    def phases(self):
        """Phases kept per dimension: those that some tap reads."""
        depth, height, width = (max(t % s for t in taps) + 1 for taps, s in zip(self.taps, self.step))
        return depth, height, len(self.taps[2]) if self.columns else width

    @cached_property
    def rows(self):
        """The size of one phase image."""
        depth, height, width = (out + max(t // s for t in taps) for out, taps, s in zip(self.out, self.taps, self.step))
        return depth, height, self.out[2] if self.columns else width

    @property
    def pitch(self):
        """Elements from a row of an image to its next."""
        return self.rows[2] * self.images

    @cached_property
    def phase_elements(self):
        return self.rows[0] * self.rows[1] * self.pitch

    @cached_property
    def plane_elements(self):
        """Elements of a channel: its phases, rounded so that adjacent channels fall into different cache sets."""
        lines = -(-self.phase_elements * math.prod(self.phases) // 16)
        return 16 * (lines | 1)

    def count(self, out):
        """Number of output indices of an output of this size, including discarded ones."""
        return ((out[0] - 1) * self.rows[1] + out[1] - 1) * self.pitch + self.pitch - self.rows[2] + out[2]

    def tap_offsets(self, taps):
        """The offset, in elements of a channel, of each of these taps, in row-major order."""
        offsets = []
        for tap in product(*taps):
            phase = [t % s for t, s in zip(tap, self.step)]
            at = [t // s for t, s in zip(tap, self.step)]
            if self.columns:
                phase[2], at[2] = self.taps[2].index(tap[2]), 0
            index = (phase[0] * self.phases[1] + phase[1]) * self.phases[2] + phase[2]
            offsets.append(index * self.phase_elements + (at[0] * self.rows[1] + at[1]) * self.pitch + at[2])
        return np.array(offsets, np.int64)

    def output_offsets(self, out, strides):
        """The offset of each output index in outputs of this size and these strides (batch, then space); -1 for
        discarded ones."""
        table = np.full((out[0], self.rows[1], self.images, self.rows[2]), -1, np.int64)
        batch, *space = strides
        where = sum(i * s for i, s in zip(np.indices((out[0], out[1], self.images, out[2])),
                                          (*space[:2], batch, space[2])))
        table[:, :out[1], :, :out[2]] = where
        return table.reshape(-1)[:self.count(out)]


def spacing(strides, size):
    """Return the distance of pixels if the spatial dimensions of these strides are evenly spaced, else None.

    Example:
        >>> spacing((48, 16, 4, 1), (4, 4)), spacing((48, 1, 12, 3), (4, 4)), spacing((48, 1, 24, 3), (4, 4))
        (1, 3, None)
    """
    found, count = None, 1
    for stride, extent in zip(reversed(strides[2:]), reversed(size)):
        if extent > 1:
            if found is not None and stride != found * count:
                return None
            found = stride if found is None else found
            count *= extent
    return 1 if found is None else found


def is_contiguous(strides, size):
    """True if the spatial dimensions of these strides have no gaps."""
    return spacing(strides, size) == 1


def pad_kernel(element, numbers, step):
    """Return the address of the kernel that writes phase images of words, one (batch, plane) per work unit.

    A plane holds as many channels of a group as a word has parts. `step` is 1 or 2 if the input's rows are contiguous
    and outputs are `step` elements apart, else 0.
    """
    key = f"pad {element} {numbers} {step}"
    return jit.build(key, lambda: _pad_text(element, numbers, step), ["pad"])["pad"]


def _pad_text(element, numbers, step):
    kernel = Units("pad", PAD_SLOTS, ("x", "image"))
    f, s = kernel.f, kernel.s
    word, parts = numbers.word, numbers.per_word
    lanes = max(4, f.features.lanes(word.bytes))
    width, rows_width, distance, x_width = s.width, s.rows_width, s.step_width, s.x_width
    narrow_distance = f.cast("trunc", distance, i32)

    def one_row(sources, limits, first, target):
        """Emit a row of a phase image from a row of each channel, from index `first` on, which may be outside."""
        def masked(i, at):
            count, loaded = (step or 1) * lanes, []
            if not step:
                steps = f.splat(f.cast("trunc", i, i32), count)
                places = f.add(f.mul(f.add(steps, constant_vector(i32, range(count))), f.splat(narrow_distance, count)),
                               f.splat(f.cast("trunc", first, i32), count))
                offsets = f.mul(f.cast("sext", places, vector(i64, count)), f.splat(x_width, count))
            for source, limit in zip(sources, limits):
                if step:
                    loaded.append(f.load(vector(element, count), f.offset(source, at, element),
                                         mask=between(at, limit, count)))
                else:
                    # one unsigned comparison tests both ends of the row
                    mask = f.compare("<", places, f.splat(f.cast("trunc", limit, i32), count), signed=False)
                    loaded.append(f.gather(vector(element, count), f.offset(source, offsets), mask))
            put(i, loaded, f.lane_mask(f.sub(rows_width, i), lanes))

        def between(at, limit, count):
            """The mask of the lanes, counted from index `at`, that are not negative and below a limit; the comparison
            is in bytes, for many lanes at a time."""
            numbers, ends = f.lane_indices(count, i8), (f.sub(0, at), f.sub(limit, at))
            low, high = (f.splat(f.cast("trunc", f.minimum(f.maximum(end, 0), count), i8), count) for end in ends)
            return f.and_(f.compare(">=", numbers, low), f.compare("<", numbers, high))

        def put(i, loaded, mask):
            if step == 2:
                loaded = [f.shuffle(one, None, range(0, 2 * lanes, 2)) for one in loaded]
            words = f.convert(loaded[0], word) if parts == 1 else join(f, numbers, loaded)
            f.store(words, f.offset(target, i, word), mask=mask)

        def some(i, _):
            at = f.add(f.mul(i, distance), first)
            if not step:
                return masked(i, at)
            whole = f.and_(f.compare("<=", f.add(at, step * lanes), limits[-1]), f.compare(">=", at, 0))
            whole = f.and_(whole, f.compare("<=", f.add(i, lanes), rows_width))
            f.when(whole, lambda: put(i, [f.load(vector(element, step * lanes), f.offset(source, at, element))
                                          for source in sources],
                                      None),
                   lambda: masked(i, at))

        f.loop(0, rows_width, lanes, [], some)

    def plane(unit):
        batch = f.div(unit, s.planes)
        number = f.sub(unit, f.mul(batch, s.planes))
        group = f.div(number, s.group_planes)
        within = f.mul(f.sub(number, f.mul(group, s.group_planes)), parts)
        channel = f.add(f.mul(group, s.channels), within)
        x = f.offset(s.x, f.add(f.mul(batch, s.x_batch), f.mul(channel, s.x_channel)))
        image = f.offset(s.image, f.add(f.mul(batch, s.image_batch), f.mul(number, s.image_channel)))
        # a group's last words may lack parts
        widths = [f.select(f.compare("<", f.add(within, part), s.channels), width, 0) for part in range(parts)]

        def row(source, inside, first, target):
            sources = [f.offset(source, f.mul(s.x_channel, part)) for part in range(parts)]
            one_row(sources, [f.select(inside, one, 0) for one in widths], first, target)

        each_row(f, s, x, image, word, row)

    return kernel.text(plane)


def each_row(f, s, x, image, word, row):
    """Loop over the rows of a plane's phase images: `row(source, inside, first, target)` gets the address of a row of
    x, a flag that it exists, the index of its first element (maybe outside), and the target address."""
    def phase(number, _):
        of_width = f.rem(number, s.phases_width)
        rest = f.div(number, s.phases_width)
        start_height = f.sub(f.rem(rest, s.phases_height), s.pad_height)
        start_depth = f.sub(f.div(rest, s.phases_height), s.pad_depth)
        first = f.sub(f.mul(of_width, s.tap_width), s.pad_width)
        to = f.offset(image, f.mul(number, s.phase_bytes))

        def slice_(at_depth, _):
            z = f.add(f.mul(at_depth, s.step_depth), start_depth)
            inside_depth = f.compare("<", z, s.depth, signed=False)

            def one(at_height, _):
                y = f.add(f.mul(at_height, s.step_height), start_height)
                inside = f.and_(f.compare("<", y, s.height, signed=False), inside_depth)
                source = f.offset(x, f.add(f.mul(z, s.x_depth), f.mul(y, s.x_height)))
                number = f.add(f.mul(at_depth, s.rows_height), at_height)
                row(source, inside, first, f.offset(to, f.mul(number, s.pitch), word))

            f.loop(0, s.rows_height, 1, [], one)

        f.loop(0, s.rows_depth, 1, [], slice_)

    f.loop(0, f.mul(f.mul(s.phases_depth, s.phases_height), s.phases_width), 1, [], phase)


def pad_slots(geometry, strides, channels, group_planes, groups, itemsize, numbers):
    """The values of PAD_SLOTS for groups of `channels` in `group_planes` planes; `strides` (batch, channel and three
    spatial ones) are in elements."""
    word_bytes = numbers.word.bytes
    names = ("depth", "height", "width")
    plane = geometry.plane_elements
    batch = geometry.rows[2] if geometry.images > 1 else plane * groups * group_planes
    slots = {"channels": channels, "planes": groups * group_planes, "group_planes": group_planes,
             "image_batch": batch * word_bytes, "image_channel": plane * word_bytes,
             "phase_bytes": geometry.phase_elements * word_bytes, "pitch": geometry.pitch}
    slots.update({f"x_{name}": stride * itemsize for name, stride in zip(("batch", "channel") + names, strides)})
    for k, name in enumerate(names):
        slots.update({name: geometry.size[k], f"pad_{name}": geometry.pad[k], f"step_{name}": geometry.step[k],
                      f"phases_{name}": geometry.phases[k], f"rows_{name}": geometry.rows[k]})
    slots["tap_width"] = 1
    if geometry.columns:
        taps = geometry.taps[2]
        slots["tap_width"] = taps[1] - taps[0] if len(taps) > 1 else 1
        slots["pad_width"] -= taps[0]
    return slots
