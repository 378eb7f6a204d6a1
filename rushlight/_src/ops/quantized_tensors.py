"""Quantized tensors for users: construction, queries, conversions, and the operators that accept them.

An operator's rule for quantized tensors is in ``rules["quantized"]`` and is traced in place of its body.  Operators
that only move elements need none.
"""
from __future__ import annotations

import functools

import numpy as np

from ..core.dtypes import float32, float64, int64
from ..core.exchange import from_numpy
from ..core.kinds import P
from ..core.op import OPS, op
from ..core.quantized import BOUNDS, WHOLE, PerChannel, PerTensor, qint8, quint8
from ..core.tensor import Tensor, attach
from .conv import rebatched, unbatched
from .inplace import instead
from .pool import geometry
from .quantized import channels_first, channels_last, meaning, reciprocal, scheme_of, steps, unfolded, value, whole

WITHOUT = ("Could not run 'aten::{}' with a tensor that is not quantized: make one with quantize_per_tensor() or "
           "quantize_per_channel()")


def scheme(tensor, name):
    """Return the quantization scheme of a tensor.  NotImplementedError for other tensors."""
    found = tensor._rush_meta.dtype.scheme
    if found is None:
        raise NotImplementedError(WITHOUT.format(name))
    return found


def per_channel(tensor, name) -> PerChannel:
    found = scheme(tensor, name)
    if type(found) is not PerChannel:
        raise RuntimeError(
            f"{name}: Expected quantizer->qscheme() == kPerChannelAffine || quantizer->qscheme() == "
            "kPerChannelAffineFloatQParams to be true, but got false.")
    return found


def numbers_of(values, dtype):
    """Make a tensor of Python numbers."""
    return from_numpy(np.array(values, dtype.numpy))


# --- queries ----------------------------------------------------------------------------------------------------------
Tensor.is_quantized = property(lambda self: self._rush_meta.dtype.scheme is not None)


@attach
def qscheme(self):
    """Kind of quantization scheme: ``torch.per_tensor_affine``, for example."""
    return scheme(self, "qscheme").kind


@attach
def q_scale(self) -> float:
    """Scale of a per-tensor quantized tensor."""
    return scheme_of(self).scale if scheme(self, "q_scale") else None


@attach
def q_zero_point(self) -> int:
    """Integer that represents 0 in a per-tensor quantized tensor."""
    return scheme_of(self).zero_point if scheme(self, "q_zero_point") else None


@attach
def q_per_channel_scales(self):
    """Scales of a per-channel quantized tensor, float64 (float32 with floating-point zero points)."""
    found = per_channel(self, "q_per_channel_scales")
    return numbers_of(found.scales, float32 if found.floating else float64)


@attach
def q_per_channel_zero_points(self):
    """Zero points of a per-channel quantized tensor, int64 (float32 if they are floating point)."""
    found = per_channel(self, "q_per_channel_zero_points")
    return numbers_of(found.zero_points, float32 if found.floating else int64)


@attach
def q_per_channel_axis(self) -> int:
    """Dimension whose indices have a scale each."""
    return per_channel(self, "q_per_channel_axis").axis


# --- making, and reading ----------------------------------------------------------------------------------------------
def check_base(dtype):
    if dtype not in BOUNDS:
        raise RuntimeError(
            f"Creation of quantized tensor requires quantized dtype like torch.quint8; ScalarType {dtype} is not "
            "supported in new_qtensor.")


def check_input(name, input):
    if input.dtype is not float32:
        raise RuntimeError(f"{name}: Quantize only works on Float Tensor, got {input.dtype}")


def check_zero_point(zero_point, dtype, name):
    low, high = BOUNDS[dtype]
    if not low <= zero_point <= high:
        raise RuntimeError(
            f"{name} zero_point {zero_point} is {'below lower' if zero_point < low else 'above upper'} bound.")


def plain(number):
    """Return a number, or the only element of a tensor."""
    return number.item() if isinstance(number, Tensor) else number


