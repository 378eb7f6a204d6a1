"""``torch.ops.quantized``: operators of quantized tensors by name, and prepacked weights."""
from __future__ import annotations

from typing import NamedTuple

from ..core.dtypes import float16, float32
from ..core.interpret import top
from ..core.op import OPS
from ..core.quantized import BOUNDS, PerTensor, qint8
from ..core.tensor import Tensor
from .conv import spread
from .quantized_tensors import numbers_of

F = "nn.functional."
LIBRARY: dict = {}  # name -> function


def entry(*names):
    """Register a function in the library."""
    def enter(function):
        LIBRARY.update(dict.fromkeys(names, function))
        return function
    return enter


def quantize(x, scale, zero_point, dtype):
    return OPS["_quantized"](x, float(scale), int(zero_point), dtype)


def real(x):
    """Dequantize a tensor to float32."""
    return OPS["dequantize"](x)


def scheme_of(x) -> PerTensor:
    found = x._rush_meta.dtype.scheme
    if type(found) is not PerTensor:
        raise RuntimeError(
            "expected a tensor quantized by one scale and one zero point, got "
            f"{x.dtype if found is None else found.kind}")
    return found


# --- weights ----------------------------------------------------------------------------------------------------------
class PackedWeight(NamedTuple):
    """A layer's quantized or float16 weight and its bias, with the values that its matmul or convolution reads.

    ``factor``: [k, n] of a linear layer, [o, c / groups, *kernel] of a convolution, transposed or not, int8;
      ``total``: its sums, ``scales``: [o]; None if zero points are not 0, and the layer computes in float32.
    ``known``: what ``requantizing`` found for scales of inputs and results.
    """

    qweight: Tensor
    bias_values: Tensor | None
    factor: Tensor | None
    total: Tensor | None
    scales: Tensor | None
    known: dict
    strides: tuple = ()
    paddings: tuple = ()
    output_paddings: tuple = ()
    dilations: tuple = ()
    group_count: int = 1
    transposed: bool = False

    def unpack(self):
        """(weight, bias); a weight rounded to float16 is returned as float32"""
        return self.weight(), self.bias_values

    def weight(self):
        return self.qweight.to(float32) if self.qweight.dtype is float16 else self.qweight

    def bias(self):
        return self.bias_values

    def stride(self):
        return list(self.strides)

    def padding(self):
        return list(self.paddings)

    def output_padding(self):
        return list(self.output_paddings)

    def dilation(self):
        return list(self.dilations)

    def groups(self):
        return self.group_count

    def transpose(self):
        return self.transposed

    def __deepcopy__(self, memo):
        return packed(self.qweight.clone(), self.bias_values, self.strides, self.paddings, self.output_paddings,
                      self.dilations, self.group_count, self.transposed)

    def __getstate__(self):
        """(weight and bias, the name of PyTorch's class), as in files; for linear layers."""
        return self.unpack(), "__torch__.torch.classes.quantized.LinearPackedParamsBase"

    @property
    def scripted(self) -> bool:
        """True if files contain it as an object of PyTorch's class."""
        return not self.strides

    def __reduce__(self):
        return packed, (self.qweight, self.bias_values, self.strides, self.paddings, self.output_paddings,
                        self.dilations, self.group_count, self.transposed)


