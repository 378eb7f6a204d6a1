"""Depthwise convolution directly from memory: every output channel reads one plane of the input.

Lanes are adjacent outputs of a row.  Some rows of outputs are computed together, so that a row of the input is read
once for all taps that use it.  Zeros around the input are masked lanes, so nothing is padded or packed.
"""

from ..llvm import jit
from ..llvm.builder import Module
from ..llvm.types import i32, i64, vector
from ..llvm.values import constant, constant_vector, zero
from .units import Units

SLOTS = ("x", "weights", "y", "outputs", "per_input", "x_batch", "x_channel", "x_row", "y_batch", "y_channel", "y_row",
         "height", "width",
         "out_height", "out_width", "pad_height", "pad_width", "batch")


class Window:
    """The taps of a plane: their count, distance and stride by (height, width), and the number of rows of outputs
    computed together."""

    def __init__(self, kernel, dilation, stride, rows):
        self.kernel, self.dilation, self.stride, self.rows = kernel, dilation, stride, rows

    def __str__(self):
        return f"{self.kernel} {self.dilation} {self.stride} {self.rows}"

    def uses(self):
        """For each row of the input that some row of outputs reads, counted from the first: [(row of outputs, tap along
        the height)]."""
        found = {}
        for row in range(self.rows):
            for tap in range(self.kernel[0]):
                found.setdefault(row * self.stride[0] + tap * self.dilation[0], []).append((row, tap))
        return sorted(found.items())


def forward_kernel(element, numbers, window, turned, epilogue):
    """Return the kernel that computes planes of outputs, one per work unit; `turned`: taps in reverse order, as for the
    gradient of the input."""
    key = f"depthwise {element} {numbers} {window} {turned} {epilogue.key}"
    return jit.build(key, lambda: _forward_text(element, numbers, window, turned, epilogue), ["depthwise"])["depthwise"]


def spread_kernel(element, numbers, window, shift, epilogue):
    """Return the address of the kernel that computes planes of the gradient of the input of a strided convolution, one
    per work unit.

    `shift` is the padding modulo the stride: it decides which taps meet which phase of the plane.
    """
    key = f"depthwise spread {element} {numbers} {window} {shift} {epilogue.key}"
    return jit.build(key, lambda: _spread_text(element, numbers, window, shift, epilogue), ["depthwise"])["depthwise"]


def weight_kernel(element, numbers, window):
    """Return the kernel that computes gradients of weights, one output channel per work unit."""
    return jit.build(f"depthwise weights {element} {numbers} {window}", lambda: _weight_text(element, numbers, window),
                     ["weights"])["weights"]


class _Reader:
    """Loads of rows from given columns on, `step` apart, with lanes outside masked."""

    def __init__(self, f, s, element, numbers, step, columns):
        self.f, self.element, self.numbers, self.step, self.width, self.columns = (f, element, numbers, step, s.width,
                                                                                   columns)
        self.lanes = step * numbers.lanes
        steps = constant_vector(i32, range(self.lanes))
        self.places = [f.add(steps, f.splat(f.cast("trunc", at, i32), self.lanes)) for at in columns]

    def load(self, row, inside, number):
        """Load a vector from column `number` of ``columns`` on; zeros unless `inside`."""
        f = self.f
        limit = f.splat(f.cast("trunc", f.select(inside, self.width, 0), i32), self.lanes)
        mask = f.compare("<", self.places[number], limit, signed=False)  # tests both ends
        loaded = f.load(vector(self.element, self.lanes), f.offset(row, self.columns[number], self.element), mask=mask)
        if self.step > 1:
            loaded = f.shuffle(loaded, None, range(0, self.lanes, self.step))
        return f.convert(loaded, self.numbers.word)


def _reader(f, s, element, numbers, window, column):
    """Return a reader of the input of all taps along the width, for the outputs from a column on."""
    first = f.sub(f.mul(column, window.stride[1]), s.pad_width)
    return _Reader(f, s, element, numbers, window.stride[1],
                   [f.add(first, tap * window.dilation[1]) for tap in range(window.kernel[1])])


