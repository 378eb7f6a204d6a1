"""Quantized values in ONNX: QuantizeLinear and DequantizeLinear where their semantics agree."""

from __future__ import annotations

from .._src.core.dtypes import float32, int8, limits_of, uint8
from .._src.core.tensor import Tensor
from .._src.graph.graph import Node
from .rules import rule

NAMES = tuple(f"quantized_decomposed.{kind}_per_{what}" for kind in ("quantize", "dequantize")
              for what in ("tensor", "channel"))


def kept(op, args, kwargs) -> bool:
    """Whether a call is written as one operator of ONNX, not by its body: for bytes, of float32."""
    if op.name not in NAMES:
        return False
    input, _, zero, *_ = args if len(args) > 2 else (None, None, None)
    bytes_wanted = any(a is one for a in (*args, kwargs.get("dtype")) for one in (int8, uint8))
    if not bytes_wanted or zero is None or not isinstance(input, Tensor):
        return False
    return kwargs.get("out_dtype") in (None, float32) and input.dtype in (float32, int8, uint8)


def number(w, value, dtype, shape):
    """A scale or zero point, a number or a tensor, in a dtype; ``shape``: () for all elements, (-1,) along an axis."""
    if not isinstance(value, Node):
        return w.constant(value, dtype)
    name = w.names[value] if value.dtype is dtype else w.cast(w.names[value], dtype)
    return w.emit("Reshape", name, w.vector(shape))


def operands(w, scale, zero, dtype, axis):
    shape = () if axis is None else (-1,)
    return number(w, scale, float32, shape), number(w, zero, dtype, shape)


def quantize(w, input, scale, zero, low, high, dtype, axis=None):
    along = {} if axis is None else {"axis": axis}
    made = w.emit("QuantizeLinear", w.names[input], *operands(w, scale, zero, dtype, axis), **along)
    least, most = limits_of(dtype)
    if (low, high) == (least, most):
        return made
    return w.emit("Clip", made, w.constant(max(low, least), dtype), w.constant(min(high, most), dtype))


def dequantize(w, input, scale, zero, dtype, axis=None):
    along = {} if axis is None else {"axis": axis}
    return w.emit("DequantizeLinear", w.names[input], *operands(w, scale, zero, dtype, axis), **along)


@rule(NAMES[0])
def quantize_per_tensor(w, node, input, scale, zero_point, quant_min, quant_max, dtype):
    return quantize(w, input, scale, zero_point, quant_min, quant_max, dtype)


@rule(NAMES[1])
def quantize_per_channel(w, node, input, scales, zero_points, axis, quant_min, quant_max, dtype):
    return quantize(w, input, scales, zero_points, quant_min, quant_max, dtype, axis % len(node.meta.shape))


@rule(NAMES[2])
def dequantize_per_tensor(w, node, input, scale, zero_point, quant_min, quant_max, dtype, out_dtype=None):
    return dequantize(w, input, scale, zero_point, dtype)


@rule(NAMES[3])
def dequantize_per_channel(w, node, input, scales, zero_points, axis, quant_min, quant_max, dtype, out_dtype=None):
    return dequantize(w, input, scales, zero_points, dtype, axis % len(node.meta.shape))
