"""Images prepared for convolution (`image.py`) from channels-last tensors: squares of channels by pixels are
transposed."""

from ..llvm import jit
from ..llvm.types import i16, i32, vector
from . import pack
from .image import PAD_SLOTS, each_row
from .units import Units

SLOTS = PAD_SLOTS + ("group_sets",)


def planes(numbers):
    """Number of planes in a set, which a kernel writes together."""
    return numbers.lanes * (2 if _halves(numbers) else 1)


def _halves(numbers):
    """True if words are 2-byte elements; pairs of them are transposed as one."""
    return numbers.per_word == 1 and numbers.word.bytes == 2


def pad_kernel(element, numbers, step):
    """Return the address of the kernel that writes phase images of words, one (batch, set of planes) per work unit,
    from channels-last pixels.  Outputs may be any number of elements apart: `step` is 0."""
    key = f"pad turned {element} {numbers}"
    return jit.build(key, lambda: _text(element, numbers), ["pad"])["pad"]


def _text(element, numbers):
    kernel = Units("pad", SLOTS, ("x", "image"))
    f, s = kernel.f, kernel.s
    halves, lanes, word = _halves(numbers), numbers.lanes, numbers.word
    parts = 2 if halves else numbers.per_word
    across, count = lanes * parts, planes(numbers)
    width, rows_width, distance, x_width = s.width, s.rows_width, s.step_width, s.x_width
    plane_bytes, spare = s.image_channel, f.alloca(vector(word, lanes), count)

    def unit(unit):
        x, image, *rest = _set_of_planes(f, s, numbers, element, unit, across, count)
        each_row(f, s, x, image, word, lambda *row: one_row(*row, *rest))

    def one_row(source, inside, first, target, there, planes_there, full):
        channels = f.select(inside, there, 0)
        full = f.and_(full, inside)

        def load(place, mask=None):
            """Load the words of a pixel; float16 is converted at once, since CPUs without float16 arithmetic cannot
            pass it between basic blocks."""
            loaded = f.load(vector(element, across), f.offset(source, f.mul(place, x_width)), mask=mask)
            return f.bitcast(loaded, vector(i32, lanes)) if parts > 1 else f.convert(loaded, word)

        def turned(words):
            """A vector of adjacent pixels for each plane."""
            found = pack.transpose(f, words)
            if not halves:
                return found
            return [f.cast("trunc", f.lshr(one, 16 * half), vector(i16, lanes)) for one in found for half in range(2)]

        def some(i, _):
            at, to = f.add(f.mul(i, distance), first), f.offset(target, i, word)
            last = f.add(at, f.mul(distance, lanes - 1))
            whole = f.and_(f.and_(full, f.compare(">=", at, 0)),
                           f.and_(f.compare("<", last, width), f.compare("<=", f.add(i, lanes), rows_width)))
            places = [f.add(at, f.mul(distance, k)) for k in range(lanes)]

            def fast():
                for k, value in enumerate(turned([load(place) for place in places])):
                    f.store(value, f.offset(to, f.mul(plane_bytes, k)))

            def careful():
                counts = [f.select(f.compare("<", place, width, signed=False), channels, 0) for place in places]
                found = turned([load(place, f.lane_mask(count, across)) for place, count in zip(places, counts)])
                for k, value in enumerate(found):
                    f.store(value, f.offset(spare, k * lanes * word.bytes))
                mask = f.lane_mask(f.sub(rows_width, i), lanes)
                f.loop(0, planes_there, 1, [], lambda k, _: f.store(
                    f.load(found[0].type, f.offset(spare, f.mul(k, lanes * word.bytes))),
                    f.offset(to, f.mul(plane_bytes, k)), mask=mask))

            f.when(whole, fast, careful)

        f.loop(0, rows_width, lanes, [], some)

    return kernel.text(unit)


def _set_of_planes(f, s, numbers, element, unit, across, count):
    """Return (address of the set's channels in x, address of its planes, number of channels, number of planes, True if
    the set is full)."""
    sets = f.mul(f.div(s.planes, s.group_planes), s.group_sets)
    batch = f.div(unit, sets)
    number = f.sub(unit, f.mul(batch, sets))
    group = f.div(number, s.group_sets)
    first = f.mul(f.sub(number, f.mul(group, s.group_sets)), count)
    within = f.mul(first, numbers.per_word)
    there = f.minimum(f.maximum(f.sub(s.channels, within), 0), across)
    planes_there = f.minimum(f.sub(s.group_planes, first), count)
    full = f.and_(f.compare("==", there, across), f.compare("==", planes_there, count))
    x = f.offset(s.x, f.add(f.mul(batch, s.x_batch), f.mul(f.add(f.mul(group, s.channels), within), element.bytes)))
    plane = f.add(f.mul(group, s.group_planes), first)
    image = f.offset(s.image, f.add(f.mul(batch, s.image_batch), f.mul(plane, s.image_channel)))
    return x, image, there, planes_there, full
