"""Gradients of a convolution's weights with channels in the lanes of vectors.

Input and gradient are images in blocks of channels (`channels.py`).  A register tile takes some input channels at one tap by some
vectors of output channels: for each output a number of the input is broadcast for each channel, and vectors of the gradient are
loaded.  Sums wait in scratch between chunks of rows that the first cache holds, then are turned and stored.
"""

from ..llvm import jit
from ..llvm.builder import Module, constant, zero
from ..llvm.types import i64, ptr, vector
from . import pack
from .blocked import KERNEL, Slots

# "x_rows" and "y_rows" are tables of byte offsets of each row of outputs, "taps_at" one of each tap.
SLOTS = ("x", "y", "out", "scratch", "x_rows", "y_rows", "taps_at", "rows", "chunk_rows", "width", "taps", "inputs", "outputs", "blocks",
         "panels", "unit_blocks", "block_units", "unit_panels", "panel_units", "x_group_bytes", "y_group_bytes", "x_plane", "y_plane", "out_group", "out_row",
         "scratch_bytes")


def weight_kernel(numbers, element, rows, vectors, step):
    """The kernel that computes gradients of weights for some panels of output and some blocks of input channels; returns its address.

    `rows` input channels by `vectors` of output channels are a tile; neighbouring outputs read pixels `step` apart.
    """
    key = f"channel weight gradient {numbers} {element} {rows} {vectors} {step}"
    return jit.build(key, lambda: _text(numbers, element, rows, vectors, step), ["weights"])["weights"]


def _text(numbers, element, rows, vectors, step):
    module = Module()
    tile = _tile(module, numbers, rows, vectors, step)
    f = module.function("weights", KERNEL)
    args, begin, end, worker = f.parameters
    s = Slots(f, args, SLOTS, ("x", "y", "out", "scratch", "x_rows", "y_rows", "taps_at"))
    lanes, bytes_ = numbers.lanes, numbers.lanes * numbers.accumulator.bytes
    sums_bytes = lanes * vectors * bytes_  # of one block of input channels at one tap
    scratch = f.offset(s.scratch, f.mul(worker, s.scratch_bytes))

    def unit(unit, _):
        rest = f.div(unit, s.block_units)
        first_block = f.mul(f.sub(unit, f.mul(rest, s.block_units)), s.unit_blocks)
        group = f.div(rest, s.panel_units)
        first_panel = f.mul(f.sub(rest, f.mul(group, s.panel_units)), s.unit_panels)
        blocks, panels = f.minimum(f.sub(s.blocks, first_block), s.unit_blocks), f.minimum(f.sub(s.panels, first_panel), s.unit_panels)
        x = f.offset(f.offset(s.x, f.mul(group, s.x_group_bytes)), f.mul(first_block, s.x_plane))
        y = f.offset(f.offset(s.y, f.mul(group, s.y_group_bytes)), f.mul(f.mul(first_panel, s.y_plane), vectors))
        taps = s.taps
        of_panel = f.mul(blocks, taps)
        f.fill_bytes(scratch, 0, f.mul(f.mul(panels, of_panel), sums_bytes))

        def chunk(row, _):
            count = f.minimum(f.sub(s.rows, row), s.chunk_rows)

            def panel(number, _):
                grads = f.offset(y, f.mul(f.mul(number, s.y_plane), vectors))
                f.loop(0, of_panel, 1, [], lambda k, _: at_tap(k, grads, f.offset(scratch, f.mul(f.add(f.mul(number, of_panel), k), sums_bytes))))

            def at_tap(number, grads, sums):
                block = f.div(number, taps)
                tap = f.load(i64, f.offset(s.taps_at, f.sub(number, f.mul(block, taps)), i64))
                source = f.offset(f.offset(x, f.mul(block, s.x_plane)), tap)
                for part in range(0, lanes, rows):
                    f.call(tile, [f.offset(source, part * numbers.word.bytes), grads, f.offset(sums, part * vectors * bytes_),
                                  f.offset(s.x_rows, row, i64), f.offset(s.y_rows, row, i64), count, s.width, s.y_plane])

            f.loop(0, panels, 1, [], panel)

        f.loop(0, s.rows, s.chunk_rows, [], chunk)
        out = f.offset(s.out, f.mul(group, s.out_group))

        def finished(number, _):
            panel = f.div(number, of_panel)
            store(f.sub(number, f.mul(panel, of_panel)), out, f.add(first_panel, panel), first_block, f.offset(scratch, f.mul(number, sums_bytes)))

        f.loop(0, f.mul(panels, of_panel), 1, [], finished)

    def store(number, out, panel, first_block, sums):
        """Turns the sums of one block at one tap, and stores them: a vector of input channels for each output channel."""
        block = f.div(number, s.taps)
        tap = f.sub(number, f.mul(block, s.taps))
        channel = f.mul(f.add(first_block, block), lanes)
        mask = f.lane_mask(f.sub(s.inputs, channel), lanes)
        distance = f.mul(f.lane_indices(lanes), f.splat(s.taps, lanes))
        turned = f.alloca(numbers.vector, lanes)
        for j in range(vectors):
            loaded = [f.load(numbers.vector, f.offset(sums, (c * vectors + j) * bytes_)) for c in range(lanes)]
            for k, value in enumerate(pack.transpose(f, loaded)):
                f.store(value, f.offset(turned, k * bytes_))
            first = f.add(f.mul(panel, vectors * lanes), j * lanes)
            target = f.offset(f.offset(out, f.mul(first, s.out_row)), f.add(f.mul(channel, s.taps), tap), element)

            def one(k, _):
                value = f.convert(f.load(numbers.vector, f.offset(turned, f.mul(k, bytes_))), element)
                at = f.offset(target, f.mul(k, s.out_row))
                f.when(f.compare("==", s.taps, 1), lambda: f.store(value, at, mask=mask),
                       lambda: f.scatter(value, f.offset(at, distance, element), mask))

            f.loop(0, f.minimum(f.sub(s.outputs, first), lanes), 1, [], one)

    f.loop(begin, end, 1, [], unit)
    f.ret()
    return module.text()


