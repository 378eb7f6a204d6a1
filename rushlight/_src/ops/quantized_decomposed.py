"""``torch.ops.quantized_decomposed``: quantize and dequantize between ordinary integer and float tensors, with scales
and zero points as arguments.  Programs that were quantized after export (PT2E) call these operators."""
from __future__ import annotations

from ..core.dtypes import bfloat16, float16, float32, float64, int8, int16, int32, int64, limits_of, uint8
from ..core.kinds import P
from ..core.meta import product
from ..core.op import op
from ..core.runtime import has_value
from ..core.tensor import Tensor, wrapped
from .quantized import channels_first, channels_last, whole_convolution
from .rounding import rounded_to_steps

NAMESPACE = "quantized_decomposed"
EPSILON = 2.0 ** -23


def check_bounds(name, low, high, dtype):
    """Raise AssertionError, as PyTorch does, unless ``dtype`` is an integer dtype that holds both bounds."""
    if dtype not in (uint8, int8, int16, int32):
        raise AssertionError(f"{name}: unsupported dtype: {dtype}; it wants uint8, int8, int16 or int32")
    least, most = limits_of(dtype)
    if has_value(low) and low < least or has_value(high) and high > most:
        raise AssertionError(f"{name}: {dtype} has the range {least} to {most}, got bounds of {low} and {high}")


def check_elements(name, x, dtype):
    """Raise AssertionError unless ``x`` has the integer dtype ``dtype``."""
    if x.dtype is not dtype:
        raise AssertionError(f"Expecting input to have dtype: {dtype}, but got {x.dtype} in {name}")


def lone(name, what, value, dtype):
    """Return a number, or a one-element tensor as a 0-dim tensor of a dtype."""
    if not isinstance(value, Tensor):
        return float(value)
    if product(value.shape) != 1:
        raise AssertionError(f"{name}: expecting {what} tensor to be one element, but received : {list(value.shape)}")
    return P.convert(P.reshape(value, shape=()), dtype=dtype)


def floats(x):
    """Convert 16-bit floats to float32.  AssertionError for other dtypes than floats."""
    if x.dtype in (float16, bfloat16):
        return P.convert(x, dtype=float32)
    if x.dtype is not float32:
        raise AssertionError(f"Expecting input to have dtype torch.float32, but got dtype: {x.dtype}")
    return x


def inverse_of(scale):
    """1 / scale as float32, of a number or a floating tensor."""
    if not isinstance(scale, Tensor):
        return 1.0 / scale
    if scale.dtype is float32:
        return P.reciprocal(scale)
    return P.convert(P.reciprocal(P.convert(scale, dtype=float64)), dtype=float32)


def cut(x, low, high, dtype):
    """Clamp a rounded tensor to ``low`` .. ``high`` and convert it to the integer dtype ``dtype``."""
    return P.convert(P.minimum(P.maximum(x, low), high), dtype=dtype)


def along(values, x, axis):
    """Reshape [n] to broadcast along dimension ``axis`` of another tensor."""
    return P.reshape(values, shape=tuple(x.shape[k] if k == axis else 1 for k in range(len(x.shape))))


@op(namespace=NAMESPACE, autocast=None)
def quantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype):
    """Return round(input / scale) + zero_point, clamped to the bounds; scale and zero point have one element."""
    name = "quantize_per_tensor"
    check_bounds(name, quant_min, quant_max, dtype)
    steps = P.round(P.mul(floats(input), inverse_of(lone(name, "scale", scale, float64))))
    low, high = (lone(name, "bound", v, float32) for v in (quant_min, quant_max))
    return cut(P.add(steps, lone(name, "zero_point", zero_point, float32)), low, high, dtype)


@op(namespace=NAMESPACE, autocast=None)
def dequantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, *, out_dtype=None):
    """Return (input - zero_point) * scale as ``out_dtype`` (default: float32)."""
    name = "dequantize_per_tensor"
    check_elements(name, input, dtype)
    check_bounds(name, quant_min, quant_max, dtype)
    real = out_dtype or float32
    zero, scale = lone(name, "zero_point", zero_point, real), lone(name, "scale", scale, real)
    x = P.convert(input, dtype=real)
    return P.mul(x if not isinstance(zero, Tensor) and zero == 0 else P.sub(x, zero), scale)


