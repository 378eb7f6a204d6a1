"""Channels-last depthwise convolution: lanes are channels, and pixels are read in place.

A tile of outputs, some rows by some columns, reads each of its pixels once for all taps.  Pixels outside count as
zeros: rows of them are skipped, and only tiles at the sides check each pixel.  Weights are packed by vectors of
channels, as floats.
"""

from ..llvm import jit
from ..llvm.builder import Module
from ..llvm.types import f32, i32, i64, vector
from ..llvm.values import constant, constant_vector, zero
from .elements import load_apart
from .tile import Store
from .units import Units

SLOTS = ("x", "weights", "y", "channels", "x_batch", "x_row", "x_pixel", "y_batch", "y_row", "y_pixel", "height",
         "width", "out_height", "out_width", "pad_height", "pad_width", "row_blocks")
PACK_SLOTS = ("weights", "packed", "channels", "channel", "row", "column")
MOST_PIXELS = 14  # of a row that vectors hold at once
MOST_COLUMNS = 8  # of a tile
MOST_TAPS = 49    # written out one by one; of more, a row of taps at a time


class Taps:
    """Taps and their pixels: per dimension (index in the kernel, position in the image), the kernel's size, and the
    stride of outputs."""

    def __init__(self, kernel, taps, stride):
        self.kernel, self.taps, self.stride = kernel, taps, stride

    def __str__(self):
        return f"{self.kernel} {self.taps} {self.stride}"

    @property
    def reach(self):
        """Columns of pixels that an output reads, from its first one on."""
        return max(at for _, at in self.taps[1]) + 1

    @property
    def columns(self):
        """Columns of a tile of outputs."""
        return max(1, min(MOST_COLUMNS, (MOST_PIXELS - self.reach) // self.stride[1] + 1))

    @property
    def pixels(self):
        """The pixels of a row that a tile reads."""
        return sorted({j * self.stride[1] + at for j in range(self.columns) for _, at in self.taps[1]})

    @property
    def written_out(self):
        """True if all taps are unrolled, which is so for few taps."""
        return len(self.taps[0]) * len(self.taps[1]) <= MOST_TAPS

    @property
    def height(self):
        """Rows of a tile of outputs."""
        return 2 if self.written_out else 1

    def rows(self):
        """For each row of pixels that a tile reads: (its position, [(row of outputs, tap)])."""
        found = {}
        for row in range(self.height):
            for tap, at in self.taps[0]:
                found.setdefault(row * self.stride[0] + at, []).append((row, tap))
        return sorted(found.items())


def pack_kernel(element, kernel, lanes):
    """Return the address of the kernel that packs weights, a vector of channels per work unit."""
    return jit.build(f"depthwise last weights {element} {kernel} {lanes}", lambda: _pack_text(element, kernel, lanes),
                     ["weights"])["weights"]


def _pack_text(element, kernel, lanes):
    units = Units("weights", PACK_SLOTS, ("weights", "packed"))
    f, s = units.f, units.s
    height, width = kernel

    def unit(number):
        source = f.offset(s.weights, f.mul(first_channel(f, s, number, lanes), s.channel))
        target = f.offset(s.packed, f.mul(number, height * width * lanes * f32.bytes))

        def tap(i, j):
            at = f.offset(f.offset(source, f.mul(i, s.row)), f.mul(j, s.column))
            found = f.convert(load_apart(f, element, at, s.channel, lanes, None), f32)
            f.store(found, f.offset(target, f.mul(f.add(f.mul(i, width), j), lanes * f32.bytes)))

        f.loop(0, height, 1, [], lambda i, _: f.loop(0, width, 1, [], lambda j, _: tap(i, j)))

    return units.text(unit)


def first_channel(f, s, number, lanes):
    """The first channel of a vector; the last vector begins earlier if it would not be full."""
    return f.minimum(f.mul(number, lanes), f.sub(s.channels, lanes))


def last_kernel(numbers, element, taps, epilogue):
    """Return the address of the kernel that computes rows of tiles, one per work unit, of elements that are computed as
    `numbers`."""
    key = f"depthwise last {numbers} {element} {taps} {epilogue.key}"
    return jit.build(key, lambda: _text(numbers, element, taps, epilogue), ["depthwise"])["depthwise"]


def _text(numbers, element, taps, epilogue):
    kernel = Units("depthwise", SLOTS, ("x", "weights", "y"), Module(many_streams=True))
    f, s = kernel.f, kernel.s
    writer = _Rows(kernel, numbers, element, taps, Store(numbers, element, epilogue, len(SLOTS)))

    def unit(number):
        image = f.div(number, s.row_blocks)
        row = f.mul(f.sub(number, f.mul(image, s.row_blocks)), taps.height)
        writer.unit(f.offset(s.x, f.mul(image, s.x_batch)), f.offset(s.y, f.mul(image, s.y_batch)), row)

    return kernel.text(unit)


class _Rows:
    """Emits the loops over channels and columns of a row of tiles."""

    def __init__(self, kernel, numbers, element, taps, store):
        self.f, self.s, self.args = kernel.f, kernel.s, kernel.args
        self.numbers, self.element, self.taps, self.store = numbers, element, taps, store
        self.buffer = self.f.alloca(numbers.vector, taps.height * taps.columns)

    def unit(self, plane, target, row):
        f, s, lanes = self.f, self.s, self.numbers.lanes
        self.row, self.top = row, f.sub(f.mul(row, self.taps.stride[0]), s.pad_height)
        size, height, width = self.element.bytes, *self.taps.kernel

        def channels(number, _):
            channel = self.channel = first_channel(f, s, number, lanes)
            # lanes that the vector before has are not stored again
            fresh = f.splat(f.cast("trunc", f.sub(f.mul(number, lanes), channel), i32), lanes)
            self.mask = f.compare(">=", constant_vector(i32, range(lanes)), fresh)
            self.plane, self.target = f.offset(plane, f.mul(channel, size)), f.offset(target, f.mul(channel, size))
            self.weights = f.offset(s.weights, f.mul(number, height * width * lanes * f32.bytes))
            f.loop(0, s.out_width, self.taps.columns, [], lambda column, _: self.tile(column))

        f.loop(0, f.div(f.add(s.channels, lanes - 1), lanes), 1, [], channels)

    def tile(self, column):
        """Emit one tile; at the sides each pixel is checked."""
        f, s, taps = self.f, self.s, self.taps
        first = f.sub(f.mul(column, taps.stride[1]), s.pad_width)
        there = f.and_(f.compare(">=", first, 0), f.compare("<=", f.add(first, taps.pixels[-1] + 1), s.width))
        f.when(there, lambda: self.sums(first, False), lambda: self.sums(first, True))
        wanted = f.minimum(f.sub(s.out_width, column), taps.columns)
        f.loop(0, f.minimum(f.sub(s.out_height, self.row), self.taps.height), 1, [],
               lambda r, _: f.loop(0, wanted, 1, [], lambda c, _: self.finish(r, c, column)))

    def sums(self, first, checked):
        """Compute the sums of a tile into the buffer."""
        f, s, taps, numbers = self.f, self.s, self.taps, self.numbers
        sums = [zero(numbers.vector)] * (taps.height * taps.columns)

        def one(at, uses, sums):
            y = f.add(self.top, at)
            return f.when(f.compare("<", y, s.height, signed=False),
                          lambda: self.added(y, first, checked, uses, sums), lambda: sums)

        if taps.written_out:
            for at, uses in taps.rows():
                sums = one(at, uses, sums)
        else:  # rows of taps are evenly spaced
            (tap, at), *others = taps.taps[0]
            more, below = (others[0][0] - tap, others[0][1] - at) if others else (0, 0)
            sums = f.loop(0, len(taps.taps[0]), 1, sums, lambda k, sums: one(
                f.add(f.mul(k, below), at), [(0, f.add(f.mul(k, more), tap))], sums))
        for k, value in enumerate(sums):
            f.store(value, f.offset(self.buffer, k * numbers.vector.bytes))

    def added(self, y, first, checked, uses, sums):
        """Add the contribution of a row of pixels to the sums."""
        f, s, taps, numbers = self.f, self.s, self.taps, self.numbers
        line = f.offset(self.plane, f.add(f.mul(y, s.x_row), f.mul(first, s.x_pixel)))
        pixels = {}
        for at in taps.pixels:
            place, mask = f.offset(line, f.mul(s.x_pixel, at)), None
            if checked:
                inside = f.compare("<", f.add(first, at), s.width, signed=False)
                mask = f.lane_mask(f.select(inside, constant(i64, numbers.lanes), 0), numbers.lanes)
            loaded = f.load(vector(self.element, numbers.lanes), place, align=self.element.bytes, mask=mask)
            pixels[at] = f.convert(loaded, numbers.word)
        sums = list(sums)
        for row, tap in uses:
            tap = constant(i64, tap) if isinstance(tap, int) else tap
            weights = f.offset(self.weights, f.mul(tap, taps.kernel[1] * numbers.vector.bytes))
            for beside, at in taps.taps[1]:
                weight = f.load(numbers.vector, f.offset(weights, beside * numbers.vector.bytes))
                for j in range(taps.columns):
                    k = row * taps.columns + j
                    sums[k] = f.fma(pixels[j * taps.stride[1] + at], weight, sums[k])
        return sums

    def finish(self, r, c, column):
        """One vector of outputs: epilogue, conversion, store."""
        f, s, kind = self.f, self.s, self.numbers.vector
        total = f.load(kind, f.offset(self.buffer, f.mul(f.add(f.mul(r, self.taps.columns), c), kind.bytes)))
        y, x = f.add(self.row, r), f.add(column, c)
        place = f.offset(f.offset(self.target, f.mul(y, s.y_row)), f.mul(x, s.y_pixel))
        self.store.finish(f, self.args, total, place, constant(i64, 0), f.add(f.mul(y, s.out_width), x), self.channel,
                          self.mask)