def _tile(module, numbers, rows, vectors, step):
    """A function that adds to the sums of a tile what some rows of outputs give."""
    parameters = [("x", ptr), ("y", ptr), ("sums", ptr), ("x_rows", ptr), ("y_rows", ptr), ("count", i64), ("width", i64), ("y_plane", i64)]
    f = module.function("tile", parameters, internal=True)
    x, y, sums, x_rows, y_rows, count, width, y_plane = f.parameters
    word, bytes_ = numbers.word.bytes, numbers.lanes * numbers.accumulator.bytes
    pixel = numbers.lanes * word
    places = [f.offset(sums, k * bytes_) for k in range(rows * vectors)]

    def row(number, tile):
        at = f.offset(x, f.load(i64, f.offset(x_rows, number, i64)))
        grads = f.offset(y, f.load(i64, f.offset(y_rows, number, i64)))

        def output(_, values):
            at, grads, *tile = values
            given = [f.load(numbers.words, f.offset(grads, f.mul(y_plane, j)) if j else grads, align=word) for j in range(vectors)]
            for r in range(rows):
                one = f.splat(f.load(numbers.word, f.offset(at, r * word)), numbers.lanes)
                for j in range(vectors):
                    tile[r * vectors + j] = numbers.multiply_add(f, one, given[j], tile[r * vectors + j])
            return [f.offset(at, step * pixel), f.offset(grads, pixel), *tile]

        return f.loop(0, width, 1, [at, grads, *tile], output)[2:]

    tile = f.loop(0, count, 1, [f.load(numbers.vector, place) for place in places], row)
    for place, value in zip(places, tile):
        f.store(value, place)
    f.ret()
    return f