def _rows(f, s, window, plane, first):
    """Yield (address, True if it is inside, uses) for each row of the input that some rows of outputs, from `first` on,
    read."""
    top = f.sub(f.mul(first, window.stride[0]), s.pad_height)
    for at, uses in window.uses():
        y = f.add(top, at)
        yield f.offset(plane, f.mul(y, s.x_row)), f.compare("<", y, s.height, signed=False), uses


def _forward_text(element, numbers, window, turned, epilogue):
    kernel = Units("depthwise", SLOTS, ("x", "weights", "y"), Module(many_streams=True))
    f, s = kernel.f, kernel.s
    slots = epilogue.values(f, kernel.args, len(SLOTS))
    (height, width), lanes = window.kernel, numbers.lanes
    taps = height * width

    def unit(unit):
        n = f.div(unit, s.outputs)
        channel = f.sub(unit, f.mul(n, s.outputs))
        plane = f.offset(f.offset(s.x, f.mul(n, s.x_batch)), f.mul(f.div(channel, s.per_input), s.x_channel))
        target = f.offset(f.offset(s.y, f.mul(n, s.y_batch)), f.mul(channel, s.y_channel))
        own = f.offset(s.weights, f.mul(channel, taps * element.bytes))
        # taps are broadcast at each use if there are more than registers
        held = [f.splat(f.convert(f.load(element, f.offset(own, k, element)), numbers.word), lanes)
                for k in range(taps)]
        if turned:
            held.reverse()

        def column(column, _):
            reader = _reader(f, s, element, numbers, window, column)
            mask = f.lane_mask(f.sub(s.out_width, column), lanes)

            def some_rows(first, _):
                sums = [zero(numbers.vector)] * window.rows
                for row, inside, uses in _rows(f, s, window, plane, first):
                    for tap in range(width):
                        x = reader.load(row, inside, tap)
                        for k, down in uses:
                            sums[k] = f.fma(x, held[down * width + tap], sums[k])
                buffer = f.alloca(numbers.vector, window.rows)
                for k, value in enumerate(sums):
                    f.store(value, f.offset(buffer, k, numbers.vector))
                f.loop(0, f.minimum(f.sub(s.out_height, first), window.rows), 1, [],
                       lambda k, _: finish(buffer, first, k))

            def finish(buffer, first, k):
                value, y = f.load(numbers.vector, f.offset(buffer, k, numbers.vector)), f.add(first, k)
                place = f.offset(f.offset(target, f.mul(y, s.y_row)), column, element)
                if epilogue.emit is not None:
                    number = f.add(f.mul(y, s.out_width), column)
                    value = epilogue.emit(f, value, constant(i64, 0), channel, number, place, mask, slots)
                f.store(f.convert(value, element), place, mask=mask)

            f.loop(0, s.out_height, window.rows, [], some_rows)

        f.loop(0, s.out_width, lanes, [], column)

    return kernel.text(unit)