def packed(weight, bias, strides=(), paddings=(), output_paddings=(), dilations=(), groups=1,
           transposed=False) -> PackedWeight:
    """Make a PackedWeight.  RuntimeError for a weight that is neither qint8 nor float16."""
    bias = None if bias is None else bias.detach().to(float32)
    if isinstance(weight, Tensor) and weight.dtype is float16:
        return PackedWeight(weight, bias, None, None, None, {})
    if not isinstance(weight, Tensor) or weight.dtype is not qint8:
        raise RuntimeError(
            f"a quantized layer wants a weight of torch.qint8, got {getattr(weight, 'dtype', type(weight).__name__)}")
    scheme, factor = weight._rush_meta.dtype.scheme, (None, None, None)
    out = weight.size(1) * groups if transposed else weight.size(0)
    tensor_wide = type(scheme) is PerTensor
    if (scheme.zero_point == 0 if tensor_wide else scheme.axis == 0 and not transposed and not any(scheme.zero_points)):
        scales = numbers_of((scheme.scale,) * out if tensor_wide else scheme.scales, float32)
        whole = OPS["int_repr"](weight)
        whole = OPS["_turned_weight"](whole, groups) if transposed else whole
        factor = (*OPS["_int8_operand"](whole), scales) if weight.dim() == 2 else (whole, OPS["_weight_sums"](whole),
                                                                                   scales)
    return PackedWeight(weight, bias, *factor, {}, tuple(strides), tuple(paddings), tuple(output_paddings),
                        tuple(dilations), groups, transposed)


MOST_KNOWN = 64


def requantizing(weight: PackedWeight, x, scale):
    """(shift, multiplier, offset) for an input and the scale of the result."""
    scheme = scheme_of(x)
    given = weight.total, weight.scales, weight.bias_values, scheme.scale, scheme.zero_point, float(scale)
    if top() is not None:
        return OPS["_requantizing"](*given)
    if given[3:] not in weight.known:
        if len(weight.known) >= MOST_KNOWN:
            weight.known.clear()
        weight.known[given[3:]] = OPS["_requantizing"](*given)
    return weight.known[given[3:]]


@entry("linear_prepack", "linear_prepack_legacy")
def linear_prepack(W, B=None):
    """Prepack a linear layer's qint8 weight [n, k] and its bias [n]."""
    return packed(W, B)


@entry("linear_prepack_fp16", "linear_prepack_fp16_legacy")
def linear_prepack_fp16(W, B=None):
    """Prepack a linear layer's float weight [n, k], rounded to float16, and its bias [n]; values that are out of range
    saturate."""
    return packed(W.detach().clamp(-65504.0, 65504.0).to(float16), B)


@entry("linear_unpack", "linear_unpack_fp16", "conv1d_unpack", "conv2d_unpack", "conv3d_unpack",
       "conv_transpose1d_unpack", "conv_transpose2d_unpack", "conv_transpose3d_unpack")
def unpack(W_prepack):
    """(weight, bias) of a prepacked weight."""
    return W_prepack.unpack()


def least(dtype, zero_point, relu):
    """Minimum of a quantized result."""
    return max(BOUNDS[dtype][0], zero_point) if relu else BOUNDS[dtype][0]


def linear_of(relu):
    def linear(X, W_prepack, Y_scale_i, Y_zero_point_i):
        scale, zero_point = float(Y_scale_i), int(Y_zero_point_i)
        if W_prepack.factor is None:
            out = OPS[F + "linear"](real(X), real(W_prepack.qweight), W_prepack.bias_values)
            return quantize(OPS["relu"](out) if relu else out, scale, zero_point, X.dtype)
        return OPS["_quantized_linear"](X, W_prepack.factor, *requantizing(W_prepack, X, scale), scale, zero_point,
                                        least(X.dtype, zero_point, relu), X.dtype)
    linear.__doc__ = f"The linear layer{' and relu' if relu else ''} of a quantized tensor: [*, k] -> [*, n]."
    return linear


LIBRARY.update(linear=linear_of(False), linear_relu=linear_of(True))


@entry("linear_leaky_relu")
def linear_leaky_relu(X, W_prepack, Y_scale_i, Y_zero_point_i, negative_slope):
    """The linear layer and a leaky relu of a quantized tensor."""
    out = OPS[F + "linear"](real(X), real(W_prepack.qweight), W_prepack.bias_values)
    return quantize(OPS[F + "leaky_relu"](out, negative_slope), Y_scale_i, Y_zero_point_i, X.dtype)


