"""Channels-last images prepared for `pixels.py`: with a border, rows split by the phases of a stride, channels of
groups separated and padded."""

from ..llvm import jit
from ..llvm.types import i8, i16, i32, i64, vector
from ..llvm.values import zero
from .elements import parts
from .units import Units

I_OF = {1: i8, 2: i16, 4: i32, 8: i64}  # integer type of each size in bytes
_NAMES = ("depth", "height")
SLOTS = ("x", "image", "groups", "x_batch", "x_group", "x_width", "x_pixel", "width", "pad_width", "pixels", "channels",
         "padded", "image_bytes", "row_bytes", "border",
         *(f"{what}_{name}" for what in ("x", "size", "pad", "step", "phases", "rows") for name in _NAMES))


def part_of(numbers):
    """The element type of an image: the part of a word."""
    return numbers.word if numbers.per_word == 1 else numbers.part


def image_kernel(numbers, whole, spread=()):
    """Return the address of the kernel that writes a row of a group's image per work unit, over all groups and images.
    `whole`: its pixels are contiguous, with the elements and the count of the image; `spread`: pixels are contiguous
    and get padded, (channels, padded channels), and a vector holds several of them."""
    key = f"pixel rows {numbers} {whole} {spread}"
    return jit.build(key, lambda: _text(numbers, whole, spread), ["rows"])["rows"]


def _text(numbers, whole, spread):
    kernel = Units("rows", SLOTS, ("x", "image"))
    f, s = kernel.f, kernel.s
    part, element = part_of(numbers), numbers.element
    lanes = f.features.lanes(part.bytes)

    def unit(number):
        rest, at = number, {}
        for what, count in (("row_height", s.rows_height), ("row_depth", s.rows_depth),
                            ("phase_height", s.phases_height), ("phase_depth", s.phases_depth),
                            ("group", s.groups)):
            above = f.div(rest, count)
            at[what], rest = f.sub(rest, f.mul(above, count)), above
        places = [f.sub(f.add(f.mul(at[f"row_{name}"], getattr(s, f"step_{name}")), at[f"phase_{name}"]),
                        getattr(s, f"pad_{name}")) for name in _NAMES]
        inside = f.and_(*(f.compare("<", place, getattr(s, f"size_{name}"), signed=False)
                          for place, name in zip(places, _NAMES)))
        in_image = f.mul(f.sub(number, f.mul(rest, units_of_image())), s.row_bytes)
        target = f.offset(s.image, f.add(f.mul(rest, s.image_bytes), in_image))
        source = f.offset(s.x, f.add(f.mul(rest, s.x_batch), f.mul(at["group"], s.x_group)))
        for place, name in zip(places, _NAMES):
            source = f.offset(source, f.mul(place, getattr(s, f"x_{name}")))
        f.when(inside, lambda: (copied if whole or spread else one_by_one)(source, target),
               lambda: fill(target, s.row_bytes))

    def fill(target, count):
        """Fill `count` bytes with the border's value."""
        if part.bytes == 1 or element.is_float:  # of floats it is 0
            return f.fill_bytes(target, f.cast("trunc", s.border, i8), count)
        value = f.splat(f.cast("trunc", s.border, part), lanes)
        f.loop(0, count, lanes * part.bytes, [], lambda at, _: f.store(
            value, f.offset(target, at), mask=f.lane_mask(f.div(f.sub(count, at), part.bytes), lanes)))

    def units_of_image():
        total = s.groups
        for what in ("phases", "rows"):
            for name in _NAMES:
                total = f.mul(total, getattr(s, f"{what}_{name}"))
        return total

    def copied(source, target):
        pixel, own = f.mul(s.padded, part.bytes), f.mul(s.channels, part.bytes)
        pad, left = s.pad_width, f.maximum(f.sub(0, s.pad_width), 0)  # gradients of much padding leave pixels out
        before = f.mul(f.maximum(f.minimum(pad, s.pixels), 0), pixel)
        there = f.mul(f.maximum(f.minimum(f.sub(s.width, left), f.sub(s.pixels, f.maximum(pad, 0))), 0), pixel)
        fill(target, before)
        at, to = f.offset(source, f.mul(left, own)), f.offset(target, before)
        if spread:
            _spread_out(f, part, lanes, spread, at, to, f.div(there, pixel))
        else:
            f.copy_bytes(to, at, there)
        fill(f.offset(target, f.add(before, there)), f.sub(s.row_bytes, f.add(before, there)))

    def one_by_one(source, target):
        size = f.mul(s.padded, part.bytes)

        def pixel(i, _):
            column, to = f.sub(f.mul(i, s.x_pixel), s.pad_width), f.offset(target, f.mul(i, size))
            inside = f.compare("<", column, s.width, signed=False)
            f.when(inside, lambda: converted(f.offset(source, f.mul(column, s.x_width)), to), lambda: fill(to, size))

        def converted(at, to):
            def some(c, _):
                loaded = f.load(vector(element, lanes), f.offset(at, c, element),
                                mask=f.lane_mask(f.sub(s.channels, c), lanes))
                found = f.convert(loaded, part, numbers.signed) if numbers.per_word == 1 else parts(f, numbers, loaded)
                f.store(found, f.offset(to, c, part), mask=f.lane_mask(f.sub(s.padded, c), lanes))

            f.loop(0, s.padded, lanes, [], some)

        f.loop(0, s.pixels, 1, [], pixel)

    return kernel.text(unit)


def _spread_out(f, part, lanes, spread, source, target, count):
    """Pixels with zeros after their channels, some at a time."""
    channels, padded = spread
    bits, pixels = vector(I_OF[part.bytes], lanes), lanes // padded
    picks = [k // padded * channels + k % padded if k % padded < channels and k < pixels * padded else lanes
             for k in range(lanes)]

    def some(i, _):
        there = f.minimum(f.sub(count, i), pixels)
        loaded = f.load(bits, f.offset(source, f.mul(i, channels * part.bytes)),
                        mask=f.lane_mask(f.mul(there, channels), lanes))
        f.store(f.shuffle(loaded, zero(bits), picks), f.offset(target, f.mul(i, padded * part.bytes)),
                mask=f.lane_mask(f.mul(there, padded), lanes))

    f.loop(0, count, pixels, [], some)