@op(namespace=NAMESPACE, autocast=None)
def quantize_per_channel(input, scales, zero_points, axis, quant_min, quant_max, dtype):
    """Like ``quantize_per_tensor`` with a scale and zero point for each index of a dimension: [*], [n], [n] -> [*]."""
    name = "quantize_per_channel"
    check_bounds(name, quant_min, quant_max, dtype)
    axis = wrapped(axis, len(input.shape))
    steps = P.round(P.mul(floats(input), along(inverse_of(scales), input, axis)))
    zero = along(P.convert(zero_points, dtype=float32), input, axis)
    return cut(P.add(steps, zero), float(quant_min), float(quant_max), dtype)


@op(namespace=NAMESPACE, autocast=None)
def dequantize_per_channel(input, scales, zero_points, axis, quant_min, quant_max, dtype, *, out_dtype=None):
    """Like ``dequantize_per_tensor`` with a scale for each index of a dimension, and optional zero points."""
    check_elements("dequantize_per_channel", input, dtype)
    check_bounds("dequantize_per_channel", quant_min, quant_max, dtype)
    axis, real = wrapped(axis, len(input.shape)), out_dtype or float32
    x = P.convert(input, dtype=float32)
    if zero_points is not None:
        x = P.sub(x, along(P.convert(zero_points, dtype=float32), input, axis))
    x = P.mul(x, along(P.convert(scales, dtype=float32), input, axis))
    return x if real is float32 else P.convert(x, dtype=real)


def extremes(input, dims, keepdim=False):
    """(minimum or 0, maximum or 0) of floats, as float32: a range that includes 0."""
    x = floats(input)
    low, high = P.minimum(P.amin(x, dims), 0.0), P.maximum(P.amax(x, dims), 0.0)
    shape = tuple(1 if k in dims else size for k, size in enumerate(x.shape)) if keepdim else None
    return tuple(P.reshape(v, shape=shape) for v in (low, high)) if keepdim else (low, high)


def check_choice(name, input, low, high, dtype):
    """RuntimeError if no scale can be chosen: no elements, or empty bounds."""
    check_bounds(name, low, high, dtype)
    if not product(input.shape):
        raise RuntimeError(f"{name}: cannot compute aminmax over an empty tensor, which has no extremes")
    if low >= high:
        raise AssertionError(f"{name}: qmin must be less than qmax, got {low} and {high}")


def chosen(scale, zero):
    """A scale and a zero point as float64 [1] and int64 [1]."""
    return P.convert(P.reshape(scale, shape=(1,)), dtype=float64), P.convert(P.reshape(zero, shape=(1,)), dtype=int64)


@op(namespace=NAMESPACE, autocast=None)
def choose_qparams(input, quant_min, quant_max, eps, dtype):
    """Return (scale: float64 [1], zero point: int64 [1]) that map a tensor's range to quant_min .. quant_max."""
    check_choice("choose_qparams", input, quant_min, quant_max, dtype)
    low, high = extremes(input, tuple(range(len(input.shape))))
    scale = P.maximum(P.div(P.sub(high, low), float(quant_max - quant_min)), float(eps))
    zero = P.sub(float(quant_min), P.round(P.div(low, scale)))
    return chosen(scale, P.minimum(P.maximum(zero, float(quant_min)), float(quant_max)))


@op(namespace=NAMESPACE, autocast=None)
def choose_qparams_symmetric(input, quant_min, quant_max, eps, dtype):
    """Like ``choose_qparams`` with bounds symmetric around 0: the zero point is 0 (128 for uint8)."""
    check_choice("choose_qparams_symmetric", input, quant_min, quant_max, dtype)
    low, high = extremes(input, tuple(range(len(input.shape))))
    scale = P.maximum(P.div(P.maximum(P.neg(low), high), float(quant_max - quant_min) / 2), float(eps))
    return chosen(scale, P.full(shape=(1,), value=128 if dtype is uint8 else 0, dtype=int64))


@op(namespace=NAMESPACE, autocast=None)
def choose_qparams_per_token(input, dtype):
    """(scales, zero points) for each row of the last dimension, symmetric around 0: [*, k] -> [*, 1] twice."""
    if dtype is not int8:
        raise Exception(f"unsupported dtype in choose_qparams_per_token: {dtype}")
    last = len(input.shape) - 1
    wide = bfloat16 if input.dtype is bfloat16 else float32
    most = P.reshape(P.amax(P.abs(floats(input)), (last,)), shape=(*input.shape[:-1], 1))
    scales = P.div(P.maximum(most, 1e-5), 127.0)
    scales = P.convert(scales, dtype=wide) if wide is not float32 else scales
    return scales, P.mul(P.convert(P.eq(scales, scales), dtype=wide), 0.0)


