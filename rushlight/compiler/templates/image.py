"""Images made ready for convolution: padded, and split by stride, so that every tap reads neighbouring memory.

A stride-s convolution reads x[o * s + t] at output o and tap t. Split into s phases, phase[p][i] = x[i * s + p], that is
phase[t % s][o + t // s]: for a fixed tap, neighbouring outputs read neighbours. Outputs are numbered over the rows of the
phase image (its pitch included), so a whole run of them is one vector load at "output number plus the tap's offset"; the few
numbers past the end of a row are computed and thrown away.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from ..llvm import jit
from ..llvm.builder import Module, constant_vector
from ..llvm.types import i32, i64, vector
from .blocked import KERNEL, Slots

SLACK = 4096  # bytes that may be read past the last image

PAD_SLOTS = ("x", "image", "channels", "x_batch", "x_channel", "x_depth", "x_height", "x_width",
             "depth", "height", "width", "pad_depth", "pad_height", "pad_width", "step_depth", "step_height", "step_width",
             "phases_depth", "phases_height", "phases_width", "rows_depth", "rows_height", "rows_width",
             "image_batch", "image_channel", "phase_bytes")


@dataclass(frozen=True)
class Geometry:
    """Three spatial dimensions (1 where fewer) of a convolution that reads `size` and writes `out`.

    `taps` gives, per dimension, the position of each tap in the padded input; `step` the distance of neighbouring outputs.
    """

    size: tuple
    out: tuple
    pad: tuple
    step: tuple
    taps: tuple

    @property
    def phases(self):
        """Phases kept per dimension: those that some tap reads."""
        return tuple(max(t % s for t in taps) + 1 for taps, s in zip(self.taps, self.step))

    @property
    def rows(self):
        """The size of one phase image."""
        return tuple(out + max(t // s for t in taps) for out, taps, s in zip(self.out, self.taps, self.step))

    @property
    def phase_elements(self):
        return int(np.prod(self.rows))

    @property
    def plane_elements(self):
        """Elements a channel takes: its phases, rounded so that neighbouring channels fall into different cache sets."""
        lines = -(-self.phase_elements * int(np.prod(self.phases)) // 16)
        return 16 * (lines | 1)

    def count(self, out):
        """How many output numbers an output of this size has, those thrown away included."""
        _, height, width = self.rows
        return ((out[0] - 1) * height + out[1] - 1) * width + out[2]

    def tap_offsets(self, taps, phase_elements=None):
        """The offset, in elements of a channel, of each of these taps, in row-major order."""
        phase_elements = phase_elements or self.phase_elements
        _, height, width = self.rows
        offsets = []
        for tap in product(*taps):
            phase = [t % s for t, s in zip(tap, self.step)]
            at = [t // s for t, s in zip(tap, self.step)]
            index = (phase[0] * self.phases[1] + phase[1]) * self.phases[2] + phase[2]
            offsets.append(index * phase_elements + (at[0] * height + at[1]) * width + at[2])
        return np.array(offsets, np.int64)

    def output_offsets(self, out, strides):
        """The offset of each output number in an output of this size and these strides; -1 for those thrown away."""
        _, height, width = self.rows
        table = np.full(out[0] * height * width, -1, np.int64)
        grid = table.reshape(out[0], height, width)
        grid[:, :out[1], :out[2]] = sum(i * s for i, s in zip(np.indices(out), strides))
        return table[:self.count(out)]


def is_contiguous(strides, size):
    """Whether the spatial dimensions of these strides lie without gaps."""
    wanted = 1
    for stride, extent in zip(reversed(strides[2:]), reversed(size)):
        if extent > 1 and stride != wanted:
            return False
        wanted *= extent
    return True


def pad_kernel(element, word, step):
    """The kernel that writes phase images of words, one (batch, channel) a unit; returns its address.

    `step` is 1 or 2 when the input's rows are contiguous and outputs are so many elements apart, else 0.
    """
    key = f"pad {element} {word} {step}"
    return jit.build(key, lambda: _pad_text(element, word, step), ["pad"])["pad"]


def _pad_text(element, word, step):
    module = Module()
    f = module.function("pad", KERNEL)
    args, begin, end, _ = f.parameters
    s = Slots(f, args, PAD_SLOTS, ("x", "image"))
    lanes = max(4, f.features.lanes(word.bytes))
    width, rows_width, distance, x_width = s.width, s.rows_width, s.step_width, s.x_width
    narrow_distance = f.cast("trunc", distance, i32)

    def one_row(source, inside, first, target):
        """A row of a phase image from a row of the input; `first` is where its first element lies, maybe outside."""
        limit = f.select(inside, width, 0)

        def masked(i, at):
            count = (step or 1) * lanes
            steps = f.splat(f.cast("trunc", at if step else i, i32), count)
            if step:
                places = f.add(steps, constant_vector(i32, range(count)))
            else:
                places = f.add(f.mul(f.add(steps, constant_vector(i32, range(count))), f.splat(narrow_distance, count)),
                               f.splat(f.cast("trunc", first, i32), count))
            # one unsigned comparison tests both ends of the row
            mask = f.compare("<", places, f.splat(f.cast("trunc", limit, i32), count), signed=False)
            if step:
                loaded = f.load(vector(element, count), f.offset(source, at, element), mask=mask)
            else:
                offsets = f.mul(f.cast("sext", places, vector(i64, count)), f.splat(x_width, count))
                loaded = f.gather(vector(element, count), f.offset(source, offsets), mask)
            put(i, loaded, f.lane_mask(f.sub(rows_width, i), lanes))

        def put(i, loaded, mask):
            if step == 2:
                loaded = f.shuffle(loaded, None, range(0, 2 * lanes, 2))
            f.store(f.convert(loaded, word), f.offset(target, i, word), mask=mask)

        def some(i, _):
            at = f.add(f.mul(i, distance), first)
            if not step:
                return masked(i, at)
            whole = f.and_(f.compare("<=", f.add(at, step * lanes), limit), f.compare(">=", at, 0))
            whole = f.and_(whole, f.compare("<=", f.add(i, lanes), rows_width))
            f.when(whole, lambda: put(i, f.load(vector(element, step * lanes), f.offset(source, at, element)), None),
                   lambda: masked(i, at))

        f.loop(0, rows_width, lanes, [], some)

    def plane(unit, _):
        batch = f.div(unit, s.channels)
        channel = f.sub(unit, f.mul(batch, s.channels))
        x = f.offset(s.x, f.add(f.mul(batch, s.x_batch), f.mul(channel, s.x_channel)))
        image = f.offset(s.image, f.add(f.mul(batch, s.image_batch), f.mul(channel, s.image_channel)))

        def phase(number, _):
            of_width = f.rem(number, s.phases_width)
            rest = f.div(number, s.phases_width)
            start_height = f.sub(f.rem(rest, s.phases_height), s.pad_height)
            start_depth = f.sub(f.div(rest, s.phases_height), s.pad_depth)
            first = f.sub(of_width, s.pad_width)
            to = f.offset(image, f.mul(number, s.phase_bytes))

            def slice_(at_depth, _):
                z = f.add(f.mul(at_depth, s.step_depth), start_depth)
                inside_depth = f.compare("<", z, s.depth, signed=False)

                def row(at_height, _):
                    y = f.add(f.mul(at_height, s.step_height), start_height)
                    inside = f.and_(f.compare("<", y, s.height, signed=False), inside_depth)
                    source = f.offset(x, f.add(f.mul(z, s.x_depth), f.mul(y, s.x_height)))
                    number = f.add(f.mul(at_depth, s.rows_height), at_height)
                    one_row(source, inside, first, f.offset(to, f.mul(number, rows_width), word))

                f.loop(0, s.rows_height, 1, [], row)

            f.loop(0, s.rows_depth, 1, [], slice_)

        f.loop(0, f.mul(f.mul(s.phases_depth, s.phases_height), s.phases_width), 1, [], phase)

    f.loop(begin, end, 1, [], plane)
    f.ret()
    return module.text()


@dataclass(frozen=True)
class Layout:
    """Where the images of a batch lie, in elements: one plane a (batch, channel), or the batch side by side in a channel.

    Side by side, the output numbers of a whole batch form one run, which wastes fewer lanes when images are small.
    """

    batch: int
    channel: int
    phase: int
    total: int


def layout(geometry, batch, channels, side_by_side):
    """The Layout of the images of a batch."""
    if not side_by_side:
        plane = geometry.plane_elements
        return Layout(plane * channels, plane, geometry.phase_elements, plane * channels * batch)
    phase = geometry.phase_elements * batch
    lines = -(-phase * int(np.prod(geometry.phases)) // 16)
    channel = 16 * (lines | 1)
    return Layout(geometry.phase_elements, channel, phase, channel * channels)


def pad_slots(geometry, layout, strides, channels, itemsize, word_bytes):
    """The numbers of PAD_SLOTS; `strides` (batch, channel and three spatial ones) are in elements."""
    names = ("depth", "height", "width")
    slots = {"channels": channels, "image_batch": layout.batch * word_bytes, "image_channel": layout.channel * word_bytes,
             "phase_bytes": layout.phase * word_bytes}
    slots.update({f"x_{name}": stride * itemsize for name, stride in zip(("batch", "channel") + names, strides)})
    for k, name in enumerate(names):
        slots.update({name: geometry.size[k], f"pad_{name}": geometry.pad[k], f"step_{name}": geometry.step[k],
                      f"phases_{name}": geometry.phases[k], f"rows_{name}": geometry.rows[k]})
    return slots
