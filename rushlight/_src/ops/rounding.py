"""Fake quantization: floats rounded to values that a few bits can represent, for quantization-aware training (Jacob and
others 2018)."""
from __future__ import annotations

from ..core.dtypes import int32
from ..core.kinds import P
from ..core.op import op, rule
from ..core.tensor import Tensor, wrapped
from .promotion import is_number, real


def check_range(name, low, high):
    if low > high:
        raise RuntimeError(f"{name}(): `quant_min` should be less than or equal to `quant_max`, got {low} and {high}")


def steps(input, scale, zero_point):
    """Quantized values before clamping: round(input / scale) + zero_point."""
    return P.add(P.round(P.mul(input, P.reciprocal(scale) if not is_number(scale) else 1.0 / scale)), zero_point)


@op(method=False, name="_rounded_to_steps")
def rounded_to_steps(input, scale, zero_point, quant_min, quant_max):
    kept = P.minimum(P.maximum(steps(input, scale, zero_point), quant_min), quant_max)
    return P.mul(P.sub(kept, zero_point), scale)


@rule(rounded_to_steps)
def vjp(g, y, input, scale, zero_point, quant_min, quant_max):
    """Straight-through gradient where the value was not clamped (Bengio and others 2013)."""
    at = steps(input, scale, zero_point)
    inside = P.logical_and(P.ge(at, quant_min), P.le(at, quant_max))
    return [P.where(inside, g, 0), *[None for v in (scale, zero_point) if isinstance(v, Tensor)]]


@op(composite=True, method=False)
def fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max):
    """Round elements to multiples of ``scale``, clamped to ``quant_min`` and ``quant_max`` steps from ``zero_point``.
    [*] -> [*].

    The gradient goes straight through, but for what was cut off.  RuntimeError where the bounds leave nothing.

    >>> import rushlight as torch
    >>> torch.fake_quantize_per_tensor_affine(torch.tensor([0.26, -9.0]), 0.1, 0, -10, 10)
    tensor([ 0.3000, -1.0000])
    """
    check_range("fake_quantize_per_tensor_affine", quant_min, quant_max)
    scale, zero_point = (v.to(input.dtype) if isinstance(v, Tensor) and not is_number(v) else real(v)
                         for v in (scale, zero_point))
    return rounded_to_steps(input, scale, zero_point, quant_min, quant_max)


@op(composite=True, method=False)
def fake_quantize_per_channel_affine(input, scale, zero_point, axis, quant_min, quant_max):
    """Like ``fake_quantize_per_tensor_affine``, with a scale and a zero point for each index of dimension ``axis``.
    [*], [n], [n] -> [*]."""
    name = "fake_quantize_per_channel_affine"
    check_range(name, quant_min, quant_max)
    axis = wrapped(axis, input.dim())
    if scale.dim() != 1 or tuple(scale.shape) != tuple(zero_point.shape) or scale.size(0) != input.size(axis):
        raise RuntimeError(
            f"{name}(): scale and zero-point need one element for each of the {input.size(axis)} indices of dimension "
            f"{axis}, "
            f"got {list(scale.shape)} and {list(zero_point.shape)}")
    if zero_point.dtype is not int32 and not zero_point.is_floating_point():
        raise RuntimeError(f"{name}(): zero-point must be Int32, Float or Half, found {zero_point.dtype}")
    sizes = [-1 if k == axis else 1 for k in range(input.dim())]
    return rounded_to_steps(input, scale.to(input.dtype).reshape(sizes), zero_point.to(input.dtype).reshape(sizes),
                            quant_min, quant_max)