@op(namespace=NAMESPACE, autocast=None)
def choose_qparams_per_token_asymmetric(input, dtype):
    """(scales, zero points) for each row of the last dimension and integers from -128 to 127: [*, k] -> float64 and
    int64 [*, 1]."""
    low, high = extremes(input, (len(input.shape) - 1,), True)
    scale = P.maximum(P.div(P.sub(high, low), 255.0), EPSILON)
    from_low, from_high = P.div(low, scale), P.div(high, scale)
    by_low = P.gt(P.add(P.add(from_low, -128.0), P.add(from_high, 127.0)), 0.0)
    zero = P.where(by_low, P.sub(-128.0, from_low), P.sub(127.0, from_high))
    zero = P.round(P.minimum(P.maximum(zero, -128.0), 127.0))
    return P.convert(scale, dtype=float64), P.convert(zero, dtype=int64)


def check_tokens(input, scales, zero_points):
    """AssertionError unless there is one scale and zero point for each row."""
    rows = product(input.shape[:-1])
    for what, values in (("scales", scales), ("zero_points", zero_points)):
        if product(values.shape) != rows:
            raise AssertionError(f"num_tokens: {rows} {what}: {list(values.shape)}")


@op(namespace=NAMESPACE, autocast=None)
def quantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype):
    """Quantize with a scale for each row, round(input / scale + zero_point): [*, k], [*, 1] -> [*, k]."""
    check_bounds("quantize_per_token", quant_min, quant_max, dtype)
    check_tokens(input, scales, zero_points)
    wide = float64 if float64 in (input.dtype, scales.dtype) else float32
    x, scales, zero = (P.convert(v, dtype=wide) for v in (input, scales, zero_points))
    x = P.round(P.add(P.mul(x, P.reciprocal(scales)), zero))
    return cut(x, float(quant_min), float(quant_max), dtype)


@op(namespace=NAMESPACE, autocast=None)
def dequantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype, output_dtype=float32):
    """Dequantize with a scale for each row: [*, k], [*, 1] -> [*, k]."""
    wide = float64 if scales.dtype is float64 else float32
    x = P.convert(P.sub(P.convert(input, dtype=wide), P.convert(zero_points, dtype=wide)), dtype=wide)
    return P.convert(P.mul(x, P.convert(scales, dtype=wide)), dtype=output_dtype)


