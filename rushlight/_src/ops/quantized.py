"""Quantization: integers of few bits with x = (q - zero point) * scale, and contractions of them (Jacob and others
2018).

Quantize and dequantize are elementwise and fuse with adjacent operators.  A matmul or convolution accumulates integers,
exactly in 32 bits; requantization of its sums (``requantized``) is elementwise again and becomes its epilogue.
"""
from __future__ import annotations

import numpy as np

from ..core.dtypes import float32, float64, int8, int32, uint8
from ..core.kinds import P
from ..core.meta import is_channels_last, product
from ..core.op import op
from ..core.quantized import BOUNDS, WHOLE, PerChannel, PerTensor, qint32, quantized

EXTREME = {whole: BOUNDS[base] for base, whole in WHOLE.items()}


def reciprocal(scale: float) -> float:
    """1 / scale as kernels compute it: both are float32."""
    return float(np.float32(1) / np.float32(scale))


def whole(x):
    """Integers of a quantized tensor, an alias."""
    return P.meaning(x, dtype=WHOLE[x.dtype])


def meaning(x, dtype):
    """Return integers as a quantized tensor of this dtype."""
    return P.meaning(x, dtype=dtype)


def scheme_of(x) -> PerTensor:
    """The scheme of a quantized tensor that has one scale.  RuntimeError for others."""
    found = x._rush_meta.dtype.scheme
    if type(found) is not PerTensor:
        raise RuntimeError(
            "Expected a tensor quantized by one scale and one zero point (torch.per_tensor_affine), got "
            f"{found.kind if found else x.dtype}")
    return found


def cut(x, low, high, dtype):
    """Clamp a tensor of integral floats to the bounds and convert it to an integer dtype."""
    return P.convert(P.minimum(P.maximum(x, float(low)), float(high)), dtype=dtype)


def steps(x, scale, zero_point, base):
    """Quantize a float32 tensor with one scale and zero point; returns the integers."""
    # float32 does not hold the bounds of 32 bits
    inverse, wide = reciprocal(scale), float64 if base is qint32 else float32
    x = P.mul(x, inverse) if wide is float32 else P.convert(P.mul(x, inverse), dtype=wide)
    return cut(P.round(P.add(x, float(zero_point)) if zero_point else x), *BOUNDS[base], WHOLE[base])


def value(x):
    """Dequantize a per-tensor quantized tensor to float32."""
    scheme = scheme_of(x)
    q = P.convert(whole(x), dtype=int32)
    if x.dtype is qint32:  # differences of 32 bits could overflow
        return P.mul(P.convert(P.sub(P.convert(q, dtype=float64), float(scheme.zero_point)), dtype=float32),
                     scheme.scale)
    return P.mul(P.convert(P.sub(q, scheme.zero_point) if scheme.zero_point else q, dtype=float32), scheme.scale)


def stored(x, scale, zero_point, base):
    """Quantize a float32 tensor with one scale and zero point."""
    return meaning(steps(x, scale, zero_point, base), quantized(base, PerTensor(scale, zero_point)))


@op(method=False, autocast=None, name="_quantized")
def quantize_tensor(input, scale, zero_point, dtype):
    """Quantize a float32 tensor."""
    return stored(input, scale, zero_point, dtype)


@op(method=False, autocast=None, name="_quantized_channels")
def quantize_channels(input, scales, zero_points, scheme, dtype):
    """Quantize a float32 tensor with a scale and a zero point for each channel, float32 [n] each; ``scheme``: the parts
    of the PerChannel."""
    scheme = PerChannel(*scheme)
    shape = tuple(input.shape[k] if k == scheme.axis else 1 for k in range(len(input.shape)))
    scales, zero_points = P.reshape(scales, shape=shape), P.reshape(zero_points, shape=shape)
    x = P.round(P.add(P.mul(input, P.reciprocal(scales)), zero_points))
    return meaning(cut(x, *BOUNDS[dtype], WHOLE[dtype]), quantized(dtype, scheme))


@op(method=False, autocast=None, name="_dequantized")
def dequantize_tensor(input):
    """Dequantize a per-tensor quantized tensor to float32."""
    return value(input)


@op(method=False, autocast=None, name="_dequantized_channels")
def dequantize_channels(input, scales, zero_points):
    """Dequantize a per-channel quantized tensor, with scales and zero points float32 [n], to float32."""
    scheme = input._rush_meta.dtype.scheme
    shape = tuple(input.shape[k] if k == scheme.axis else 1 for k in range(len(input.shape)))
    q = P.convert(whole(input), dtype=float32)
    return P.mul(P.sub(q, P.reshape(zero_points, shape=shape)), P.reshape(scales, shape=shape))


