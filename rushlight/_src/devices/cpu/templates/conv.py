"""Plan convolutions: forward, gradient of the input, gradient of the weights, in one to three dimensions.

Each is a matmul over (channels, taps) whose large operand is never materialized. Of four forms the one with the least
estimated time is planned; docs/programs.md compares them. Convolutions with 1x1 kernels over large images are plain
matmuls.
"""

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from ..llvm import pool
from .channels_plan import ChannelPlan
from .channels_weight import ChannelWeights
from .contraction import ELEMENTS, NO_EPILOGUE, Contraction, numbers, tile_numbers
from .depthwise_plan import Depthwise, DepthwiseLast
from .elements import Prologue
from .image import Geometry, is_contiguous, spacing
from .implicit_plan import Builder, Product, equidistant, wide_dtype
from .implicit_tiled_plan import TiledBuilder
from .matmul import Matmul, beside, blocked_plan, dot_plan, extent, packings, plan_matmul, rounding_step
from .pixels_blocks import together
from .pixels_gradient_plan import PixelGradient
from .pixels_sums import PixelSums
from .pixels_plan import PixelPlan, PixelProduct, Weights
from .portions import renamed
from .tune import pick, planned


@dataclass(frozen=True)
class Convolution:
    """A convolution y[N, O, *out] of x[N, I, *size] with weights[O, I / groups, *kernel], zeros around the input.

    The strides `x` and `y` are in elements, one per dimension of the tensor; () means contiguous, as weights are unless
    `w` gives their strides.  `b_dtype` and `out_dtype` are those of weights and results if they differ: 8-bit integers
    are summed exactly in int32. `pad` counts zeros before and after each dimension alike; around 8-bit integers
    `border` may replace zero. `x_parts` and `y_parts`: if a Prologue computes x or y, the strides of each of its parts.
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
    x_parts: tuple = ()
    y_parts: tuple = ()
    w: tuple = ()
    b_dtype: str = ""
    out_dtype: str = ""
    border: int = 0

    @property
    def out(self):
        """The spatial size of the output."""
        sizes = zip(self.size, self.kernel, self.stride, self.pad, self.dilation)
        return tuple((size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
                     for size, kernel, stride, pad, dilation in sizes)


def plan_conv(convolution, epilogue=NO_EPILOGUE, x_from=None):
    """Plan the forward convolution; operands are named "x", "weight" and "y", and the epilogue's as its slots say.
    `x_from` is the Prologue that computes x, if ``packs`` allows one, from parts that are named "x0", "x1" and so on.

    Raises ValueError for dtypes without a matmul kernel, channels that groups do not divide, and empty outputs.

    Example:
        >>> plan = plan_conv(Convolution(1, 3, 8, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1)))
        >>> len(plan.steps)  # pack the weights, pad, multiply
        3
    """
    return _planned("forward", convolution, epilogue, x_from)


def plan_conv_input_grad(convolution, epilogue=NO_EPILOGUE, y_from=None):
    """Plan the gradient of the input (which is also the transposed convolution): "y" and "weight" in, "x" out."""
    return _planned("input", convolution, epilogue, None, y_from)


def plan_conv_weight_grad(convolution, epilogue=NO_EPILOGUE, y_from=None, x_from=None):
    """Plan the gradient of the weights: "x" and "y" (the gradient of the output) in, "weight" out."""
    return _planned("weight", convolution, epilogue, x_from, y_from)


def plan_pixels(convolution, epilogue=NO_EPILOGUE):
    """Plan the forward channels-last convolution: each pixel is a row of a matmul.  Operands are those of plan_conv;
    per-channel operands of an epilogue go along columns, as after a matmul.

    Raises ValueError if channels are not contiguous, and as plan_conv does.

    Example:
        >>> last = (81 * 16, 1, 9 * 16, 16)
        >>> plan = plan_pixels(Convolution(2, 16, 16, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1), dtype="uint8", x=last, y=last, b_dtype="int8", out_dtype="int32"))
        >>> len(plan.steps)  # pack the weights, pad, multiply
        3
    """
    c = _three_dimensional(convolution)
    return planned(_pixels_plan, (c, epilogue, pool.get_num_threads(), _forward_pixels), Operands(c, epilogue))


def plan_pixels_input_grad(convolution, epilogue=NO_EPILOGUE):
    """Plan the gradient of the input in the same way: "y" and "weight" in, "x" out."""
    c = _three_dimensional(convolution)
    return planned(_pixels_plan, (c, epilogue, pool.get_num_threads(), _input_pixels), Operands(c, epilogue))


def _pixels_plan(c, epilogue, threads, direction):
    if not c.batch:
        return Contraction((), {})
    # an epilogue of the input's gradient knows its channels
    found = direction(_patches(c) if direction is _forward_pixels or not epilogue.key else c, threads)
    if not found.suits:
        raise ValueError(f"channels of {c} are not contiguous; plan_conv takes images of any strides")
    return found.plan(epilogue)


def _forward_pixels(c, threads):
    """Return the plan of a channels-last convolution: PixelPlan, or DepthwiseLast for groups of one channel."""
    c, taps = _run_on(c), tuple(tuple(enumerate(dim)) for dim in _taps(c))
    geometry = Geometry(c.size, c.out, c.pad, c.stride, _taps(c))
    return _pixel_plan(c, threads, geometry, ("x", c.x), [PixelProduct(taps, c.out, "y", c.y, 0)])


def _pixel_plan(c, threads, geometry, image, products):
    """Return the plan of a channels-last convolution: without matmuls if groups are single channels, several groups at
    once if they are narrow."""
    alone = DepthwiseLast(c, threads, geometry, image, products)
    if alone.suits and pick("straight from memory", (True, False)):
        return alone
    count = together(c)
    w = c.w
    if count > 1:
        row = c.in_channels // c.groups * count
        w = (math.prod(c.kernel) * row, 1, c.kernel[1] * c.kernel[2] * row, c.kernel[2] * row, row)
    groups = c.groups // count
    group_out, group_in = c.out_channels // groups, c.in_channels // groups
    weights, channels = Weights(w[0], w[1], group_out * w[0], w[2:]), (group_in, group_out)
    if image[0] == "y":
        weights, channels = replace(weights, lane=w[1], k=w[0]), channels[::-1]
    return PixelPlan(c, count, threads, geometry, image, *channels, products, weights)


def _input_pixels(c, threads):
    """The same for the gradient of the input."""
    c = _run_on(c)
    geometry, phases = _reach(c)
    strides, products = _spread(c), []
    for phase in phases:
        starts, out, taps = zip(*phase)
        products.append(PixelProduct(taps, out, "x", strides,
                                     sum(start * stride for start, stride in zip(starts, c.x[2:]))))
    return _pixel_plan(c, threads, geometry, ("y", c.y), products)


def _patches(c):
    """The same convolution; if patches are adjacent and do not overlap, the pixels of a row of one are channels of a
    single pixel."""
    wide = c.kernel[2]
    if (wide == 1 or c.stride[2] != wide or c.pad[2] or c.dilation[2] > 1 or c.size[2] % wide or c.groups > 1
            or (c.x[1], c.x[4]) != (1, c.in_channels) or (c.w[1], c.w[4]) != (1, c.in_channels)):
        return c
    return replace(c, in_channels=c.in_channels * wide, size=(*c.size[:2], c.size[2] // wide),
                   kernel=(*c.kernel[:2], 1), stride=(*c.stride[:2], 1), x=(*c.x[:4], c.in_channels * wide))


def _run_on(c):
    """The same convolution; single pixels of several evenly spaced images are those of one."""
    if not _is_pixelwise(c):
        return c
    pixels, (x, y) = int(np.prod(c.size)), (spacing(strides, c.size) for strides in (c.x, c.y))
    if c.batch > 1 and (c.x[0], c.y[0]) != (x * pixels, y * pixels):
        return c
    x, y = ((pixels * c.batch * step, strides[1], 0, 0, step) for strides, step in ((c.x, x), (c.y, y)))
    return replace(c, batch=1, size=(1, 1, pixels * c.batch), x=x, y=y)


def _planned(direction, convolution, epilogue, x_from=None, y_from=None):
    c = _three_dimensional(convolution)
    return planned(_plan, (direction, c, epilogue, pool.get_num_threads(), x_from, y_from),
                   Operands(c, epilogue, x_from, y_from))


@dataclass(frozen=True)
class Operands:
    """The bytes that a convolution touches, by operand; called when they are needed."""

    convolution: Convolution
    epilogue: object
    x_from: Prologue | None = None
    y_from: Prologue | None = None

    def __call__(self):
        c, size = self.convolution, ELEMENTS[self.convolution.dtype].bytes
        found = {"x": extent((c.batch, c.in_channels, *c.size), c.x) * size,
                 "y": extent((c.batch, c.out_channels, *c.out), c.y) * size,
                 "weight": c.out_channels * c.in_channels // c.groups * int(np.prod(c.kernel)) * size}
        for name, given, shape in (("x", self.x_from, (c.batch, c.in_channels, *c.size)),
                                   ("y", self.y_from, (c.batch, c.out_channels, *c.out))):
            found.update({f"{name}{k}": extent(shape, part) * given.parts[k].itemsize
                          for k, part in enumerate(getattr(c, f"{name}_parts"))})
        return beside(self.epilogue, max(found.values())) | found


def _three_dimensional(c):
    """The same convolution with three spatial dimensions and explicit strides. Raises ValueError if it is
    malformed."""
    if c.in_channels % c.groups or c.out_channels % c.groups:
        raise ValueError(f"{c.groups} groups do not divide {c.in_channels} and {c.out_channels} channels")
    if min(c.out) < 1:
        raise ValueError(f"the kernel {c.kernel} does not fit into the padded input: the output would be {c.out}")
    missing = 3 - len(c.size)

    def strides(given, channels, size):
        if not given:
            given = [1]
            for count in reversed((channels, *size)):
                given.insert(0, given[0] * count)
        return (*given[:2], *[0] * missing, *given[2:])

    one, none = (1,) * missing, (0,) * missing
    w = strides(c.w, c.in_channels // c.groups, c.kernel)
    return replace(c, w=w, size=one + c.size, kernel=one + c.kernel, stride=one + c.stride, pad=none + c.pad,
                   dilation=one + c.dilation, x=strides(c.x, c.in_channels, c.size),
                   y=strides(c.y, c.out_channels, c.out),
                   x_parts=tuple(strides(part, c.in_channels, c.size) for part in c.x_parts),
                   y_parts=tuple(strides(part, c.out_channels, c.out) for part in c.y_parts))


def _plan(direction, c, epilogue, threads, x_from=None, y_from=None):
    if not c.batch:
        return Contraction((), {})
    if _is_product(direction, c):
        return _pixelwise_plan(direction, c, epilogue, x_from, y_from)
    c = _in_rows(c)
    if x_from or y_from:
        return _computed_plan(direction, c, epilogue, threads, x_from, y_from)
    return {"forward": _forward_plan, "input": _input_plan, "weight": _weight_plan}[direction](c, epilogue, threads)


def packs(direction, convolution):
    """Return how often each element of (x, y) is packed by a convolution ("forward"), or its gradient of the "input" or
    the "weight"; 0 if it is not.  Packed images may be computed by a Prologue.

    Example:
        >>> packs("forward", Convolution(1, 32, 32, (8, 8), (3, 3), (1, 1), (1, 1), (1, 1)))
        (1, 0)
    """
    c, threads = _three_dimensional(convolution), pool.get_num_threads()
    if not c.batch:
        return 0, 0
    if _is_product(direction, c):
        times = packings(_product_of(direction, c)[0])
        return {"forward": (times[1], 0), "input": (0, times[1]), "weight": times[::-1]}[direction]
    c = _in_rows(c)
    if Depthwise(c, threads, turned=direction == "input").suits:
        return 0, 0
    if direction == "weight":
        other = ChannelWeights(c, threads, Geometry(c.size, c.out, c.pad, c.stride, _taps(c)))
        return (1, 1) if other.suits and max(c.kernel) > 1 else (0, 0)
    geometry, image, products = (_forward_products if direction == "forward" else _input_products)(c)
    other = ChannelPlan(c, threads, geometry, *image[:2], image[2] // c.groups, products)
    found = other.suits and other.cycles() <= _builder(c, threads, geometry, image, products).cycles(products)
    return (int(found), 0) if direction == "forward" else (0, int(found))


def _computed_plan(direction, c, epilogue, threads, x_from, y_from):
    """The plan with blocked channels that computes its images while it packs them."""
    if direction == "weight":
        other = ChannelWeights(c, threads, Geometry(c.size, c.out, c.pad, c.stride, _taps(c)))
        images = (other.x, x_from, c.x_parts), (other.y, y_from, c.y_parts)
    else:
        geometry, image, products = (_forward_products if direction == "forward" else _input_products)(c)
        other = ChannelPlan(c, threads, geometry, *image[:2], image[2] // c.groups, products)
        images = ((other.image, x_from or y_from, c.x_parts or c.y_parts),)
    if not other.suits:
        raise ValueError(f"no template computes the images of {c} while it packs them; compute them before")
    for image, prologue, parts in images:
        if prologue is not None:
            image.compute(prologue, parts)
    return other.plan() if direction == "weight" else other.plan(epilogue)


def _is_pixelwise(c):
    """True if every output reads one input, at the same position, and pixels of each operand are evenly spaced."""
    return (set(c.kernel) == {1} and set(c.stride) == {1} and set(c.pad) == {0} and c.groups == 1
            and all(spacing(strides, c.size) is not None for strides in (c.x, *c.x_parts, c.y, *c.y_parts)))


def _is_product(direction, c):
    """True if a 1x1 convolution is a plain matmul."""
    written = {"forward": c.y, "input": c.x}.get(direction)
    return _is_pixelwise(c) and (written is None or spacing(written, c.size) == 1
                                 and (int(np.prod(c.size)) >= 256 or c.batch == 1))


def _in_rows(c):
    """The same convolution; small images of a 1x1 convolution go through packed weights, which all of them share, each
    as one row."""
    if not _is_pixelwise(c):
        return c
    x, y, *parts = (tuple((*strides[:2], 0, 0, spacing(strides, c.size)) for strides in given)
                    for given in ((c.x,), (c.y,), c.x_parts, c.y_parts))
    return replace(c, size=(1, 1, int(np.prod(c.size))), x=x[0], y=y[0], x_parts=parts[0], y_parts=parts[1])


def _pixelwise_plan(direction, c, epilogue, x_from, y_from):
    problem, names = _product_of(direction, c)
    given = {"x": x_from, "y": y_from}
    return renamed(plan_matmul(problem, epilogue, given.get(names["a"]), given.get(names["b"])), names)


def _product_of(direction, c):
    """Return (the Matmul, {its operand: the convolution's operand}) of a 1x1 convolution."""
    pixels = int(np.prod(c.size))
    (x,), (y,), x_parts, y_parts = (tuple((*strides[:2], spacing(strides, c.size)) for strides in given)
                                    for given in ((c.x,), (c.y,), c.x_parts, c.y_parts))
    if direction == "weight":
        a_parts, b_parts = tuple((y[1], y[2], y[0]) for y in y_parts), tuple((x[2], x[1], x[0]) for x in x_parts)
        return Matmul((), c.out_channels, c.in_channels, pixels, y[1:], (x[2], x[1]), (c.in_channels, 1), c.dtype,
                      sums=(c.batch, y[0], x[0]), a_parts=a_parts, b_parts=b_parts), {"a": "y", "b": "x", "c": "weight"}
    b_parts = tuple((*part, 0) for part in x_parts or y_parts)
    if direction == "forward":
        problem = Matmul((c.batch,), c.out_channels, pixels, c.in_channels, (0, c.in_channels, 1), x, y, c.dtype,
                         b_parts=b_parts)
        return problem, {"a": "weight", "b": "x", "c": "y"}
    problem = Matmul((c.batch,), c.in_channels, pixels, c.out_channels, (0, 1, c.in_channels), y, x, c.dtype,
                     b_parts=b_parts)
    return problem, {"a": "weight", "b": "y", "c": "x"}


def _taps(c):
    """The position of each tap in the padded input, per dimension."""
    return tuple(tuple(k * d for k in range(kernel)) for kernel, d in zip(c.kernel, c.dilation))


def _forward_plan(c, epilogue, threads):
    alone = Depthwise(c, threads)
    if alone.suits and pick("straight from memory", (True, False)):
        return alone.plan(epilogue)
    return _products_plan(c, epilogue, threads, *_forward_products(c))


def _forward_products(c):
    """Return (geometry, the image's operand, strides and channels, its matmuls)."""
    geometry = Geometry(c.size, c.out, c.pad, c.stride, _taps(c))
    group_out, group_in = c.out_channels // c.groups, c.in_channels // c.groups
    row_weights = group_in * int(np.prod(c.kernel))
    whole = Product(geometry.taps, c.out, "y", c.y, 0, group_out, group_in, None, row_weights, group_out * row_weights)
    return geometry, ("x", c.x, c.in_channels), [whole]


def _products_plan(c, epilogue, threads, geometry, image, products):
    """Return the cheaper plan of matmuls over an image: (its operand, strides and channels)."""
    operand, strides, channels = image
    builder = _builder(c, threads, geometry, image, products)
    other = ChannelPlan(c, threads, geometry, operand, strides, channels // c.groups, products)
    if other.suits and pick("lanes", sorted((True, False), key=lambda it: other.cycles() if it
                                            else builder.cycles(products))):
        return other.plan(epilogue)
    builder.multiply(products, epilogue)
    return builder.plan()


def _builder(c, threads, geometry, image, products):
    """Return the cheaper Builder, of those with vectors and with AMX tiles."""
    builder = Builder(c, threads, geometry, *image)
    if tile_numbers(c.dtype) is None:
        return builder
    tiled = TiledBuilder(c, threads, geometry, *image)
    options = (tiled, builder) if tiled.suits(products) and tiled.cycles(products) <= builder.cycles(products) else (
        builder,)
    return pick("registers", options)


def _input_plan(c, epilogue, threads):
    alone = Depthwise(c, threads, turned=True)
    if alone.suits and pick("straight from memory", (True, False)):
        return alone.plan(epilogue)
    return _products_plan(c, epilogue, threads, *_input_products(c))


def _reach(c):
    """Return (the geometry of y's image, phases of x that are not empty).  Every phase (its positions modulo the
    stride) sums its own taps of y, as a convolution of stride one; it gives per dimension (first position, count,
    [(tap, position in the image)])."""
    phases = [_input_phases(*dim) for dim in zip(c.size, c.kernel, c.stride, c.pad, c.dilation)]
    # one padded image serves all phases: the widest reach on either side
    pad = tuple(max(e - first for _, first, _, taps in dim for _, e in taps or [(0, 0)]) for dim in phases)
    reach = [[(start, count, [(k, first + p - e) for k, e in taps]) for start, first, count, taps in dim]
             for dim, p in zip(phases, pad)]
    most = tuple(max(count for _, count, _ in dim) for dim in reach)
    every = tuple(tuple(sorted({at for _, _, taps in dim for _, at in taps} | {0})) for dim in reach)
    return Geometry(c.out, most, pad, (1, 1, 1), every), [phase for phase in product(*reach)
                                                          if all(count for _, count, _ in phase)]


def _spread(c):
    """Strides of the positions of x that are a phase."""
    return (*c.x[:2], *(stride * step for stride, step in zip(c.x[2:], c.stride)))


def _input_products(c):
    """(geometry, the image's operand, strides and channels, a Product for each phase of x)."""
    geometry, phases = _reach(c)
    return geometry, ("y", c.y, c.out_channels), [_input_product(c, phase, ELEMENTS[c.dtype].bytes) for phase in phases]


def _input_product(c, phase, itemsize):
    """The Product of one phase of x, as _reach gives it."""
    starts, out, taps = zip(*phase)
    kernel = int(np.prod(c.kernel))
    group_out, group_in = c.out_channels // c.groups, c.in_channels // c.groups
    index = [(d * c.kernel[1] + h) * c.kernel[2] + w for d, h, w in product(*[[k for k, _ in dim] for dim in taps])]
    channels = np.arange(group_out) * group_in * kernel
    weight_offsets = (np.add.outer(channels, np.array(index, np.int64)) * itemsize).reshape(-1)
    first = sum(start * stride for start, stride in zip(starts, c.x[2:]))
    return Product([[at for _, at in dim] for dim in taps], out, "x", _spread(c), first, group_in, group_out,
                   weight_offsets,
                   kernel, group_out * group_in * kernel)


def _input_phases(size, kernel, stride, pad, dilation):
    """Per phase of one dimension of x: (first position, its index in the strided grid, count, [(tap, reach)]).

    Position i of x, at i + pad = stride * j + phase in the padded input, sums y[j - reach] over the taps of its phase.
    """
    phases = []
    for phase in range(stride):
        first = max(0, -(-(pad - phase) // stride))
        start = stride * first + phase - pad
        count = max(0, -(-(size - start) // stride))
        # from the farthest reach on: the matmul then walks forward through the image
        taps = [(k, k * dilation // stride) for k in reversed(range(kernel)) if k * dilation % stride == phase]
        phases.append((start, first, count, taps))
    return phases


def _weight_plan(c, epilogue, threads):
    """A matmul over output positions: rows of y (in the image's numbering, zero where discarded) times shifted images
    of x."""
    alone = Depthwise(c, threads)
    if alone.suits and pick("straight from memory", (True, False)):
        return alone.weight_plan()
    taps, group_out = _taps(c), c.out_channels // c.groups
    tiled = PixelGradient(c, threads, taps)
    if tiled.suits and pick("numbers", (True, False)):
        return tiled.plan()
    sums = PixelSums(c, threads, taps)
    if sums.suits and pick("straight from pixels", (True, False)):
        return sums.plan()
    # with few rows a group, packing would cost more than the matmuls, and copies for taps more than they save
    narrow = group_out <= 16
    other = ChannelWeights(c, threads, Geometry(c.size, c.out, c.pad, c.stride, taps))
    if other.suits and pick("lanes", (max(c.kernel) > 1, max(c.kernel) == 1)):  # one tap does not repay the images
        return other.plan()
    geometry = Geometry(c.size, c.out, c.pad, c.stride, taps, columns=not narrow and equidistant(taps[2]))
    # images hold elements, which the matmul pairs along the output indices
    own = tile_numbers(c.dtype) or numbers(c.dtype)
    kind = own if own.per_word == 2 and not narrow else numbers(wide_dtype(own))
    held = replace(kind, word=kind.element, per_word=1)
    builder = Builder(c, threads, geometry, "x", c.x, c.in_channels, whole=True, kind=held)
    builder.add_image(0)
    group_in, kernel = c.in_channels // c.groups, int(np.prod(c.kernel))
    offsets = np.add.outer(np.arange(group_in) * geometry.plane_elements,
                           geometry.tap_offsets(geometry.taps)).reshape(-1)
    rows, places, steps, temporaries = _numbered_rows(c, threads, geometry, held)
    images, plane_x = c.in_channels * geometry.plane_elements, geometry.plane_elements
    matrix = group_in * kernel
    sums_dtype = wide_dtype(kind) if narrow else c.dtype  # dot products of several images accumulate in the output
    problem = Matmul((c.groups,), group_out, matrix, geometry.count(c.out), (group_out * rows[1], rows[1], 1),
                     (group_in * plane_x, 1, 0),
                     (group_out * matrix, matrix, 1), kind.name, sums_dtype, sums=(c.batch, rows[0], images))
    plan_product = dot_plan if narrow else blocked_plan
    found = plan_product(problem, kind, NO_EPILOGUE, threads, offsets * held.word.bytes)
    places |= {"b": ("temp", "x image", 0), "c": ("pointer", "weight", 0)}
    last = ()
    if sums_dtype != c.dtype:
        total = c.out_channels * matrix
        temporaries = {**temporaries, "sums": total * kind.accumulator.bytes}
        places["c"] = ("temp", "sums", 0)
        last = (rounding_step(kind, ELEMENTS[c.dtype], c.out_channels, matrix, ("temp", "sums", 0),
                              ("pointer", "weight", 0)),)
    product_steps = tuple(replace(step, slots=tuple(places[slot[1]] if slot[0] == "pointer" else slot
                                                    for slot in step.slots))
                          for step in found.steps)
    return Contraction(builder.steps + steps + product_steps + last,
                       {**builder.temporaries, **temporaries, **found.temporaries}, found.keep)


def _numbered_rows(c, threads, geometry, held):
    """y in the numbering of x's images: (its batch and channel strides, offsets, kernel calls, temporaries).

    That is y itself if no position is discarded and it holds the right elements, else a copy with the images' pitch.
    """
    if ELEMENTS[c.dtype] is held.element and is_contiguous(c.y, c.out) and geometry.count(c.out) == int(np.prod(c.out)):
        return c.y[:2], {"a": ("pointer", "y", 0)}, (), {}
    spread = Geometry(c.out, c.out, (0, 0, 0), (1, 1, 1), tuple((row - out,) for row, out in zip(geometry.rows, c.out)))
    builder = Builder(c, threads, spread, "y", c.y, c.out_channels, whole=True, kind=held)
    builder.add_image(0)
    plane = spread.plane_elements
    return (c.out_channels * plane, plane), {"a": ("temp", "y image", 0)}, builder.steps, builder.temporaries