def grouped(name, x, scales, group_size):
    """(the size of groups, the matrix as [groups, size])."""
    if group_size <= 1:
        raise AssertionError("group_size must be > 1")
    if len(x.shape) != 2:
        raise AssertionError(f"{name}: input must be 2-dimensional, got {list(x.shape)}")
    size = x.shape[-1] if group_size > x.shape[-1] and scales.shape[-1] == 1 else group_size
    if x.shape[-1] % size:
        raise AssertionError(f"{name}: input.shape[-1] must be divisible by group_size, got {x.shape[-1]} and {size}")
    return P.reshape(x, shape=(product(x.shape) // size, size))


def column(values):
    """[...] -> float32 [n, 1]: one number for each row."""
    return P.reshape(P.convert(values, dtype=float32), shape=(product(values.shape), 1))


@op(namespace=NAMESPACE, autocast=None)
def quantize_per_channel_group(input, scales, zero_points, quant_min, quant_max, dtype, group_size=128):
    """Quantize a matrix, round(input / scale + zero_point), with a scale for each ``group_size`` adjacent elements of a
    row: [m, n], [m, n / group_size] twice -> [m, n]."""
    x = grouped("quantize_per_channel_group", floats(input), scales, group_size)
    x = P.round(P.add(P.mul(x, P.reciprocal(column(scales))), column(zero_points)))
    return P.reshape(cut(x, float(quant_min), float(quant_max), dtype), shape=tuple(input.shape))


@op(namespace=NAMESPACE, autocast=None)
def dequantize_per_channel_group(w_int8, scales, zero_points, quant_min, quant_max, dtype, group_size=128,
                                 output_dtype=float32):
    """Dequantize a matrix with a scale for each ``group_size`` adjacent elements of a row."""
    x = P.convert(grouped("dequantize_per_channel_group", w_int8, scales, group_size), dtype=float32)
    x = x if zero_points is None else P.sub(x, column(zero_points))
    return P.convert(P.reshape(P.mul(x, column(scales)), shape=tuple(w_int8.shape)), dtype=output_dtype)


@op(namespace=NAMESPACE, autocast=None)
def fake_quant_per_channel(input, scales, zero_points, axis, quant_min, quant_max):
    """Round floats to multiples of a scale for each index of a dimension; the straight-through gradient is 0 for
    clamped elements."""
    if input.dtype is not float32:
        raise AssertionError(f"Expecting input to have dtype torch.float32, but got dtype: {input.dtype}")
    scales, zero_points = (along(P.convert(v, dtype=float32), input, wrapped(axis, len(input.shape)))
                           for v in (scales, zero_points))
    return rounded_to_steps(input, scales, zero_points, quant_min, quant_max)


@op(namespace=NAMESPACE, autocast=None)
def convert_element_type(input, dtype):
    """Convert a tensor to a dtype.  Passes over quantized programs do not move this operator."""
    return P.convert(input, dtype=dtype)


# --- integer layers with float results --------------------------------------------------------------------------------
def of_sums(sums, shift, multiplier, bias):
    """(sums + shift) * multiplier + bias, float32: int32 [*, n], int32 [n] or None, float32 [n], float32 [n] or
    None."""
    x = P.mul(P.convert(sums if shift is None else P.add(sums, shift), dtype=float32), multiplier)
    return x if bias is None else P.add(x, bias)


@op(method=False, autocast=None, name="_decomposed_terms")
def terms(total, scales, zero_point, scale):
    """(shift, multiplier) of ``of_sums`` for weights with these sums and scales, int32 and float32 [n], and an input
    with one scale and zero point."""
    return P.mul(total, -zero_point), P.mul(scales, scale)


@op(method=False, autocast=None, name="_decomposed_linear")
def whole_linear(input, factor, shift, multiplier, bias):
    """Integer linear layer, [*, k] by int8 [k, n], with float results [*, n]; other arguments as in ``of_sums``."""
    depth, columns = factor.shape
    sums = P.int_matmul(P.reshape(input, shape=(product(input.shape[:-1]), depth)), factor)
    return P.reshape(of_sums(sums, shift, multiplier, bias), shape=(*input.shape[:-1], columns))


@op(method=False, autocast=None, name="_decomposed_linear_dynamic")
def whole_linear_dynamic(input, factor, total, scales, scale, zero_point, bias):
    """``whole_linear`` of an input whose scale and zero point are one-element tensors, known at run time; sums of
    weights and their scales: int32 [n] and float32 [n]."""
    zero = P.convert(P.reshape(zero_point, shape=()), dtype=int32)
    scale = lone("linear", "scale", scale, float32)
    return whole_linear.body(input, factor, P.mul(total, P.neg(zero)), P.mul(scales, scale), bias)


@op(method=False, autocast=None, name="_decomposed_convolution")
def whole_convolution_layer(input, weight, shift, multiplier, bias, stride, padding, dilation, groups, zero_point):
    """Integer convolution of [n, c, *space], channels-last, by int8 weights with float results [n, o, *out]; other
    arguments as in ``of_sums``."""
    sums = whole_convolution(channels_last(input), weight, stride, padding, dilation, groups, zero_point)
    return channels_first(of_sums(sums, shift, multiplier, bias))


@op(method=False, autocast=None, name="_decomposed_matmul")
def whole_matmul(input, other, zero_point, other_zero, scale):
    """Integer matmul [*, m, k] @ [*, k, n], with one zero point for each operand, as floats: the sums times a scale."""
    sums, rank = P.int_matmul(input, other), len(input.shape)
    if zero_point:
        sums = P.sub(sums, P.mul(P.sum(P.convert(other, dtype=int32), (rank - 2,)), zero_point))
    if other_zero:
        sums = P.sub(sums, P.mul(P.sum(P.convert(input, dtype=int32), (rank - 1,)), other_zero))
    if zero_point and other_zero:
        sums = P.add(sums, input.shape[-1] * zero_point * other_zero)
    return P.mul(P.convert(sums, dtype=float32), scale)