@op(method=False, autocast=None, name="_whole_numbers", view=True)
def whole_numbers(input):
    """Integers of a quantized tensor: an alias."""
    return whole(input)


@op(method=False, autocast=None, name="_with_meaning", view=True)
def with_meaning(input, scale, zero_point, dtype):
    """Return integers as a per-tensor quantized tensor: an alias."""
    return meaning(input, quantized(dtype, PerTensor(scale, zero_point)))


@op(method=False, autocast=None, name="_with_meanings", view=True)
def with_meanings(input, scheme, dtype):
    """Return integers as a per-channel quantized tensor: an alias."""
    return meaning(input, quantized(dtype, PerChannel(*scheme)))


# --- contractions -----------------------------------------------------------------------------------------------------
def requantized(sums, shift, multiplier, offset, zero_point, low, base):
    """Requantize sums of products: round((sums + shift) * multiplier + offset) + zero_point, clamped between ``low``
    and the maximum of ``base``.

    int32 [*, n]; int32, float32 and float32 [n].  Shift and offset may be None.
    """
    x = P.mul(P.convert(sums if shift is None else P.add(sums, shift), dtype=float32), multiplier)
    x = P.add(P.round(x if offset is None else P.add(x, offset)), float(zero_point))
    return cut(x, low, BOUNDS[base][1], WHOLE[base])


@op(method=False, autocast=None, name="_int8_operand")
def int8_operand(weight):
    """Return the integer weights [n, k] of a linear layer as the second matmul operand, int8 [k, n], and their sums,
    int32 [n]."""
    return P.permute(weight, dims=(1, 0)), totals(weight)


@op(method=False, autocast=None, name="_weight_sums")
def weight_sums(weight):
    """Sums of the integer weights [o, *] of each output, int32 [o]."""
    return totals(weight)


def totals(weight):
    rest = tuple(range(1, len(weight.shape)))
    return P.reshape(P.sum(P.convert(weight, dtype=int32), rest), shape=(weight.shape[0],))


@op(method=False, autocast=None, name="_requantizing")
def requantizing(total, scales, bias, x_scale, x_zero_point, scale):
    """(shift, multiplier, offset) of ``requantized`` for weights with these sums and scales, int32 and float32 [o], and
    a bias [o] or None."""
    shift = P.mul(total, -x_zero_point)
    multiplier = P.div(P.mul(scales, x_scale), scale)
    return shift, multiplier, P.div(bias, scale) if bias is not None else P.mul(multiplier, 0.0)


