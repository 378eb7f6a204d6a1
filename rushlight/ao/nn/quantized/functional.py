"""Functions of quantized tensors: as of the numbers that they stand for, quantized again."""
from __future__ import annotations

import warnings

from ...._src.core import dtypes
from ...._src.core.op import OPS
from ....nn import functional as F

__all__ = ["adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "celu", "clamp", "conv1d",
           "conv2d", "conv3d", "elu", "hardsigmoid", "hardswish", "hardtanh", "interpolate", "leaky_relu", "linear",
           "max_pool1d", "max_pool2d", "threshold", "upsample", "upsample_bilinear", "upsample_nearest"]


def checked(input, name: str):
    """ValueError for a tensor that is not quantized."""
    if not input.is_quantized:
        raise ValueError(f"Input to 'quantized.{name}' must be quantized!")
    return input.dequantize()


def again(values, like, scale=None, zero_point=None):
    """Numbers quantized as a tensor is, or with another scale and zero."""
    return OPS["quantize_per_tensor"](values, like.q_scale() if scale is None else scale,
                                      like.q_zero_point() if zero_point is None else zero_point, like.dtype)


def alike(name: str):
    """A function of ``nn.functional`` whose results are quantized as its input is."""
    def call(input, *args, **kwargs):
        return again(getattr(F, name)(checked(input, name), *args, **kwargs), input)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``nn.functional.{name}`` of a quantized tensor, with the same scale and zero."
    return call


avg_pool2d, avg_pool3d = alike("avg_pool2d"), alike("avg_pool3d")
adaptive_avg_pool2d, adaptive_avg_pool3d = alike("adaptive_avg_pool2d"), alike("adaptive_avg_pool3d")
threshold = alike("threshold")


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """``nn.functional.max_pool1d``.  NotImplementedError for ``return_indices``."""
    if return_indices:
        raise NotImplementedError("return_indices is not yet implemented!")
    return again(F.max_pool1d(checked(input, "max_pool1d"), kernel_size, stride, padding, dilation, ceil_mode), input)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """``nn.functional.max_pool2d``.  NotImplementedError for ``return_indices``."""
    if return_indices:
        raise NotImplementedError("return_indices is not yet implemented!")
    return again(F.max_pool2d(checked(input, "max_pool2d"), kernel_size, stride, padding, dilation, ceil_mode), input)


def convolution(dims: int):
    """A convolution of a quantized tensor with a quantized weight, the result with its own scale and zero."""
    def call(input, weight, bias, stride=1, padding=0, dilation=1, groups=1, padding_mode="zeros", scale=1.0,
             zero_point=0, dtype=None):
        if padding_mode != "zeros":
            raise NotImplementedError("Only zero-padding is supported!")
        if input.dtype.shown is not OPS_DTYPES["quint8"] or weight.dtype.shown is not OPS_DTYPES["qint8"]:
            raise NotImplementedError("Only torch.quint8 is supported for activation tensor and torch.qint8 for "
                                      "weights")
        if input.ndim != dims + 2:
            raise ValueError(f"Input shape must be `{'(N, C, L)' if dims == 1 else '(N, C, ...)'}`!")
        found = getattr(F, f"conv{dims}d")(input.dequantize(), weight.dequantize(), bias, stride, padding, dilation,
                                           groups)
        return again(found, input, scale, zero_point)

    call.__name__ = call.__qualname__ = f"conv{dims}d"
    call.__doc__ = f"A convolution over {dims} dimensions of a quantized tensor (quint8) and weight (qint8)."
    return call


OPS_DTYPES = {d.name: d for d in dtypes.NAMED}
conv1d, conv2d, conv3d = map(convolution, (1, 2, 3))


def linear(input, weight, bias=None, scale=None, zero_point=None):
    """``input @ weight.T + bias`` of quantized tensors; the result as ``input`` is where nothing else is said."""
    return again(F.linear(checked(input, "linear"), weight.dequantize(), bias), input, scale, zero_point)


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """``nn.functional.interpolate`` of a quantized tensor, with the same scale and zero."""
    return again(F.interpolate(checked(input, "interpolate"), size, scale_factor, mode, align_corners), input)


def celu(input, scale, zero_point, alpha=1.0):
    """``nn.functional.celu``, with its own scale and zero."""
    return again(F.celu(checked(input, "celu"), alpha), input, scale, zero_point)


def elu(input, scale, zero_point, alpha=1.0):
    """``nn.functional.elu``, with its own scale and zero."""
    return again(F.elu(checked(input, "elu"), alpha), input, scale, zero_point)


def hardswish(input, scale, zero_point):
    """``nn.functional.hardswish``, with its own scale and zero."""
    return again(F.hardswish(checked(input, "hardswish")), input, scale, zero_point)


def hardsigmoid(input, inplace=False):
    """``nn.functional.hardsigmoid``: between 0 and 1, in steps of 1/256; ``inplace``, the input takes these, too."""
    found = F.hardsigmoid(checked(input, "hardsigmoid"))
    size = 1 << 8 * input.dtype.itemsize
    made = again(found, input, 1.0 / size, 0 if not input.dtype.is_signed else -(size // 2))
    if not inplace:
        return made
    input.data = made
    return input


def leaky_relu(input, negative_slope=0.01, inplace=False, scale=None, zero_point=None):
    """``nn.functional.leaky_relu``; with its own scale and zero where both are given (not in place then)."""
    found = F.leaky_relu(checked(input, "leaky_relu"), negative_slope)
    if scale is not None and zero_point is not None:
        if inplace:
            raise AssertionError("Cannot rescale with `inplace`")
        return again(found, input, scale, zero_point)
    return input.copy_(again(found, input)) if inplace else again(found, input)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """``nn.functional.hardtanh`` with the same scale and zero."""
    made = again(F.hardtanh(checked(input, "hardtanh"), min_val, max_val), input)
    return input.copy_(made) if inplace else made


def clamp(input, min_, max_):
    """Numbers between two, with the same scale and zero."""
    return again(checked(input, "clamp").clamp(min_, max_), input)


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """``interpolate``, under its old name."""
    warnings.warn("nn.quantized.functional.upsample is deprecated. Use nn.quantized.functional.interpolate instead.",
                  stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_bilinear(input, size=None, scale_factor=None):
    """``interpolate(mode="bilinear", align_corners=True)``, under its old name."""
    warnings.warn("nn.quantized.functional.upsample_bilinear is deprecated. Use nn.quantized.functional.interpolate "
                  "instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def upsample_nearest(input, size=None, scale_factor=None):
    """``interpolate(mode="nearest")``, under its old name."""
    warnings.warn("nn.quantized.functional.upsample_nearest is deprecated. Use nn.quantized.functional.interpolate "
                  "instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="nearest")