def dynamic_of(relu):
    def linear_dynamic(X, W_prepack, reduce_range=False):
        if W_prepack.factor is None:
            out = OPS[F + "linear"](X, real(W_prepack.qweight), W_prepack.bias_values)
        else:
            out = OPS["_dynamic_linear"](X, W_prepack.factor, W_prepack.total, W_prepack.scales, W_prepack.bias_values,
                                         bool(reduce_range))
        return OPS["relu"](out) if relu else out
    linear_dynamic.__doc__ = (
        f"The linear layer{' and relu' if relu else ''} of a float32 tensor that is quantized by its own extremes: "
        "[*, k] -> [*, n].")
    return linear_dynamic


LIBRARY.update(linear_dynamic=dynamic_of(False), linear_relu_dynamic=dynamic_of(True))


def half_of(relu):
    def linear_dynamic_fp16(X, W_prepack):
        out = OPS[F + "linear"](X, *W_prepack.unpack())
        return OPS["relu"](out) if relu else out
    linear_dynamic_fp16.__doc__ = (
        f"The linear layer{' and relu' if relu else ''} of a float32 tensor by a weight that was rounded to the half: "
        "[*, k] -> [*, n].")
    return linear_dynamic_fp16


LIBRARY.update(linear_dynamic_fp16=half_of(False), linear_relu_dynamic_fp16=half_of(True))


def prepack_of(rank, transposed):
    if transposed:
        def prepack(weight, bias, stride, padding, output_padding, dilation, groups):
            sizes = (spread(v, rank, "size") for v in (stride, padding, output_padding, dilation))
            return packed(weight, bias, *sizes, groups, True)
    else:
        def prepack(weight, bias, stride, padding, dilation, groups):
            stride, padding, dilation = (spread(v, rank, "size") for v in (stride, padding, dilation))
            return packed(weight, bias, stride, padding, (0,) * rank, dilation, groups)
    prepack.__doc__ = "A convolution's qint8 weight and its bias, prepared."
    return prepack


def float_convolution(x, weight: PackedWeight):
    """Convolution of a float32 tensor by a dequantized weight."""
    rank = len(weight.strides)
    if weight.transposed:
        return OPS[f"{F}conv_transpose{rank}d"](x, real(weight.qweight), weight.bias_values, weight.strides,
                                                weight.paddings, weight.output_paddings,
                                                weight.group_count, weight.dilations)
    return OPS[f"{F}conv{rank}d"](x, real(weight.qweight), weight.bias_values, weight.strides, weight.paddings,
                                  weight.dilations, weight.group_count)


def whole_steps(rank, name):
    """Convolve a quantized tensor [n, c, *space], or one without n, by a prepacked weight, transposed or not."""
    def run(qx, weight, scale, zero_point, relu):
        if qx.dim() not in (rank + 1, rank + 2):
            raise RuntimeError(f"quantized::{name}: expected an input of {rank + 2} dimensions, got {list(qx.shape)}")
        if weight.factor is None:
            out = float_convolution(real(qx), weight)
            return quantize(OPS["relu"](out) if relu else out, scale, zero_point, qx.dtype)
        single, ins = qx.dim() == rank + 1, weight.factor.size(1) * weight.group_count
        if qx.size(0 if single else 1) != ins:
            raise RuntimeError(f"quantized::{name}: expected {ins} channels, got an input of {list(qx.shape)}")
        x, stride, padding = qx.unsqueeze(0) if single else qx, weight.strides, weight.paddings
        if weight.transposed:
            x = OPS["_spread_image"](x, tuple(weight.factor.shape[2:]), stride, padding, weight.output_paddings,
                                     weight.dilations)
            stride, padding = (1,) * rank, (0,) * rank
        out = OPS["_quantized_convolution"](x, weight.factor, *requantizing(weight, qx, scale), stride, padding,
                                            weight.dilations, weight.group_count, scale, zero_point,
                                            least(qx.dtype, zero_point, relu), qx.dtype)
        return out.squeeze(0) if single else out
    return run


def convolution_of(rank, relu):
    run = whole_steps(rank, f"conv{rank}d")

    def convolution(qx, packed_weight, output_scale, output_zero_point):
        return run(qx, packed_weight, float(output_scale), int(output_zero_point), relu)
    convolution.__doc__ = (
        f"The convolution over {rank} dimensions{' and relu' if relu else ''} of a quantized tensor, channels last in "
        "memory: [n, c, *space] -> [n, o, *out].")
    return convolution


