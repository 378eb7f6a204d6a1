"""Gradients of a convolution's weights in AMX tiles, from channels-last images and gradients.

The sum runs over outputs, which are numbered row after row, including ends of rows and zeros between images.  A word
holds two outputs that are half of the total count apart, so one copy of the image in such words serves every tap: the
operand of a tap for output q is at q plus the tap's distance, and a tile of 16 outputs by 16 channels is read directly.
Gradients of outputs are transposed, 16 outputs by 16 channels at a time; they are zero for numbers that are no outputs.
"""

from ..llvm import jit, tiles
from ..llvm.builder import Module
from ..llvm.types import f32, i16, i32, i64, vector
from . import pack
from .units import Units

STEPS = 16           # of 16 words along the outputs, whose transposed gradients stay in the L1 cache
PANEL = 2 * tiles.ROWS  # output channels
PAIR_BYTES = 4 * tiles.TILE_BYTES  # sums of 32 channels of outputs by two tiles of columns
# the images' planes hold 16 channels each; or there is one, and a row of pixels is copied unchanged
ROW_SLOTS = ("x", "image", "images", "x_batch", "x_height", "x_pixel", "height", "step", "pad", "before",
             "pixels", "after", "channels", "planes", "rows", "image_rows", "first", "half", "plane_bytes",
             "phase_bytes", "row_bytes", "tail")
# "columns" is a table of the byte offsets in x of each tile of columns
PRODUCT_SLOTS = ("x", "y", "sums", "scratch", "columns", "steps", "chunk", "panels", "pairs", "unit_panels",
                 "unit_pairs", "panel_units", "pair_units", "x_group", "x_step", "x_row", "y_plane", "further",
                 "scratch_bytes")
# "bases" is a table of the byte offset in sums of each output channel, "places" one of each element of a row, or of
# each tile of columns
FINISH_SLOTS = ("sums", "out", "bases", "places", "count", "planes", "channels", "outputs")


def row_kernel(run, planes):
    """Return the address of the kernel that writes a row of words of an image per work unit, `planes` planes at once.
    `run`: the contiguous elements of a row of pixels are copied, in place of 16 channels of each pixel."""
    return jit.build(f"pixel gradient rows {run} {planes}", lambda: _row_text(run, planes), ["rows"])["rows"]


def _row_text(run, planes):
    kernel = Units("rows", ROW_SLOTS, ("x", "image"))
    f, s = kernel.f, kernel.s
    halves, words = vector(i16, tiles.WORDS), vector(i32, tiles.WORDS)

    def source(number, phase):
        """Return (address of a row of the image, True if the row exists)."""
        image = f.div(number, s.image_rows)
        height = f.sub(f.add(f.mul(f.sub(number, f.mul(image, s.image_rows)), s.step), phase), s.pad)
        there = f.and_(f.compare("<", height, s.height, signed=False), f.compare("<", image, s.images))
        return f.offset(s.x, f.add(f.mul(image, s.x_batch), f.mul(height, s.x_height))), there

    def unit(unit):
        phase = f.div(unit, s.rows)
        row = f.sub(unit, f.mul(phase, s.rows))
        number = f.add(s.first, row)
        sources = source(number, phase), source(f.add(number, s.half), phase)
        target = f.offset(s.image, f.add(f.mul(phase, s.phase_bytes), f.mul(row, s.row_bytes)))
        last = f.compare("==", f.add(row, 1), s.rows)

        def some(k, _):
            at = f.offset(target, f.mul(k, s.plane_bytes))
            starts = [f.offset(start, f.mul(k, tiles.WORDS * 2)) for start, _ in sources]
            left = f.sub(s.channels, f.mul(k, tiles.WORDS))
            masks = [[f.lane_mask(f.select(inside, f.sub(left, j * tiles.WORDS), 0), tiles.WORDS)
                      for _, inside in sources] for j in range(planes)]
            x_pixel, ends = s.x_pixel, [f.mul(s.plane_bytes, j) for j in range(planes)]

            def pixel(p, places):
                to, *starts = places
                for j, end in enumerate(ends):
                    there = [f.lane_mask(f.select(inside, f.sub(left, f.mul(p, tiles.WORDS)), 0), tiles.WORDS)
                             for _, inside in sources] if run else masks[j]
                    first, second = (f.load(halves, f.offset(start, j * tiles.WORDS * 2), mask=mask)
                                     for start, mask in zip(starts, there))
                    f.store(f.or_(f.cast("zext", first, words), f.shl(f.cast("zext", second, words), 16)),
                            f.offset(to, end), align=4)
                return [f.offset(to, tiles.ROW_BYTES), *(f.offset(start, x_pixel) for start in starts)]

            for end in ends:
                f.fill_bytes(f.offset(at, end), 0, s.before)
            f.loop(0, s.pixels, 1, [f.offset(at, s.before), *starts], pixel)
            for end in ends:
                f.fill_bytes(f.offset(at, f.add(end, f.sub(s.row_bytes, s.after))), 0,
                             f.add(s.after, f.select(last, s.tail, 0)))

        f.loop(0, s.planes, planes, [], some)

    return kernel.text(unit)