@op(composite=True, method=False)
def quantize_per_tensor(input, scale, zero_point, dtype):
    """Quantize a float32 tensor: round(input / scale) + zero_point, saturated to the range of ``dtype`` (quint8, qint8
    or qint32).  [*] -> [*].

    A list of tensors with a tensor of scales and one of zero points gives a tuple.  RuntimeError for other dtypes and
    zero points that ``dtype`` cannot represent.

    >>> import rushlight as torch
    >>> torch.quantize_per_tensor(torch.tensor([0.26, 3.3, -9.0]), 0.1, 3, torch.quint8).int_repr()
    tensor([ 6, 36,  0], dtype=torch.uint8)
    """
    if isinstance(input, (list, tuple)):
        return tuple(quantize_per_tensor(x, s, z, dtype) for x, s, z in zip(input, scale.tolist(), zero_point.tolist()))
    check_input("quantize_per_tensor", input)
    check_base(dtype)
    scale, zero_point = float(plain(scale)), int(plain(zero_point))
    check_zero_point(zero_point, dtype, "quantize_tensor_per_tensor_affine")
    return OPS["_quantized"](input, scale, zero_point, dtype)


@op(composite=True, method=False)
def quantize_per_channel(input, scales, zero_points, axis, dtype):
    """As ``quantize_per_tensor`` with a scale and a zero point for each index of dimension ``axis``.  [*], [n], [n] ->
    [*].

    Zero points that are floating point are added before rounding (torch.per_channel_affine_float_qparams).

    >>> import rushlight as torch
    >>> torch.quantize_per_channel(torch.ones(2, 1), torch.tensor([0.5, 0.25]), torch.tensor([0, 1]), 0, torch.qint8).int_repr()
    tensor([[2],
            [5]], dtype=torch.int8)
    """
    check_input("quantize_per_channel", input)
    check_base(dtype)
    axis = axis % input.dim() if -input.dim() <= axis < input.dim() else axis
    if not 0 <= axis < input.dim():
        raise RuntimeError(
            f"Channel axis out of range in per channel affine quantization. Got: {axis} Expected: [0, {input.dim()})")
    if (scales.dim() != 1 or zero_points.dim() != 1 or scales.numel() != zero_points.numel() or scales.numel()
        != input.size(axis)):
        raise RuntimeError(
            f"quantize_per_channel: needs a scale and a zero point for each of {input.size(axis)} channels, got "
            f"{list(scales.shape)} and {list(zero_points.shape)}")
    floating = zero_points.is_floating_point()
    given = PerChannel(tuple(scales.to(float32 if floating else float64).tolist()), tuple(zero_points.tolist()), axis,
                       floating)
    if not floating:
        for zero_point in set(given.zero_points):
            check_zero_point(zero_point, dtype, "quantize_tensor_per_channel_affine")
    return OPS["_quantized_channels"](input, scales.to(float32), zero_points.to(float32), tuple(given), dtype)


@op(composite=True)
def dequantize(input):
    """Dequantize a quantized tensor to float32, convert other tensors to float32, and map lists and tuples.  [*] ->
    [*]."""
    if isinstance(input, (list, tuple)):
        return tuple(map(dequantize, input))
    found = input._rush_meta.dtype.scheme
    if found is None:
        return input.to(float32)
    if type(found) is PerTensor:
        return OPS["_dequantized"](input)
    return OPS["_dequantized_channels"](input, numbers_of(found.scales, float32),
                                        numbers_of(found.zero_points, float32))


@op(composite=True)
def int_repr(input):
    """Return a copy of the integers of a quantized tensor: uint8, int8 or int32.  [*] -> [*]."""
    scheme(input, "int_repr")
    return OPS["_whole_numbers"](input).clone()


@op(composite=True, method=False)
def quantize_per_tensor_dynamic(input, dtype, reduce_range):
    """``quantize_per_tensor`` with the scale and zero point for the extremes of the input."""
    low, high = (0.0, 0.0) if not input.numel() else (x.item() for x in input.aminmax())
    scale, zero_point = chosen(low, high, dtype, reduce_range)
    return quantize_per_tensor(input, scale, zero_point, dtype)


LEAST_SCALE = float(np.float32(6.1e-5))