def transpose_of(rank):
    run = whole_steps(rank, f"conv_transpose{rank}d")

    def convolution(qx, packed_weight, output_scale, output_zero_point):
        return run(qx, packed_weight, float(output_scale), int(output_zero_point), False)
    convolution.__doc__ = (f"The transposed convolution over {rank} dimensions of a quantized tensor, channels last in "
                           "memory: [n, c, *space] -> [n, o, *out].")
    return convolution


def dynamic_convolution(x, packed_weight, reduce_range=True):
    """The convolution, or the transposed one, of a float32 tensor that is quantized by its own extremes: float32."""
    weight = packed_weight
    if weight.factor is None:
        return float_convolution(x, weight)
    return OPS["_dynamic_convolution"](x, weight.factor, weight.total, weight.scales, weight.bias_values,
                                       bool(reduce_range), weight.strides, weight.paddings, weight.output_paddings,
                                       weight.dilations, weight.group_count, weight.transposed)


def enter_convolutions():
    for rank in (1, 2, 3):
        LIBRARY.update({f"conv{rank}d": convolution_of(rank, False), f"conv{rank}d_relu": convolution_of(rank, True),
                        f"conv{rank}d_prepack": prepack_of(rank, False),
                        f"conv_transpose{rank}d": transpose_of(rank),
                        f"conv_transpose{rank}d_prepack": prepack_of(rank, True),
                        f"conv{rank}d_dynamic": dynamic_convolution,
                        f"conv_transpose{rank}d_dynamic": dynamic_convolution})


enter_convolutions()


# --- elementwise operators, and those computed in float32 -------------------------------------------------------------
def combined(operator, relu):
    def run(qa, qb, scale=None, zero_point=None):
        if not isinstance(qb, Tensor):
            return scalar_of(operator, relu)(qa, qb)
        return OPS["_quantized_pair"](qa, qb, operator, bool(relu), float(scale), int(zero_point), qa.dtype)
    run.__doc__ = (
        f"{operator} of two quantized tensors, or of one and a number,{' and relu' if relu else ''} quantized.")
    return run


LIBRARY.update({name + ("_relu" if relu else ""): combined(name, relu) for name in ("add", "mul")
                for relu in (False, True)})


@entry("matmul")
def matmul(qa, qb, scale, zero_point):
    """Multiply two quantized matrices; the result is quantized."""
    return OPS["_quantized_matmul"](qa, qb, float(scale), int(zero_point), qa.dtype)


def scalar_of(operator, relu):
    def run(qa, b):
        found, number = scheme_of(qa), float(b)
        low, high = BOUNDS[qa.dtype]
        if operator == "mul":
            out = scaled(qa, found, number, low, high)
        else:
            out = shifted(qa, found, round(number / found.scale), low, high)
        return OPS["relu"](out) if relu else out
    run.__doc__ = (
        f"{operator} of a quantized tensor and a number{' and relu' if relu else ''}: another scale or zero point.")
    return run


def scaled(qa, found, number, low, high):
    """Multiply a quantized tensor by a number: the scale changes."""
    if number > 0:
        return OPS["_with_meaning"](OPS["_whole_numbers"](qa), found.scale * number, found.zero_point, qa.dtype).clone()
    if number == 0:
        return quantize(real(qa) * 0.0, 1.0, 0, qa.dtype)
    return quantize(real(qa) * number, abs(number) * found.scale, high - found.zero_point + low, qa.dtype)


def shifted(qa, found, steps, low, high):
    """Add ``steps`` to a quantized tensor by changing the zero point, or the scale if that cannot change."""
    zero = found.zero_point - steps
    if low <= zero <= high:
        return OPS["_with_meaning"](OPS["_whole_numbers"](qa), found.scale, zero, qa.dtype).clone()
    edge = low if zero < low else high
    span = (high - low) + abs(zero - edge)
    return quantize(real(qa) + steps * found.scale, span / (high - low) * found.scale, edge, qa.dtype)