def _phases(window, shift, dim):
    """For each phase of a dimension: [(tap, distance of its input)]."""
    stride = window.stride[dim]
    positions = [[(tap, phase + shift[dim] - tap * window.dilation[dim]) for tap in range(window.kernel[dim])]
                 for phase in range(stride)]
    return [[(tap, at // stride) for tap, at in found if at % stride == 0] for found in positions]


def _spread_text(element, numbers, window, shift, epilogue):
    kernel = Units("depthwise", SLOTS, ("x", "weights", "y"), Module(many_streams=True))
    f, s = kernel.f, kernel.s
    slots, lanes = epilogue.values(f, kernel.args, len(SLOTS)), numbers.lanes
    (height, width), (down, across) = window.kernel, window.stride
    rows, columns = _phases(window, shift, 0), _phases(window, shift, 1)
    distances = sorted({at for phase in columns for _, at in phase})

    def unit(unit):
        n = f.div(unit, s.outputs)
        channel = f.sub(unit, f.mul(n, s.outputs))
        plane = f.offset(f.offset(s.x, f.mul(n, s.x_batch)), f.mul(channel, s.x_channel))
        target = f.offset(f.offset(s.y, f.mul(n, s.y_batch)), f.mul(channel, s.y_channel))
        own = f.offset(s.weights, f.mul(channel, height * width * element.bytes))
        held = [f.splat(f.convert(f.load(element, f.offset(own, k, element)), numbers.word), lanes)
                for k in range(height * width)]

        def some(i, j):
            first = f.add(i, s.pad_width)
            reader = _Reader(f, s, element, numbers, 1, [f.add(first, at) for at in distances])
            for phase, taps in enumerate(rows):
                sums = [zero(numbers.vector)] * across
                for tap, at in taps:
                    y = f.add(f.add(j, s.pad_height), at)
                    inside = f.compare("<", y, s.height, signed=False)
                    loaded = [reader.load(f.offset(plane, f.mul(y, s.x_row)), inside, k) for k in range(len(distances))]
                    for k, found in enumerate(columns):
                        for beside, where in found:
                            sums[k] = f.fma(loaded[distances.index(where)], held[tap * width + beside], sums[k])
                row = f.add(f.mul(j, down), phase)
                f.when(f.compare("<", row, s.out_height), lambda row=row, sums=sums: put(row, f.mul(i, across), sums))

        def put(row, column, sums):
            """Store a row whose phases along the width are interleaved."""
            for part in range(across):
                at = f.add(column, part * lanes)
                picks = [(part * lanes + k) // across + lanes * ((part * lanes + k) % across) for k in range(lanes)]
                value = f.shuffle(sums[0], sums[1], picks) if across > 1 else sums[0]
                mask = f.lane_mask(f.sub(s.out_width, at), lanes)
                place = f.offset(f.offset(target, f.mul(row, s.y_row)), at, element)
                if epilogue.emit is not None:
                    number = f.add(f.mul(row, s.out_width), at)
                    value = epilogue.emit(f, value, constant(i64, 0), channel, number, place, mask, slots)
                f.store(f.convert(value, element), place, mask=mask)

        def pair_of_rows(j, _):
            f.loop(0, f.div(f.add(s.out_width, across - 1), across), lanes, [], lambda i, _: some(i, j))

        f.loop(0, f.div(f.add(s.out_height, down - 1), down), 1, [], pair_of_rows)

    return kernel.text(unit)


def _weight_text(element, numbers, window):
    kernel = Units("weights", SLOTS, ("x", "weights", "y"))
    f, s = kernel.f, kernel.s
    (height, width), lanes = window.kernel, numbers.lanes

    def unit(channel):
        x = f.offset(s.x, f.mul(f.div(channel, s.per_input), s.x_channel))
        y = f.offset(s.y, f.mul(channel, s.y_channel))

        def image(n, sums):
            plane, grads = f.offset(x, f.mul(n, s.x_batch)), f.offset(y, f.mul(n, s.y_batch))

            def column(column, sums):
                reader = _reader(f, s, element, numbers, window, column)
                left = f.sub(s.out_width, column)

                def some_rows(first, sums):
                    sums, given = list(sums), []
                    for k in range(window.rows):
                        at = f.add(first, k)
                        there = f.select(f.compare("<", at, s.out_height), left, 0)
                        place = f.offset(f.offset(grads, f.mul(at, s.y_row)), column, element)
                        given.append(f.convert(f.load(vector(element, lanes), place, mask=f.lane_mask(there, lanes)),
                                               numbers.word))
                    for row, inside, uses in _rows(f, s, window, plane, first):
                        for tap in range(width):
                            value = reader.load(row, inside, tap)
                            for k, down in uses:
                                at = down * width + tap
                                sums[at] = f.fma(value, given[k], sums[at])
                    return sums

                return f.loop(0, s.out_height, window.rows, sums, some_rows)

            return f.loop(0, s.out_width, lanes, sums, column)

        sums = f.loop(0, s.batch, 1, [zero(numbers.vector)] * (height * width), image)
        target = f.offset(s.weights, f.mul(channel, height * width * element.bytes))
        for k, value in enumerate(sums):
            f.store(f.convert(f.reduce("add", value), element), f.offset(target, k, element))

    return kernel.text(unit)
