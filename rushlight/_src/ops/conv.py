"""Convolution and its transpose."""
from __future__ import annotations

from ..core.dtypes import type_name
from ..core.expectations import expect_elements
from ..core.expr import Expr
from ..core.kinds import P
from ..core.meta import suggests_channels_last
from ..core.op import OPS, op, sample

AUTOCAST = "half"  # convolutions are faster in 16-bit floats

F = "nn.functional"


def spread(value, count, name):
    """Expand one number to all dimensions, or return one for each."""
    if isinstance(value, (int, Expr)):
        return (value,) * count
    value = tuple(value)
    if len(value) == 1:
        return value * count
    if len(value) != count:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {count} values to match the convolution "
            f"dimensions, but got {name}={list(value)}")
    return value


def check(name, x, w, bias, rank, stride, padding, dilation, groups, transposed=False):
    if len(w.shape) != rank + 2:
        raise RuntimeError(f"Expected {rank + 2}D weight for {name}, but got {len(w.shape)}D")
    if x.dtype is not w.dtype:
        raise RuntimeError(
            f"Input type ({type_name(x.dtype)}) and weight type ({type_name(w.dtype)}) should be the same: {x.dtype} "
            f"and {w.dtype}")
    if bias is not None and bias.dtype is not x.dtype:
        raise RuntimeError(
            f"Input type ({type_name(x.dtype)}) and bias type ({type_name(bias.dtype)}) should be the same: {x.dtype} "
            f"and {bias.dtype}")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if any(s <= 0 for s in stride):
        raise RuntimeError("non-positive stride is not supported")
    if any(d <= 0 for d in dilation):
        raise RuntimeError("dilation should be greater than zero")
    if any(p < 0 for p in padding):
        raise RuntimeError("negative padding is not supported")
    channels = w.shape[0] if transposed else w.shape[1] * groups
    if x.shape[1] != channels:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(w.shape)}, expected input{list(x.shape)} to have {channels} "
            f"channels, but got {x.shape[1]} channels instead")
    if not transposed and w.shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0 and divisible, but got "
            f"weight of size {list(w.shape)} instead")
    out = w.shape[1] * groups if transposed else w.shape[0]
    if bias is not None and tuple(bias.shape) != (out,):
        raise RuntimeError(
            f"Given weight of size {list(w.shape)}, expected bias to be 1-dimensional with {out} elements, but got "
            f"bias of size {list(bias.shape)} instead")
    if not transposed:
        for size, k, p, d in zip(x.shape[2:], w.shape[2:], padding, dilation):
            if size + 2 * p < d * (k - 1) + 1:
                raise RuntimeError(
                    "Calculated padded input size per channel: "
                    f"({', '.join(str(s + 2 * q) for s, q in zip(x.shape[2:], padding))}). Kernel size: "
                    f"({', '.join(str(e * (j - 1) + 1) for j, e in zip(w.shape[2:], dilation))}). Kernel size can't "
                    "be greater than actual input size")


def with_bias(out, bias, rank):
    return out if bias is None else P.add(out, P.reshape(bias, shape=(1, bias.shape[0]) + (1,) * rank))


# channels of a group, below which results have channels in front: rows of pixels fill vectors, groups do not, unless
# each is one channel
NARROW = 4


def narrow(weight, groups):
    """True if groups are too narrow for channels-last results."""
    return groups != 1 and weight.shape[1] < NARROW and not (weight.shape[1] == 1 and weight.shape[0] == groups)


def lying_as(x, out):
    """Return results for images, with channels last if ``x`` has that memory format."""
    if not suggests_channels_last(x._rush_meta):
        return out
    rank = len(out.shape)
    return P.permute(P.copy(P.permute(out, dims=(0, *range(2, rank), 1))), dims=(0, rank - 1, *range(1, rank - 1)))


def unbatched(x, rank, name):
    """Return the input with a batch dimension, and True if it had none."""
    if len(x.shape) == rank + 1:
        return P.reshape(x, shape=(1, *x.shape)), True
    if len(x.shape) != rank + 2:
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of size: "
            f"{list(x.shape)}")
    return x, False


def rebatched(x, single):
    return P.reshape(x, shape=tuple(x.shape[1:])) if single else x


def same_padding(weight, dilation) -> tuple:
    """Elements that ``padding="same"`` adds in each spatial dimension, both sides together."""
    return tuple(d * (k - 1) for d, k in zip(dilation, weight.shape[2:]))


