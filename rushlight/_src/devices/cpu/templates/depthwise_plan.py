"""The kernel call of a depthwise convolution, forward or of a gradient."""

from ..llvm.features import targeted
from . import depthwise, depthwise_last
from .contraction import ELEMENTS, Contraction, KernelCall, numbers, written_slots

MOST_TAPS = 49   # unrolled one by one
FEW_TAPS = 25    # most taps that pay off for wider images too
WIDE = 3         # vectors of a row from which padding images beforehand wastes little, unless their pixels are apart
MOST_STRIDE = 2


class Depthwise:
    """One plane in, some planes out: of the size `out` from planes of the size `size`, both of two dimensions."""

    def __init__(self, c, threads, turned=False):
        self.c, self.threads, self.turned = c, threads, turned
        self.kernel, self.stride, self.dilation = c.kernel[1:], c.stride[1:], c.dilation[1:]
        self.element, kind = ELEMENTS[c.dtype], numbers(c.dtype)
        wide = next(name for name, element in ELEMENTS.items() if element is kind.accumulator)
        self.numbers = numbers(wide)

    @property
    def suits(self):
        """True if every group is one channel of a 2-D image with contiguous rows, and there are few taps."""
        c = self.c
        per_input = c.out_channels // c.groups
        width = -(-c.out[2] // self.numbers.lanes)
        most = MOST_TAPS if width == 1 else FEW_TAPS if width <= WIDE or max(self.stride) > 1 else 0
        return (c.groups == c.in_channels and c.size[0] == c.kernel[0] == 1 and c.pad[0] == 0 and self.element.is_float
                and self.kernel[0] * self.kernel[1] <= most and max(self.stride) <= MOST_STRIDE and c.x[4] == c.y[4]
                == 1
                and (not self.turned or per_input == 1))

    @property
    def spreads(self):
        """True if outputs are in phases, each with its own taps."""
        return self.turned and max(self.stride) > 1

    def window(self):
        return depthwise.Window(self.kernel, self.dilation, self.stride, 4 if targeted().registers == 32 else 2)

    def slots(self):
        c, size = self.c, self.element.bytes
        into, out = ("y", "x") if self.turned else ("x", "y")
        strides, results = getattr(c, into), getattr(c, out)
        sizes = (c.out, c.size) if self.turned else (c.size, c.out)
        pad = c.pad[1:]
        if self.spreads:
            pad = tuple(p // step for p, step in zip(pad, self.stride))
        elif self.turned:
            pad = tuple(d * (k - 1) - p for d, k, p in zip(self.dilation, self.kernel, pad))
        return {"outputs": c.out_channels, "per_input": c.out_channels // c.groups, "x_batch": strides[0] * size,
                "x_channel": strides[1] * size,
                "x_row": strides[3] * size, "y_batch": results[0] * size, "y_channel": results[1] * size,
                "y_row": results[3] * size,
                "height": sizes[0][1], "width": sizes[0][2], "out_height": sizes[1][1], "out_width": sizes[1][2],
                "pad_height": pad[0],
                "pad_width": pad[1], "batch": c.batch}

    def plan(self, epilogue):
        """The forward convolution, or with `turned` the gradient of the input."""
        into, out = ("y", "x") if self.turned else ("x", "y")
        if self.spreads:
            shift = tuple(pad % step for pad, step in zip(self.c.pad[1:], self.stride))
            kernel = depthwise.spread_kernel(self.element, self.numbers, self.window(), shift, epilogue)
        else:
            kernel = depthwise.forward_kernel(self.element, self.numbers, self.window(), self.turned, epilogue)
        sources = {"x": ("pointer", into, 0), "weights": ("pointer", "weight", 0), "y": ("pointer", out, 0)}
        return self.step(kernel, self.c.batch * self.c.out_channels, 1, sources, epilogue.slots)

    def weight_plan(self):
        """The gradient of the weights."""
        kernel = depthwise.weight_kernel(self.element, self.numbers, self.window())
        sources = {"x": ("pointer", "x", 0), "weights": ("pointer", "weight", 0), "y": ("pointer", "y", 0)}
        return self.step(kernel, self.c.out_channels, self.c.batch, sources)

    def step(self, kernel, units, planes, sources, extra=()):
        slots = self.slots()
        outputs = slots["out_height"] * slots["out_width"] * planes
        grain = max(1, min(16384 // outputs, units // (4 * self.threads)))
        written = written_slots(depthwise.SLOTS, slots, sources) + extra
        return Contraction((KernelCall(kernel, units, grain, written),), {})


def pays_with_channels_last(dtype, channels):
    """True if images of `channels` channels are read channels last."""
    features = targeted()
    return dtype in ("float32", "bfloat16", "float16") and features.registers == 32 and channels >= features.lanes(4)


class DepthwiseLast:
    """A channels-last depthwise convolution, or its gradient of the input; `geometry`, `image` and `products` are those
    of a PixelPlan (pixels_plan.py)."""

    def __init__(self, c, threads, geometry, image, products):
        self.c, self.threads, self.geometry, self.products = c, threads, geometry, products
        self.operand, self.strides = image
        self.element, self.numbers = ELEMENTS[c.dtype], numbers("float32")

    @property
    def suits(self):
        """True if each output channel reads one channel."""
        c, written = self.c, [one.strides for one in self.products]
        return (c.groups == c.in_channels == c.out_channels and pays_with_channels_last(c.dtype, c.groups)
                and not c.b_dtype
                and c.out_dtype in ("", c.dtype) and c.size[0] == c.kernel[0] == 1 and c.pad[0] == 0
                and c.kernel[2] <= MOST_TAPS and self.strides[1] == 1
                and all(strides[1] == 1 for strides in written) and all(all(one.taps) for one in self.products))

    def plan(self, epilogue):
        """Return the finished Contraction."""
        c, lanes, size = self.c, self.numbers.lanes, self.element.bytes
        blocks = -(-c.groups // lanes)
        own = {"channels": c.groups, "channel": c.w[0] * size, "row": c.w[3] * size, "column": c.w[4] * size}
        packed = {"weights": ("pointer", "weight", 0), "packed": ("temp", "packed", 0)}
        steps = [KernelCall(depthwise_last.pack_kernel(self.element, c.kernel[1:], lanes), blocks, blocks,
                      written_slots(depthwise_last.PACK_SLOTS, own, packed), fills="packed")]
        steps += [self.step(one, epilogue) for one in self.products]
        return Contraction(tuple(steps), {"packed": blocks * c.kernel[1] * c.kernel[2] * lanes * 4})

    def step(self, one, epilogue):
        """The kernel call that computes the outputs of one PixelProduct."""
        c, size, geometry = self.c, self.element.bytes, self.geometry
        taps = depthwise_last.Taps(c.kernel[1:], one.taps[1:], geometry.step[1:])
        kernel = depthwise_last.last_kernel(self.numbers, self.element, taps, epilogue)
        blocks = -(-one.out[1] // taps.height)
        slots = {"channels": c.groups, "x_batch": self.strides[0] * size, "x_row": self.strides[3] * size,
                 "x_pixel": self.strides[4] * size, "y_batch": one.strides[0] * size, "y_row": one.strides[3] * size,
                 "y_pixel": one.strides[4] * size, "height": geometry.size[1], "width": geometry.size[2],
                 "out_height": one.out[1], "out_width": one.out[2], "pad_height": geometry.pad[1],
                 "pad_width": geometry.pad[2], "row_blocks": blocks}
        sources = {"x": ("pointer", self.operand, 0), "weights": ("temp", "packed", 0),
                   "y": ("pointer", one.operand, one.first * size)}
        units = c.batch * blocks
        work = one.out[2] * c.groups * taps.height
        grain = max(1, min(-(-65536 // work), -(-units // (4 * self.threads))))
        return KernelCall(kernel, units, grain, written_slots(depthwise_last.SLOTS, slots, sources) + epilogue.slots)