LIBRARY.update({f"{name}_scalar{'_relu' if relu else ''}": scalar_of(name, relu) for name in ("add", "mul")
                for relu in (False, True)})


def joined(relu):
    def cat(qx, dim, scale=None, zero_point=None):
        found = scheme_of(qx[0])
        scale, zero_point = found.scale if scale is None else float(
            scale), found.zero_point if zero_point is None else int(zero_point)
        wanted = PerTensor(scale, zero_point)
        parts = [x if scheme_of(x) == wanted and x.dtype is qx[0].dtype
                 else quantize(real(x), scale, zero_point, qx[0].dtype) for x in qx]
        out = OPS["cat"](parts, dim)
        return OPS["relu"](out) if relu else out
    cat.__doc__ = f"Quantized tensors side by side{' and relu' if relu else ''}, quantized in one way."
    return cat


LIBRARY.update(cat=joined(False), cat_relu=joined(True))


def through(name, operator, order=()):
    """Operator on quantized tensors that computes in float32; its scale and zero point are its last arguments, or at
    ``order``."""
    def run(input, *args, **kwargs):
        args = list(args)
        scale = kwargs.pop("output_scale", None) if "output_scale" in kwargs else args.pop(order[0] if order else -2)
        zero_point = kwargs.pop("output_zero_point",
                                None) if "output_zero_point" in kwargs else args.pop(order[0] if order else -1)
        return quantize(OPS[operator](real(input), *args, **kwargs), scale, zero_point, input.dtype)
    run.__doc__ = f"{name} of a quantized tensor, quantized."
    return run


LIBRARY.update({name: through(name, operator, order) for name, operator, order in (
    ("hardswish", F + "hardswish", ()), ("sigmoid", "sigmoid", ()), ("elu", F + "elu", (0,)),
    ("celu", F + "celu", (0,)), ("softmax", F + "softmax", ()),
    ("layer_norm", F + "layer_norm", ()), ("group_norm", F + "group_norm", ()), ("prelu", F + "prelu", ()))})


@entry("leaky_relu")
def leaky_relu(qx, negative_slope, inplace, output_scale, output_zero_point):
    """A leaky relu of a quantized tensor, quantized."""
    return quantize(OPS[F + "leaky_relu"](real(qx), negative_slope), output_scale, output_zero_point, qx.dtype)


@entry("instance_norm")
def instance_norm(input, weight, bias, eps, output_scale, output_zero_point):
    """An instance norm of a quantized tensor, quantized."""
    out = OPS[F + "instance_norm"](real(input), None, None, weight, bias, True, 0.0, eps)
    return quantize(out, output_scale, output_zero_point, input.dtype)


@entry("relu6")
def relu6(qx, inplace=False):
    """relu6 of a quantized tensor."""
    return OPS[F + "relu6"](qx)


@entry("clamp")
def clamp(qx, min=None, max=None):
    """Clamp a quantized tensor to numbers."""
    return OPS["clamp"](qx, min, max)


def normalized(relu):
    def batch_norm(qx, weight, bias, mean, var, eps, output_scale, output_zero_point):
        scale = OPS["rsqrt"](var + eps) if weight is None else weight * OPS["rsqrt"](var + eps)
        shift = -mean * scale if bias is None else bias - mean * scale
        shape = [1, -1] + [1] * (qx.dim() - 2)
        out = real(qx) * scale.reshape(shape) + shift.reshape(shape)
        return quantize(OPS["relu"](out) if relu else out, output_scale, output_zero_point, qx.dtype)
    batch_norm.__doc__ = (
        f"A batch norm by known statistics{' and relu' if relu else ''} of a quantized tensor, quantized.")
    return batch_norm


LIBRARY.update({f"batch_norm{rank}{'_relu' if relu else ''}": normalized(relu) for rank in ("", "1d", "2d", "3d")
                for relu in (False, True)})
