"""Planning convolutions: forward, gradient of the input, gradient of the weights, in one to three dimensions.

Each is a matrix product over (channels, taps). A first step pads the image and splits it by stride (`image.py`); from then on
the product reads it in place (`implicit.py`). Convolutions that look at single pixels are plain matrix products.
"""

import functools
from dataclasses import dataclass, replace

import numpy as np

from ..llvm import pool
from ..llvm.features import host
from . import image, implicit
from .contraction import CHUNK, ELEMENTS, NO_EPILOGUE, Contraction, Epilogue, Step, numbers
from .image import Geometry, SLACK
from .matmul import Matmul, blocked_plan, plan_matmul, register_tile

_UNSPLIT_DEPTH = 1536  # words along k up to which sums stay in registers
_BLOCK_DEPTH = 768


@dataclass(frozen=True)
class Convolution:
    """A convolution y[N, O, *out] of x[N, I, *size] with weights[O, I / groups, *kernel], zeros around the input.

    The strides `x` and `y` are in elements, one a dimension of the tensor; () means contiguous. Weights are contiguous.
    `pad` counts zeros before and after each dimension alike.
    """

    batch: int
    in_channels: int
    out_channels: int
    size: tuple
    kernel: tuple
    stride: tuple
    pad: tuple
    dilation: tuple
    groups: int = 1
    dtype: str = "float32"
    x: tuple = ()
    y: tuple = ()

    @property
    def out(self):
        """The spatial size of the output."""
        sizes = zip(self.size, self.kernel, self.stride, self.pad, self.dilation)
        return tuple((size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for size, kernel, stride, pad, dilation in sizes)


def bias_epilogue(dtype, operand="bias"):
    """Adds a contiguous vector of `dtype`, one number an output channel."""
    from ..llvm.types import ptr
    element = ELEMENTS[dtype]

    def emit(b, sums, batch, row, column, mask, slots):
        base = b.cast("inttoptr", slots[0], ptr)
        bias = b.convert(b.load(element, b.offset(base, row, element)), sums.type.element)
        return b.add(sums, b.splat(bias, sums.type.lanes))

    return Epilogue(f"channel bias {dtype}", (("pointer", operand, 0),), emit)


def plan_conv(convolution, epilogue=NO_EPILOGUE):
    """Plans the forward convolution; operands are named "x", "weight" and "y", and the epilogue's as its slots say.

    Raises ValueError for dtypes without products, channels that groups do not divide, and empty outputs.

    Example:
        >>> plan = plan_conv(Convolution(1, 3, 8, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1)))
        >>> [step.extent for step in plan.steps][0]
        3
    """
    return _plan("forward", _three_dimensional(convolution), epilogue, pool.get_num_threads())


def plan_conv_input_grad(convolution):
    """Plans the gradient of the input (which is also the transposed convolution): "y" and "weight" in, "x" out."""
    return _plan("input", _three_dimensional(convolution), NO_EPILOGUE, pool.get_num_threads())


def plan_conv_weight_grad(convolution):
    """Plans the gradient of the weights: "x" and "y" (the gradient of the output) in, "weight" out."""
    return _plan("weight", _three_dimensional(convolution), NO_EPILOGUE, pool.get_num_threads())


def _three_dimensional(c):
    """The same convolution with three spatial dimensions and explicit strides. Raises ValueError when it is malformed."""
    if c.in_channels % c.groups or c.out_channels % c.groups:
        raise ValueError(f"{c.groups} groups do not divide {c.in_channels} and {c.out_channels} channels")
    if min(c.out) < 1:
        raise ValueError(f"the kernel {c.kernel} does not fit into the padded input: the output would be {c.out}")
    missing = 3 - len(c.size)

    def strides(given, channels, size):
        if not given:
            given = [1]
            for extent in reversed((channels, *size)):
                given.insert(0, given[0] * extent)
        return (*given[:2], *[0] * missing, *given[2:])

    one, none = (1,) * missing, (0,) * missing
    return replace(c, size=one + c.size, kernel=one + c.kernel, stride=one + c.stride, pad=none + c.pad,
                   dilation=one + c.dilation, x=strides(c.x, c.in_channels, c.size), y=strides(c.y, c.out_channels, c.out))


@functools.lru_cache(maxsize=4096)
def _plan(direction, c, epilogue, threads):
    if not c.batch:
        return Contraction((), {})
    # small images go through packed weights, which all of them share
    if _is_pixelwise(c) and (direction == "weight" or np.prod(c.size) >= 256 or c.batch == 1):
        return _pixelwise_plan(direction, c, epilogue)
    return {"forward": _forward_plan, "input": _input_plan, "weight": _weight_plan}[direction](c, epilogue, threads)


def _contiguous_from(strides, size):
    """Whether the spatial dimensions of these strides lie without gaps."""
    wanted = 1
    for stride, extent in zip(reversed(strides[2:]), reversed(size)):
        if extent > 1 and stride != wanted:
            return False
        wanted *= extent
    return True


def _side_by_side(geometry, batch):
    """Whether numbering all images in one run wastes fewer lanes than giving each image its own vectors."""
    lanes = host().lanes(4)
    return batch > 1 and geometry.phase_elements * batch < -(-geometry.count(geometry.out) // lanes) * lanes * batch


def _is_pixelwise(c):
    """Whether every output looks at one input in the same place, all in memory order."""
    return (set(c.kernel) == {1} and set(c.stride) == {1} and set(c.pad) == {0} and c.groups == 1
            and _contiguous_from(c.x, c.size) and _contiguous_from(c.y, c.out))


def _pixelwise_plan(direction, c, epilogue):
    pixels = int(np.prod(c.size))
    x, y = (c.x[0], c.x[1], 1), (c.y[0], c.y[1], 1)
    if direction == "forward":
        names = {"a": "weight", "b": "x", "c": "y"}
        problem = Matmul((c.batch,), c.out_channels, pixels, c.in_channels, (0, c.in_channels, 1), x, y, c.dtype)
    elif direction == "input":
        names = {"a": "weight", "b": "y", "c": "x"}
        problem = Matmul((c.batch,), c.in_channels, pixels, c.out_channels, (0, 1, c.in_channels), y, x, c.dtype)
    else:
        names = {"a": "y", "b": "x", "c": "weight"}
        problem = Matmul((), c.out_channels, c.in_channels, pixels, y[1:], (1, x[1]), (c.in_channels, 1), c.dtype,
                         sums=(c.batch, y[0], x[0]))
    return _renamed(plan_matmul(problem, epilogue), names)


def _renamed(plan, names):
    """The plan with its operands renamed."""
    def slot(slot):
        return (slot[0], names.get(slot[1], slot[1]), slot[2]) if slot[0] == "pointer" else slot

    steps = tuple(replace(step, slots=tuple(map(slot, step.slots))) for step in plan.steps)
    return replace(plan, steps=steps)


def _taps(c):
    """The position of each tap in the padded input, per dimension."""
    return tuple(tuple(k * d for k in range(kernel)) for kernel, d in zip(c.kernel, c.dilation))


def _weight_offsets(outer, outer_stride, inner_offsets, itemsize):
    """Byte offsets in the weights of k = (channel, tap)."""
    return (np.add.outer(np.arange(outer) * outer_stride, inner_offsets) * itemsize).reshape(-1).astype(np.int64)


def _forward_plan(c, epilogue, threads):
    geometry = Geometry(c.size, c.out, c.pad, c.stride, _taps(c))
    builder = _Builder(c, threads)
    builder.add_image("x", geometry, c.x, c.in_channels, side_by_side=_side_by_side(geometry, c.batch))
    group_out, group_in = c.out_channels // c.groups, c.in_channels // c.groups
    builder.add_product(geometry, geometry.taps, c.out, "y", c.y, 0, group_out, group_in, None,
                        group_in * int(np.prod(c.kernel)), epilogue)
    return builder.plan()


def _input_plan(c, epilogue, threads):
    """Every phase of x (its positions modulo the stride) sums its own taps of y, as a convolution of stride one."""
    phases = [_input_phases(*dim) for dim in zip(c.size, c.kernel, c.stride, c.pad, c.dilation)]
    # one padded image serves all phases: the widest reach on either side
    pad = tuple(max(e - first for _, first, _, taps in dim for _, e in taps or [(0, 0)]) for dim in phases)
    reach = [[(start, count, [(k, first + p - e) for k, e in taps]) for start, first, count, taps in dim]
             for dim, p in zip(phases, pad)]
    most = tuple(max(count for _, count, _ in dim) for dim in reach)
    every = tuple(tuple({at for _, _, taps in dim for _, at in taps} | {0}) for dim in reach)
    geometry = Geometry(c.out, most, pad, (1, 1, 1), every)
    builder = _Builder(c, threads)
    builder.add_image("y", geometry, c.y, c.out_channels, side_by_side=_side_by_side(geometry, c.batch))
    kernel = int(np.prod(c.kernel))
    group_out, group_in = c.out_channels // c.groups, c.in_channels // c.groups
    for start_d, count_d, taps_d in reach[0]:
        for start_h, count_h, taps_h in reach[1]:
            for start_w, count_w, taps_w in reach[2]:
                out = (count_d, count_h, count_w)
                if 0 in out:
                    continue
                used = taps_d, taps_h, taps_w
                at = [[at for _, at in taps] for taps in used]
                index = np.array([(d * c.kernel[1] + h) * c.kernel[2] + w
                                  for d, _ in taps_d for h, _ in taps_h for w, _ in taps_w], np.int64)
                offsets = _weight_offsets(group_out, group_in * kernel, index, builder.size)
                first = sum(start * stride for start, stride in zip((start_d, start_h, start_w), c.x[2:]))
                strides = (*c.x[:2], *(stride * step for stride, step in zip(c.x[2:], c.stride)))
                builder.add_product(geometry, at, out, "x", strides, first, group_in, group_out, offsets, kernel, epilogue,
                                    group_weights=group_out * group_in * kernel)
    return builder.plan()


def _input_phases(size, kernel, stride, pad, dilation):
    """Per phase of one dimension of x: (first position, its index in the strided grid, how many, [(tap, reach)]).

    Position i of x, at i + pad = stride * j + phase in the padded input, sums y[j - reach] over the taps of its phase.
    """
    phases = []
    for phase in range(stride):
        first = max(0, -(-(pad - phase) // stride))
        start = stride * first + phase - pad
        count = max(0, -(-(size - start) // stride))
        taps = [(k, k * dilation // stride) for k in range(kernel) if k * dilation % stride == phase]
        phases.append((start, first, count, taps))
    return phases


def _weight_plan(c, epilogue, threads):
    """A product over output numbers: rows of y (on the image's numbering, zero where thrown away) times shifted images of x."""
    geometry = Geometry(c.size, c.out, c.pad, c.stride, _taps(c))
    kernel = int(np.prod(c.kernel))
    builder = _Builder(c, threads)
    builder.add_image("x", geometry, c.x, c.in_channels)
    # y laid out with the pitch of x's phase images: the same numbering for both
    rows = geometry.rows
    spread = Geometry(c.out, c.out, (0, 0, 0), (1, 1, 1), tuple((row - out,) for row, out in zip(rows, c.out)))
    builder.add_image("y", spread, c.y, c.out_channels)
    word = builder.word
    group_out, group_in = c.out_channels // c.groups, c.in_channels // c.groups
    offsets = np.add.outer(np.arange(group_in) * geometry.plane_elements, geometry.tap_offsets(geometry.taps))
    plane_x, plane_y = geometry.plane_elements, spread.plane_elements
    problem = Matmul(
        (c.groups,), group_out, group_in * kernel, geometry.count(c.out),
        (group_out * plane_y, plane_y, 1), (group_in * plane_x, 1, 0), (group_out * group_in * kernel, group_in * kernel, 1),
        builder.image_dtype, c.dtype, sums=(c.batch, c.out_channels * plane_y, c.in_channels * plane_x))
    product = blocked_plan(problem, numbers(builder.image_dtype), epilogue, threads,
                           np.ascontiguousarray(offsets.reshape(-1) * word.bytes))
    images = {"a": "y image", "b": "x image"}

    def slot(slot):
        if slot[0] != "pointer":
            return slot
        return ("temp", images[slot[1]], 0) if slot[1] in images else ("pointer", "weight", slot[2])

    builder.steps += [replace(step, slots=tuple(map(slot, step.slots))) for step in product.steps]
    builder.temporaries.update(product.temporaries)
    builder.keep += product.keep
    return builder.plan()


def _side_by_side_offsets(offsets, pitch, batch, stride):
    """The output offsets of a whole batch whose images are `pitch` numbers apart."""
    table = np.full((batch, pitch), -1, np.int64)
    kept = offsets >= 0
    table[:, :len(offsets)] = np.where(kept, offsets + np.arange(batch)[:, None] * stride, -1)
    return table.reshape(-1)[:(batch - 1) * pitch + len(offsets)]


class _Builder:
    """Collects the steps of a convolution."""

    def __init__(self, c, threads):
        self.c, self.threads = c, threads
        # images hold the type that is computed in, so that padding converts once
        kind = numbers(c.dtype)
        self.image_dtype = "float32" if kind.accumulator.bits == 32 and kind.accumulator.is_float else \
            {64: {True: "float64", False: "int64"}, 32: {False: "int32"}}[kind.accumulator.bits][kind.accumulator.is_float]
        self.word = ELEMENTS[self.image_dtype]
        self.element = ELEMENTS[c.dtype]
        self.size = self.element.bytes
        self.steps, self.temporaries, self.keep = [], {}, []

    def plan(self):
        return Contraction(tuple(self.steps), self.temporaries, tuple(self.keep))

    def table(self, numbers_):
        """The address of a table that lives as long as the plan."""
        array = np.ascontiguousarray(numbers_, np.int64)
        self.keep.append(array)
        return array.ctypes.data

    def add_image(self, operand, geometry, strides, channels, side_by_side=False):
        """The step that writes the padded, split images of an operand into the temporary "<operand> image"."""
        contiguous = strides[4] == 1 or geometry.size[2] == 1
        step = geometry.step[2] if contiguous and geometry.step[2] <= 2 else 0
        kernel = image.pad_kernel(self.element, self.word, step)
        self.layout = image.layout(geometry, self.c.batch, channels, side_by_side)
        self.side_by_side = side_by_side
        slots = image.pad_slots(geometry, self.layout, strides, channels, self.size, self.word.bytes)
        name = f"{operand} image"
        sources = {"x": ("pointer", operand, 0), "image": ("temp", name, 0)}
        self.temporaries[name] = (self.layout.total + 4 * geometry.rows[2]) * self.word.bytes + SLACK
        units = self.c.batch * channels
        grain = max(1, min(16384 // max(geometry.phase_elements, 1), units // (4 * self.threads)))
        self.add(kernel, units, grain, image.PAD_SLOTS, slots, sources)

    def add(self, kernel, extent, grain, names, slots, sources, extra=()):
        written = tuple(sources[name] if name in sources else ("const", slots[name]) for name in names)
        self.steps.append(Step(kernel, extent, grain, written + extra))

    def add_product(self, geometry, taps, out, operand, strides, first, rows, depth_channels, weight_offsets, row_weights,
                    epilogue, group_weights=None):
        """The steps that pack weights and multiply: `rows` outputs a group from `depth_channels` x taps of the image.

        `strides` and `first` (elements) place the outputs in the operand; `weight_offsets` (bytes) locate each k in the
        weights, whose rows are `row_weights` elements apart (None: in order).
        """
        c, kind = self.c, numbers(self.image_dtype)
        at = geometry.tap_offsets(taps, self.layout.phase)
        image_offsets = np.add.outer(np.arange(depth_channels) * self.layout.channel, at).reshape(-1) * kind.word.bytes
        depth = len(image_offsets)
        out_offsets = geometry.output_offsets(out, strides[2:])
        images = c.batch
        if self.side_by_side:
            out_offsets = _side_by_side_offsets(out_offsets, geometry.phase_elements, c.batch, strides[0])
            images = 1
        count = len(out_offsets)
        tile_rows, vectors = register_tile(rows, count, kind)
        width = vectors * kind.lanes
        tiles, panels_per_image = -(-rows // tile_rows), -(-count // width)
        panels = panels_per_image * images
        tile_bytes = -(-depth // CHUNK) * CHUNK * tile_rows * kind.word.bytes + 64
        packed = f"weights {len(self.steps)}"
        self.temporaries[packed] = c.groups * tiles * tile_bytes
        element_numbers = replace(numbers(self.image_dtype), element=self.element, name=c.dtype)
        slots = {"rows": rows, "depth": depth, "row_stride": row_weights * self.size, "group_tiles": tiles,
                 "group_stride": (group_weights or rows * row_weights) * self.size, "tile_bytes": tile_bytes,
                 "offsets": 0 if weight_offsets is None else self.table(weight_offsets)}
        sources = {"weights": ("pointer", "weight", 0), "packed": ("temp", packed, 0)}
        grain = max(1, 8192 // max(depth * tile_rows, 1))
        kernel = implicit.weight_kernel(element_numbers, tile_rows, weight_offsets is None)
        self.add(kernel, c.groups * tiles, grain, implicit.WEIGHT_SLOTS, slots, sources)

        block_depth = depth if depth <= _UNSPLIT_DEPTH else -(-depth // -(-depth // _BLOCK_DEPTH) // CHUNK) * CHUNK
        block_depth = max(CHUNK, block_depth)
        split = block_depth < depth
        block_tiles, block_panels = self.blocks(tile_rows, width, tiles, panels, block_depth, split, kind)
        partial = tile_rows * width * kind.accumulator.bytes
        scratch = -(-partial * (block_tiles * block_panels if split else 1) // 4096) * 4096
        slots.update(
            k_offsets=self.table(image_offsets), out_offsets=self.table(out_offsets),
            numbers=count, block_tiles=block_tiles, row_blocks=-(-tiles // block_tiles), block_panels=block_panels,
            panel_blocks=-(-panels // block_panels), block_depth=block_depth, panels_per_image=panels_per_image, panels=panels,
            groups=c.groups, image_bytes=self.layout.batch * kind.word.bytes,
            image_group_bytes=depth_channels * self.layout.channel * kind.word.bytes, out_batch=strides[0] * self.size,
            out_group=rows * strides[1] * self.size, out_row=strides[1] * self.size, scratch_bytes=scratch,
            partial_bytes=partial if split else 0)
        self.temporaries["scratch"] = max(self.temporaries.get("scratch", 0), scratch * self.threads)
        source = "x image" if operand == "y" else "y image"
        sources = {"weights": ("temp", packed, 0), "image": ("temp", source, 0), "scratch": ("temp", "scratch", 0),
                   "out": ("pointer", operand, first * self.size)}
        # only AVX-512 compresses a vector in one instruction
        packed_out = host().width == 512 and _contiguous_from(strides, out) and not self.side_by_side
        kernel = implicit.conv_kernel(kind, self.element, tile_rows, vectors, packed_out, epilogue)
        units = c.groups * slots["row_blocks"] * slots["panel_blocks"]
        grain = 1 if c.groups == 1 else max(1, units // (8 * self.threads))
        self.add(kernel, units, grain, implicit.SLOTS, slots, sources, epilogue.slots)

    def blocks(self, tile_rows, width, tiles, panels, block_depth, split, kind):
        """Tiles and panels of a block: its weights fit half the second cache, and there are blocks for every thread."""
        weight_bytes = tile_rows * block_depth * kind.word.bytes
        block_tiles = max(1, min(tiles, (448 << 10) // weight_bytes))
        block_tiles = -(-tiles // -(-tiles // block_tiles))
        row_blocks = -(-tiles // block_tiles)
        block_panels = panels
        if split:
            block_panels = max(1, min(panels, (384 << 10) // (block_tiles * tile_rows * width * kind.accumulator.bytes)))
        wanted = 1 if self.threads == 1 else 6 * self.threads
        block_panels = min(block_panels, max(1, -(-panels * row_blocks * self.c.groups // wanted)))
        return block_tiles, block_panels