def chosen(low, high, dtype, reduce_range):
    """Scale and zero point for values from ``low`` to ``high``, as in FBGEMM."""
    qmin, qmax = (-64, 63) if dtype is qint8 and reduce_range else (
        0, 127) if dtype is quint8 and reduce_range else BOUNDS[dtype]
    low, high = np.float32(min(low, 0.0)), np.float32(max(high, 0.0))
    scale = (float(high) - float(low)) / (qmax - qmin)
    if np.float32(scale) == 0 or np.isinf(np.float32(1) / np.float32(scale)):
        scale = 0.1
    if scale < LEAST_SCALE:
        small, scale = scale, LEAST_SCALE
        if not float(low):
            high = scale * (qmax - qmin)
        elif not float(high):
            low = -scale * (qmax - qmin)
        else:
            low, high = float(low) * scale / small, float(high) * scale / small
    from_min, from_max = qmin - float(low) / scale, qmax - float(high) / scale
    error_min, error_max = abs(qmin) - abs(float(low) / scale), abs(qmax) - abs(float(high) / scale)
    initial = from_min if abs(error_min) < abs(error_max) else from_max
    return scale, int(np.clip(np.rint(initial), qmin, qmax))


@op(composite=True, method=False)
def _make_per_tensor_quantized_tensor(input, scale, zero_point):
    """Return integers (uint8, int8 or int32) as a quantized tensor with this scale and zero point, a copy.  [*] ->
    [*]."""
    base = next((base for base, found in WHOLE.items() if found is input.dtype), None)
    if base is None:
        raise RuntimeError(f"_make_per_tensor_quantized_tensor: expected uint8, int8 or int32, got {input.dtype}")
    return OPS["_with_meaning"](input.clone(), float(plain(scale)), int(plain(zero_point)), base)


@op(composite=True, method=False)
def _make_per_channel_quantized_tensor(input, scale, zero_point, axis):
    """Return integers (uint8, int8 or int32) as a per-channel quantized tensor, a copy.  [*], [n], [n] -> [*]."""
    base = next((base for base, found in WHOLE.items() if found is input.dtype), None)
    if base is None:
        raise RuntimeError(f"_make_per_channel_quantized_tensor: expected uint8, int8 or int32, got {input.dtype}")
    floating = zero_point.is_floating_point()
    given = tuple(scale.to(float64).tolist()), tuple(zero_point.tolist()), int(axis), floating
    return OPS["_with_meanings"](input.clone(), given, base)


@op(composite=True, method=False)
def _empty_affine_quantized(size, *, dtype, scale=1.0, zero_point=0, layout=None, device=None, pin_memory=False,
                            memory_format=None):
    """A quantized tensor of this size whose values are 0."""
    check_base(dtype)
    return OPS["_with_meaning"](OPS["zeros"](tuple(size), dtype=WHOLE[dtype], device=device), float(scale),
                                int(zero_point), dtype)


@op(composite=True, method=False)
def _empty_per_channel_affine_quantized(size, *, scales, zero_points, axis, dtype, layout=None, device=None,
                                        pin_memory=False, memory_format=None):
    """A per-channel quantized tensor of this size whose values are 0."""
    check_base(dtype)
    given = tuple(scales.to(float64).tolist()), tuple(zero_points.tolist()), int(axis), zero_points.is_floating_point()
    return OPS["_with_meanings"](OPS["zeros"](tuple(size), dtype=WHOLE[dtype], device=device), given, dtype)


@op(composite=True, method=False)
def empty_quantized(size, qtensor, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
                    memory_format=None):
    """A tensor of this size with the quantization scheme of another one."""
    found = scheme_of(qtensor)
    return _empty_affine_quantized(size, dtype=dtype or qtensor.dtype, scale=found.scale, zero_point=found.zero_point)


# --- rules of operators -----------------------------------------------------------------------------------------------
def rule(*names):
    """Register rules of operators with these names for quantized tensors."""
    def enter(function):
        for name in names:
            made = function(OPS[name])
            made = in_place(made) if "inplace" in OPS[name].signature.parameters else made
            OPS[name].rules["quantized"] = made
            if OPS[name].traits.get("inplace_too") and not OPS[name].traits.get("composite"):
                OPS[f"{name}_"].rules["quantized"] = made
        return function
    return enter