def product_kernel():
    """Return the address of the kernel that adds the contribution of some rows to the sums of some panels, of 32 output
    channels, by some pairs of tiles of columns."""
    return jit.build("pixel gradient products", _product_text, ["products"])["products"]


def _product_text():
    kernel = Units("products", PRODUCT_SLOTS, ("x", "y", "sums", "scratch", "columns"), Module())
    f, s = kernel.f, kernel.s
    registers, scratch = tiles.tiles_of(f), kernel.scratch()
    words = vector(i32, tiles.WORDS)

    def unit(unit):
        rest = f.div(unit, s.pair_units)
        first_pair = f.mul(f.sub(unit, f.mul(rest, s.pair_units)), s.unit_pairs)
        last_pair = f.minimum(s.pairs, f.add(first_pair, s.unit_pairs))
        group = f.div(rest, s.panel_units)
        first = f.mul(f.sub(rest, f.mul(group, s.panel_units)), s.unit_panels)
        x = f.offset(s.x, f.mul(group, s.x_group))

        def chunk(step, _):
            count = f.minimum(f.sub(s.steps, step), s.chunk)

            def panel(k, _):
                number = f.add(f.mul(group, s.panels), k)
                turn(f.offset(s.y, f.add(f.mul(f.mul(number, 2), s.y_plane), f.mul(step, tiles.TILE_BYTES))), count)
                sums = f.offset(s.sums, f.mul(f.mul(number, s.pairs), PAIR_BYTES))
                f.loop(first_pair, last_pair, 1, [], lambda pair, _: multiply(
                    f.offset(x, f.mul(step, s.x_step)), pair, f.offset(sums, f.mul(pair, PAIR_BYTES)), count,
                    f.or_(f.compare("!=", s.further, 0), f.compare("!=", step, 0))))

            f.loop(first, f.minimum(s.panels, f.add(first, s.unit_panels)), 1, [], panel)

        f.loop(0, s.steps, s.chunk, [], chunk)

    def turn(y, count):
        """Write tiles of rows: a step's two planes of gradients, transposed."""
        def one(k, _):
            for half in range(2):
                at = f.offset(f.offset(y, f.mul(s.y_plane, half)), f.mul(k, tiles.TILE_BYTES))
                to = f.offset(scratch, f.add(f.mul(k, 2 * tiles.TILE_BYTES), half * tiles.TILE_BYTES))
                rows = [f.load(words, f.offset(at, r * tiles.ROW_BYTES)) for r in range(tiles.ROWS)]
                for r, row in enumerate(pack.transpose(f, rows)):
                    f.store(row, f.offset(to, r * tiles.ROW_BYTES))
        f.loop(0, count, 1, [], one)

    def multiply(x, pair, sums, count, further):
        at = f.offset(s.columns, f.mul(pair, 16))
        columns = [f.offset(x, f.load(i64, f.offset(at, 8 * k))) for k in range(2)]
        squares = [(k, f.offset(sums, (k // 2) * 2 * tiles.TILE_BYTES + (k % 2) * tiles.ROW_BYTES)) for k in range(4)]

        def go_on():
            for k, place in squares:
                registers.load(k, place, 2 * tiles.ROW_BYTES)

        def begin():
            for k, _ in squares:
                registers.zero(k)

        f.when(further, go_on, begin)
        x_row, x_step = s.x_row, s.x_step

        def step(_, places):
            rows, left, right = places
            registers.load(6, left, x_row)
            registers.load(4, rows, tiles.ROW_BYTES)
            registers.multiply_add("bf16ps", 0, 4, 6)
            registers.load(7, right, x_row)
            registers.multiply_add("bf16ps", 1, 4, 7)
            registers.load(5, f.offset(rows, tiles.TILE_BYTES), tiles.ROW_BYTES)
            registers.multiply_add("bf16ps", 2, 5, 6)
            registers.multiply_add("bf16ps", 3, 5, 7)
            return [f.offset(rows, 2 * tiles.TILE_BYTES), f.offset(left, x_step), f.offset(right, x_step)]

        f.loop(0, count, 1, [scratch, *columns], step)
        for k, place in squares:
            registers.store(k, place, 2 * tiles.ROW_BYTES)

    return kernel.text(unit, tiles=True)


def finish_kernel(element, known):
    """Return the address of the kernel that writes the gradients of the weights of 32 output channels per work unit.
    `known`: the number of taps if vectors of input channels are interleaved in registers; 0 to gather each element."""
    return jit.build(f"pixel gradient ends {element} {known}", lambda: _finish_text(element, known), ["ends"])["ends"]


def _finish_text(element, known):
    kernel = Units("ends", FINISH_SLOTS, ("sums", "out", "bases", "places"))
    f, s = kernel.f, kernel.s
    lanes = tiles.WORDS
    floats = vector(f32, lanes)

    def unit(panel):
        first = f.mul(panel, PANEL)
        last = f.minimum(s.outputs, f.add(first, PANEL))

        def each(body):
            """Loop `body(address of its sums, target address)` over the output channels of a panel."""
            f.loop(first, last, 1, [], lambda channel, _: body(
                f.offset(s.sums, f.load(i64, f.offset(s.bases, channel, i64))),
                f.offset(s.out, f.mul(channel, s.count), element)))

        def fetched(sums, out):
            def some(at, _):
                mask = f.lane_mask(f.sub(s.count, at), lanes)
                places = f.load(vector(i64, lanes), f.offset(s.places, at, i64), mask=mask)
                f.store(f.convert(f.gather(floats, f.offset(sums, places), mask), element), f.offset(out, at, element),
                        mask=mask)

            f.loop(0, s.count, lanes, [], some)

        def plane(number, _):
            """Sums of 16 input channels, of all panel's channels before those of the next ones: each tile is a page."""
            start = f.mul(number, known)
            tiles_at = [f.load(i64, f.offset(s.places, f.add(start, tap), i64)) for tap in range(known)]
            left = f.mul(f.sub(s.channels, f.mul(number, lanes)), known)

            def mixed(sums, out):
                values = [f.load(floats, f.offset(sums, at)) for at in tiles_at]
                target = f.offset(out, f.mul(start, lanes), element)
                for part in range(0, known * lanes, lanes):
                    value = pack.collected(f, values, [at % known * lanes + at // known
                                                       for at in range(part, part + lanes)])
                    f.store(f.convert(value, element), f.offset(target, part, element),
                            mask=f.lane_mask(f.sub(left, part), lanes))

            each(mixed)

        if known:
            f.loop(0, s.planes, 1, [], plane)
        else:
            each(fetched)

    return kernel.text(unit)