def unfolded(x, kernel, stride, padding, dilation, fill):
    """Patches of images [n, *space, c], padded with ``fill``: (a list of [n, *out, c], one for each kernel tap; the
    sizes of out)."""
    rank = len(kernel)
    if any(padding):
        ends = (0, *padding, 0)
        x = P.pad(x, low=ends, high=ends, inner=(0,) * (rank + 2), value=fill)
    out = tuple((size - d * (k - 1) - 1) // s + 1 for size, k, s, d in zip(x.shape[1:-1], kernel, stride, dilation))
    shape, step = (x.shape[0], *out, x.shape[-1]), (1, *stride, 1)
    taps = [P.slice(x, starts=(0, *(a * d for a, d in zip(at, dilation)), 0), steps=step, shape=shape)
            for at in np.ndindex(*kernel)]
    return taps, out


def channels_last(x):
    """[n, c, *space] -> [n, *space, c]."""
    return P.permute(x, dims=(0, *range(2, len(x.shape)), 1))


def channels_first(x):
    """[n, *space, c] -> [n, c, *space]."""
    rank = len(x.shape)
    return P.permute(x, dims=(0, rank - 1, *range(1, rank - 1)))


def lies_channels_last(x) -> bool:
    return len(x.shape) == 4 and is_channels_last(x._rush_meta) and not x._rush_meta.contiguous


def depthwise_sums(taps, weight):
    """Depthwise sums over taps: [n, *out, c] each, weights int8 [c, 1, *kernel] -> int32 [n, *out, c]."""
    total, lines = None, P.reshape(weight, shape=(weight.shape[0], len(taps)))
    for k, tap in enumerate(taps):
        column = P.slice(lines, starts=(0, k), steps=(1, 1), shape=(weight.shape[0], 1))
        part = P.mul(P.convert(tap, dtype=int32), P.reshape(P.convert(column, dtype=int32), shape=(weight.shape[0],)))
        total = part if total is None else P.add(total, part)
    return total


def whole_convolution(x, weight, stride, padding, dilation, groups, border):
    """Integer convolution of uint8 or int8 [n, *space, c], padded with ``border``, and int8 [o, c / groups, *kernel] ->
    int32 [n, *out, o]."""
    if groups == x.shape[-1] == weight.shape[0]:
        return depthwise_sums(unfolded(x, weight.shape[2:], stride, padding, dilation, border)[0], weight)
    return P.int_conv(x, weight, stride=tuple(stride), padding=tuple(padding), dilation=tuple(dilation), groups=groups,
                      border=border)


@op(method=False, autocast=None, name="_quantized_convolution")
def quantized_convolution(input, weight, shift, multiplier, offset, stride, padding, dilation, groups, scale,
                          zero_point, low, dtype):
    """Convolution of a quantized tensor [n, c, *space] by integer weights as ``dtype`` [n, o, *out], channels-last;
    other arguments from ``requantizing``."""
    x, zero = whole(input), scheme_of(input).zero_point
    sums = whole_convolution(channels_last(x), weight, stride, padding, dilation, groups, zero)
    q = requantized(sums, shift if zero else None, multiplier, offset, zero_point, low, dtype)
    return meaning(channels_first(q), quantized(dtype, PerTensor(scale, zero_point)))


@op(method=False, autocast=None, name="_turned_weight")
def turned_weight(weight, groups):
    """Return the integer weights [c, o / groups, *kernel] of a transposed convolution as those of the equivalent
    convolution, [o, c / groups, *kernel]: with flipped taps."""
    ins, outs, *kernel = weight.shape
    rank = len(kernel)
    w = P.reshape(weight, shape=(groups, ins // groups, outs, *kernel))
    w = P.permute(w, dims=(0, 2, 1, *range(3, 3 + rank)))
    return P.flip(P.reshape(w, shape=(groups * outs, ins // groups, *kernel)), dims=tuple(range(2, 2 + rank)))


def around(kernel, stride, padding, output_padding, dilation, transposed):
    """(low, high, inner) of ``prims.pad`` for images [n, *space, c], such that a convolution needs no padding, and a
    transposed one no stride either; negative: elements that no result reads."""
    low = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding)] if transposed else list(padding)
    high = [end + more for end, more in zip(low, output_padding)]
    return {"low": (0, *low, 0), "high": (0, *high, 0),
            "inner": (0, *(s - 1 if transposed else 0 for s in stride), 0)}


@op(method=False, autocast=None, name="_spread_image")
def spread_image(input, kernel, stride, padding, output_padding, dilation):
    """Pad a quantized tensor [n, c, *space] so that a transposed convolution becomes one of stride 1 without padding:
    zero points between the elements, and around them."""
    x = P.pad(channels_last(whole(input)), **around(kernel, stride, padding, output_padding, dilation, True),
              value=scheme_of(input).zero_point)
    return meaning(channels_first(x), input._rush_meta.dtype)


@op(method=False, autocast=None, name="_dynamic_convolution")
def dynamic_convolution(input, factor, total, scales, bias, reduce_range, stride, padding, output_padding, dilation,
                        groups, transposed):
    """Convolution, or transposed convolution, of a float32 tensor [n, c, *space], quantized by its own extremes, by
    integer weights: float32 [n, o, *out], channels-last."""
    inverse, scale, zero = of_extremes(input, reduce_range)
    x = P.pad(channels_last(input), **around(factor.shape[2:], stride, padding, output_padding, dilation, transposed),
              value=0)
    q = cut(P.round(P.add(P.mul(x, inverse), zero)), 0, 255, uint8)
    rank, one = len(factor.shape) - 2, (1,)
    sums = whole_convolution(q, factor, (1,) * rank if transposed else stride, (0,) * rank, dilation, groups, 0)
    shift = P.mul(P.convert(P.reshape(zero, shape=one), dtype=int32), total)
    out = P.mul(P.convert(P.sub(sums, shift), dtype=float32), P.mul(scales, P.reshape(scale, shape=one)))
    return channels_first(P.add(out, bias) if bias is not None else out)


@op(method=False, autocast=None, name="_quantized_linear")
def quantized_linear(input, factor, shift, multiplier, offset, scale, zero_point, low, dtype):
    """Linear layer of a quantized tensor [*, k] as ``dtype`` [*, n]; other arguments from ``int8_operand`` and
    ``requantizing``."""
    x, zero = whole(input), scheme_of(input).zero_point
    depth, columns = factor.shape
    sums = P.int_matmul(P.reshape(x, shape=(product(x.shape[:-1]), depth)), factor)
    q = requantized(sums, shift if zero else None, multiplier, offset, zero_point, low, dtype)
    return meaning(P.reshape(q, shape=(*x.shape[:-1], columns)), quantized(dtype, PerTensor(scale, zero_point)))


# --- pairs, and scales that are known at run time ---------------------------------------------------------------------
@op(method=False, autocast=None, name="_quantized_pair")
def quantized_pair(input, other, operator, relu, scale, zero_point, dtype):
    """Sum ("add") or product ("mul") of two quantized tensors as ``dtype``; at least ``zero_point`` with ``relu``."""
    turned = lies_channels_last(input) and lies_channels_last(other)  # new storage then has that order, too
    a, b = (value(channels_last(one) if turned else one) for one in (input, other))
    x = P.add(a, b) if operator == "add" else P.mul(a, b)
    found = stored(P.maximum(x, 0.0) if relu else x, scale, zero_point, dtype)
    return channels_first(found) if turned else found


@op(method=False, autocast=None, name="_quantized_matmul")
def quantized_matmul(input, other, scale, zero_point, dtype):
    """Multiply two quantized matrices [*, m, k] @ [*, k, n] into ``dtype``; zero points are subtracted from the
    sums."""
    a, b = scheme_of(input), scheme_of(other)
    x, y = whole(input), whole(other)
    sums = P.int_matmul(x, y)
    depth, rank = x.shape[-1], len(x.shape)
    if a.zero_point:
        sums = P.sub(sums, P.mul(P.sum(P.convert(y, dtype=int32), (rank - 2,)), a.zero_point))
    if b.zero_point:
        sums = P.sub(sums, P.mul(P.sum(P.convert(x, dtype=int32), (rank - 1,)), b.zero_point))
    if a.zero_point and b.zero_point:
        sums = P.add(sums, depth * a.zero_point * b.zero_point)
    return stored(P.mul(P.convert(sums, dtype=float32), a.scale * b.scale), scale, zero_point, dtype)


def of_extremes(x, reduce_range):
    """(1 / scale, scale, zero point), one-element float32 tensors, for the extremes of a float32 tensor and integers
    from 0 to 255 (127 with a reduced range), as in FBGEMM."""
    rank = len(x.shape)
    most = 127.0 if reduce_range else 255.0
    low = P.minimum(P.amin(x, tuple(range(rank))), 0.0)
    high = P.maximum(P.amax(x, tuple(range(rank))), 0.0)
    scale = P.convert(P.div(P.sub(P.convert(high, dtype=float64), P.convert(low, dtype=float64)), most), dtype=float32)
    scale = P.where(P.eq(scale, 0.0), 0.1, scale)
    tiny = P.lt(scale, 6.1e-5)
    grown = P.div(6.1e-5, scale)
    high = P.where(tiny, P.where(P.eq(low, 0.0), 6.1e-5 * most, P.mul(high, grown)), high)
    low = P.where(tiny, P.where(P.eq(high, 0.0), -6.1e-5 * most, P.mul(low, grown)), low)
    scale = P.where(tiny, 6.1e-5, scale)
    wide = [P.convert(v, dtype=float64) for v in (low, high, scale)]
    from_low, from_high = P.neg(P.div(wide[0], wide[2])), P.sub(most, P.div(wide[1], wide[2]))
    by_low = P.lt(from_low, P.abs(P.sub(most, P.abs(P.div(wide[1], wide[2])))))
    zero = P.minimum(P.maximum(P.round(P.where(by_low, from_low, from_high)), 0.0), most)
    return P.reciprocal(scale), scale, P.convert(zero, dtype=float32)


@op(method=False, autocast=None, name="_dynamic_linear")
def dynamic_linear(input, factor, total, scales, bias, reduce_range):
    """Linear layer of a float32 tensor [*, k], quantized by its own extremes: float32 [*, n]; other arguments from
    ``int8_operand``."""
    inverse, scale, zero = of_extremes(input, reduce_range)
    q = cut(P.round(P.add(P.mul(input, inverse), zero)), 0, 255, uint8)
    depth, columns = factor.shape
    rows = product(input.shape[:-1])
    sums = P.int_matmul(P.reshape(q, shape=(rows, depth)), factor)
    one = (1,)
    shift = P.mul(P.convert(P.reshape(zero, shape=one), dtype=int32), total)
    out = P.mul(P.convert(P.sub(sums, shift), dtype=float32), P.mul(scales, P.reshape(scale, shape=one)))
    out = P.add(out, bias) if bias is not None else out
    return P.reshape(out, shape=(*input.shape[:-1], columns))