def in_place(body):
    """Add the parameter ``inplace``, the last one, to a rule: the result is written into the input's storage, and the
    input takes the result's scheme; its views keep their scale, as in PyTorch."""
    def rule_of(input, *args, inplace=False, **kwargs):
        if args and type(args[-1]) is bool:
            *args, inplace = args
        made = body(input, *args, **kwargs)
        if not inplace:
            return made
        before, found = scheme_of(input), scheme_of(made)
        input.copy_(OPS["_with_meaning"](OPS["_whole_numbers"](made), before.scale, before.zero_point, input.dtype))
        if before != found:
            input._rush_become(OPS["_with_meaning"](OPS["_whole_numbers"](input), found.scale, found.zero_point,
                                                    input.dtype))
        return input
    return rule_of


def is_quantized(x) -> bool:
    return isinstance(x, Tensor) and x._rush_meta.dtype.scheme is not None


def alike(x, result):
    """Return the integers ``result`` as a tensor with the quantized dtype of ``x``."""
    return meaning(result, x._rush_meta.dtype)


@rule("relu", "nn.functional.relu")
def relu(operator):
    return lambda input: alike(input, P.maximum(whole(input), scheme_of(input).zero_point))


def level(x, number):
    """Return the quantized value that is nearest to a Python number."""
    found = scheme_of(x)
    low, high = BOUNDS[x.dtype]
    whole = np.rint(np.float32(float(number)) * np.float32(reciprocal(found.scale)) + found.zero_point)
    return int(np.clip(whole, low, high))


def bounded(x, low, high):
    """Clamp a quantized tensor to numbers; either may be None."""
    q = whole(x)
    q = q if low is None else P.maximum(q, level(x, low))
    return alike(x, q if high is None else P.minimum(q, level(x, high)))


@rule("nn.functional.relu6")
def relu6(operator):
    return lambda input: bounded(input, 0.0, 6.0)


@rule("clamp")
def clamp(operator):
    return lambda input, min=None, max=None: bounded(input, min, max)


@rule("nn.functional.hardtanh")
def hardtanh(operator):
    return lambda input, min_val=-1.0, max_val=1.0: bounded(input, min_val, max_val)


@rule("amax", "amin")
def of_whole_numbers(operator):
    """Rule of an operator that depends only on the order of elements: apply it to the integers."""
    return lambda input, *args, **kwargs: alike(input, operator.body(whole(input), *args, **kwargs))


@op(method=False, autocast=None, name="_quantized_max_pool")
def quantized_max_pool(input, rank, kernel_size, stride, padding, dilation, ceil_mode):
    """Maximum of every window, channels-last: tap by tap."""
    x, single = unbatched(whole(input), rank, f"max_pool{rank}d")
    kernel, stride, padding, dilation, out, high = geometry(f"max_pool{rank}d", x, rank, kernel_size, stride, padding,
                                                            dilation, ceil_mode)
    x = P.pad(channels_last(x), low=(0, *padding, 0), high=(0, *high, 0), inner=(0,) * (rank + 2),
              value=BOUNDS[input.dtype][0])
    taps, _ = unfolded(x, kernel, stride, (0,) * rank, dilation, 0)
    found = functools.reduce(P.maximum, (P.slice(tap, starts=(0,) * (rank + 2), steps=(1,) * (rank + 2),
                                                 shape=(x.shape[0], *out, x.shape[-1])) for tap in taps))
    return alike(input, rebatched(channels_first(found), single))