def copied_arguments(input, weight, padding, dilation, **_) -> tuple:
    """Names of the convolution arguments that PyTorch saves as copies: inputs that it pads first, since they are
    complex, or more at one side than at the other."""
    if padding != "same":
        return ()
    total = same_padding(weight, spread(dilation, weight.dim() - 2, "dilation"))
    return ("input",) if input.dtype.is_complex or any(t % 2 for t in total) else ()


def convolution_of(rank):
    name = f"conv{rank}d"

    def body(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        x, single = unbatched(input, rank, name)
        stride, dilation = spread(stride, rank, "stride"), spread(dilation, rank, "dilation")
        if isinstance(padding, str):
            if padding not in ("valid", "same"):
                raise RuntimeError(f"Invalid padding string: '{padding}'")
            if padding == "same" and any(s != 1 for s in stride):
                raise RuntimeError("padding='same' is not supported for strided convolutions")
            total = same_padding(weight, dilation) if padding == "same" else (0,) * rank
            even = tuple(t // 2 for t in total)
            if any(t % 2 for t in total):
                x = P.pad(x, low=(0, 0) + (0,) * rank, high=(0, 0) + tuple(t % 2 for t in total),
                          inner=(0,) * (rank + 2), value=0)
            padding = even
        padding = spread(padding, rank, "padding")
        check(name, x, weight, bias, rank, stride, padding, dilation, groups)
        out = P.conv(x, weight, stride=stride, padding=padding, dilation=dilation, groups=groups)
        out = with_bias(out, bias, rank)
        return rebatched(out if narrow(weight, groups) else lying_as(x, out), single)

    body.__name__, body.__doc__ = (
        name, f"Cross-correlation over {rank} dimension(s): [n, c, *space], [o, c / groups, *kernel] -> [n, o, *out].")
    return op(body, namespace=F, second="none", samples=(sample((2, 3) + (7,) * rank, (4, 3) + (3,) * rank, (4,)),),
              overwritable=copied_arguments)


def transposed_of(rank):
    name = f"conv_transpose{rank}d"

    def body(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        x, single = unbatched(input, rank, name)
        stride, padding, dilation = spread(stride, rank, "stride"), spread(padding, rank,
                                                                           "padding"), spread(dilation, rank,
                                                                                              "dilation")
        extra = spread(output_padding, rank, "output_padding")
        check(name, x, weight, bias, rank, stride, padding, dilation, groups, transposed=True)
        for e, s, d in zip(extra, stride, dilation):
            if e < 0:
                raise RuntimeError("negative output_padding is not supported")
            if e >= max(s, d):
                raise RuntimeError(
                    "output padding must be smaller than either stride or dilation, but got output_padding: "
                    f"{list(extra)}, stride: {list(stride)}, dilation: {list(dilation)}")
        space = tuple((size - 1) * s - 2 * p + d * (k - 1) + e + 1
                      for size, s, p, d, k, e in zip(x.shape[2:], stride, padding, dilation, weight.shape[2:], extra))
        expect_elements(space, lambda: RuntimeError(
            f"Given input size per channel: {list(x.shape[2:])}, calculated output size per channel: "
            f"{list(space)}. Output size is too small"))
        shape = (x.shape[0], weight.shape[1] * groups, *space)
        out = P.conv_input(x, weight, shape=shape, stride=stride, padding=padding, dilation=dilation, groups=groups)
        return rebatched(with_bias(out, bias, rank), single)

    body.__name__, body.__doc__ = (
        name, f"The transpose of conv{rank}d: [n, c, *space], [c, o / groups, *kernel] -> [n, o, *out].")
    return op(body, namespace=F, second="none", samples=(sample((2, 3) + (4,) * rank, (3, 4) + (3,) * rank, (4,)),))


conv1d, conv2d, conv3d = map(convolution_of, (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = map(transposed_of, (1, 2, 3))


@op(composite=True, method=False)
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Convolution or its transpose in any number of dimensions."""
    rank = weight.dim() - 2
    if transposed:
        return OPS[f"{F}.conv_transpose{rank}d"](input, weight, bias, stride, padding, output_padding, groups, dilation)
    return OPS[f"{F}.conv{rank}d"](input, weight, bias, stride, padding, dilation, groups)


@op(composite=True, method=False)
def _convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, benchmark=False,
                 deterministic=False, cudnn_enabled=False,
                 allow_tf32=False):
    """``convolution``, under the name in captured graphs of other frameworks; the arguments that choose an algorithm
    are ignored."""
    return OPS["convolution"](input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


@op(namespace=F, autocast=None)
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Columns of every window: [n, c, h, w] -> [n, c * kernel, windows]."""
    x, single = unbatched(input, 2, "unfold")
    expect_elements(x.shape[1:], lambda: RuntimeError(
        "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
        f"input, but got: {list(input.shape)}"))
    kernel, dilation, padding, stride = (spread(v, 2, "kernel") for v in (kernel_size, dilation, padding, stride))
    if any(v <= 0 for v in (*kernel, *dilation, *stride)) or any(p < 0 for p in padding):
        raise RuntimeError(
            "kernel size, dilation and stride should be greater than zero and padding non-negative, but got kernel "
            f"{kernel}, dilation {dilation}, stride {stride}, padding {padding}")
    x = P.pad(x, low=(0, 0, *padding), high=(0, 0, *padding), inner=(0,) * 4, value=0)
    if any(size < d * (k - 1) + 1 for size, k, d in zip(x.shape[2:], kernel, dilation)):
        raise RuntimeError(
            f"Given input with spatial size {list(input.shape[-2:])}, kernel_size={kernel}, dilation={dilation}, "
            f"padding={padding}, calculated shape of the array of sliding blocks is too small: its components must be "
            "at least one")
    windows = all_windows(x, kernel, stride, dilation)  # [n, c, oh, ow, kh, kw]
    n, c, oh, ow, kh, kw = windows.shape
    out = P.reshape(P.permute(windows, dims=(0, 1, 4, 5, 2, 3)), shape=(n, c * kh * kw, oh * ow))
    return rebatched(out, single)


def all_windows(x, kernel, stride, dilation):
    """[n, c, *space] -> [n, c, *out, *kernel]: all windows of a padded input."""
    rank = len(kernel)
    for k in range(rank):
        span = dilation[k] * (kernel[k] - 1) + 1
        x = P.unfold(x, dim=2 + k, size=span, step=stride[k])
        if dilation[k] != 1:
            last = len(x.shape) - 1
            x = P.slice(x, starts=(0,) * (last + 1), steps=(1,) * last + (dilation[k],),
                        shape=(*x.shape[:last], kernel[k]))
    return x


@op(namespace=F, autocast=None)
def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """The transpose of unfold: [n, c * kernel, windows] -> [n, c, *output_size], overlaps added."""
    single = len(input.shape) == 2
    x = P.reshape(input, shape=(1, *input.shape)) if single else input
    size, kernel, dilation, padding, stride = (spread(v, 2, "size")
                                               for v in (output_size, kernel_size, dilation, padding, stride))
    out = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1
                for n, k, s, p, d in zip(size, kernel, stride, padding, dilation))
    if x.shape[1] % (kernel[0] * kernel[1]):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={x.shape[1]} and kernel_size={kernel}.")
    if x.shape[2] != out[0] * out[1]:
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={kernel}, dilation={dilation}, padding={padding}, "
            f"stride={stride}, expected size of input's dimension 2 to match the calculated number of sliding blocks "
            f"{out[0]} * {out[1]} = {out[0] * out[1]}, but got input.size(2)={x.shape[2]}.")
    n, c = x.shape[0], x.shape[1] // (kernel[0] * kernel[1])
    windows = P.permute(P.reshape(x, shape=(n, c, *kernel, *out)), dims=(0, 1, 4, 5, 2, 3))
    padded = (n, c, *(s + 2 * p for s, p in zip(size, padding)))
    whole = windows_transpose(windows, padded, kernel, stride, dilation)
    result = P.slice(whole, starts=(0, 0, *padding), steps=(1,) * 4, shape=(n, c, *size))
    return rebatched(result, single)


def windows_transpose(g, shape, kernel, stride, dilation):
    """The transpose of ``all_windows`` for two dimensions: each window's elements are added to their source."""
    total = None
    for a in range(kernel[0]):
        for b in range(kernel[1]):
            part = P.slice(g, starts=(0, 0, 0, 0, a, b), steps=(1,) * 6, shape=(*g.shape[:4], 1, 1))
            part = P.reshape(part, shape=tuple(g.shape[:4]))
            low = (a * dilation[0], b * dilation[1])
            span = tuple((n - 1) * s + 1 for n, s in zip(g.shape[2:4], stride))
            high = tuple(size - lo - sp for size, lo, sp in zip(shape[2:], low, span))
            placed = P.pad(part, low=(0, 0, *low), high=(0, 0, *high), inner=(0, 0, *(s - 1 for s in stride)), value=0)
            total = placed if total is None else P.add(total, placed)
    return total