@rule("nn.functional.max_pool1d", "nn.functional.max_pool2d", "nn.functional.max_pool3d")
def max_pool(operator):
    rank = int(operator.name[-2])

    def body(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        if return_indices:
            raise NotImplementedError(f"max_pool{rank}d of quantized tensors has no indices: use dequantize() before")
        return OPS["_quantized_max_pool"](input, rank, kernel_size, stride, padding, dilation, bool(ceil_mode))
    return body


@rule("nn.functional.avg_pool1d", "nn.functional.avg_pool2d", "nn.functional.avg_pool3d",
      "nn.functional.adaptive_avg_pool1d", "nn.functional.adaptive_avg_pool2d",
      "nn.functional.adaptive_avg_pool3d", "mean", "nn.functional.interpolate", "nn.functional.leaky_relu",
      "nn.functional.elu", "nn.functional.celu", "nn.functional.threshold",
      "nn.functional.hardswish", "nn.functional.pad")
def in_floats(operator):
    """Rule that dequantizes, computes in float32, and quantizes the result with the input's scheme."""
    def body(input, *args, **kwargs):
        found = scheme_of(input)
        return OPS["_quantized"](operator.body(OPS["_dequantized"](input), *args, **kwargs), found.scale,
                                 found.zero_point, input.dtype)
    return body


# the least result, and steps within 1
RANGES = {"sigmoid": (0.0, 256), "nn.functional.hardsigmoid": (0.0, 256), "tanh": (-1.0, 128)}


@rule(*RANGES)
def of_known_range(operator):
    """Rule for results within bounds that do not depend on the input: their scale fits the bounds."""
    least, parts = RANGES[operator.name]

    def body(input, *args, **kwargs):
        zero = BOUNDS[input.dtype][0] - int(least * parts)
        return OPS["_quantized"](operator.body(OPS["_dequantized"](input), *args, **kwargs), 1.0 / parts, zero,
                                 input.dtype)
    return body


@rule("eq", "ne", "lt", "le", "gt", "ge")
def compared(operator):
    """Rule that compares dequantized values."""
    def body(input, other):
        return operator.body(*(OPS["_dequantized"](x) if isinstance(x, Tensor) and x.is_quantized else x
                               for x in (input, other)))
    return body


@rule("cat")
def cat(operator):
    """Quantize tensors with other schemes like the first, and concatenate."""
    def body(tensors, dim=0):
        first = tensors[0]
        found = scheme_of(first)
        alike_ = [x if x._rush_meta.dtype is first._rush_meta.dtype
                  else OPS["_quantized"](OPS["_dequantized"](x), found.scale, found.zero_point, first.dtype)
                  for x in tensors]
        return operator.body(alike_, dim)
    return body


@rule("sort", "topk", "max", "min", "argsort", "argmax", "argmin")
def in_order(operator):
    """Rule that compares the integers: values in the results are quantized tensors, indices are not."""
    def body(input, *args, **kwargs):
        found = scheme_of(input)
        results = operator.body(OPS["_whole_numbers"](input), *args, **kwargs)
        numbers = lambda x: OPS["_with_meaning"](x, found.scale, found.zero_point,
                                                 input.dtype) if x.dtype is WHOLE[input.dtype] else x
        return numbers(results) if isinstance(results, Tensor) else type(results)(list(map(numbers, results)))
    return body


@rule("fill_", "zero_")
def unwritten(operator):
    def body(*args, **kwargs):
        raise NotImplementedError(
            f"Could not run 'aten::{operator.name}' with quantized tensors: it is not implemented for them")
    return body


@rule("copy_")
def copied(operator):
    """Rule of ``copy_``: quantize ``src`` with the scheme of a quantized ``input``; dequantize ``src`` if their schemes
    differ."""
    def body(input, src, non_blocking=False):
        if not is_quantized(input):
            return operator.body(input, value(src))
        if src._rush_meta.dtype is input._rush_meta.dtype:
            return alike(input, instead(whole(input), whole(src)))
        found = scheme_of(input)
        numbers = value(src) if is_quantized(src) else P.convert(src, dtype=float32)
        return alike(input, instead(whole(input), steps(numbers, found.scale, found.zero_point, input.dtype)))
    return body


@rule("equal")
def equal(operator):
    def body(input, other):
        return input._rush_meta.dtype is other._rush_meta.dtype and operator.body(OPS["_whole_numbers"](input),
                                                                                  OPS["_whole_numbers"](other))
    return body


@rule("_to_dtype")
def converted(operator):
    def body(input, *args, **kwargs):
        wanted = [one for one in (*args, *kwargs.values()) if isinstance(one, type(qint8)) and one is not input.dtype]
        if wanted:
            raise RuntimeError(
                "Creation of quantized tensor requires quantized dtype like torch.quint8: read this one with "
                "dequantize(), or int_repr()")
        return operator.body(input, *args, **kwargs)
    return body
