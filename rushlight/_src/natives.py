"""PyTorch's top-level operators that are compositions of others."""
from __future__ import annotations

import threading

from ..nn import functional as F
from .autograd.mode import no_grad
from .checks import sym_constrain_range, sym_constrain_range_for_size  # noqa: F401
from .core.errors import NoDeviceError
from .core.native import Tensor
from .core.op import OPS
from .core.overriding import overridable


def written(name: str):
    """Return a function of ``nn.functional`` that writes its result into its input: ``f(input, p, train)``."""
    def call(input, p, train):
        if input.requires_grad and not input.is_leaf or not input.requires_grad:
            return getattr(F, name)(input, p, train, inplace=True)
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")

    call.__name__ = call.__qualname__ = f"{name}_"
    call.__doc__ = f"``nn.functional.{name}``, written into ``input``."
    return call


dropout_, alpha_dropout_ = written("dropout"), written("alpha_dropout")
feature_alpha_dropout_ = written("feature_alpha_dropout")


def feature_dropout_(input, p, train):
    """Zero random channels, the second dimension, in place."""
    if train and p:
        shape = (*input.shape[:2], *(1,) * (input.ndim - 2))
        kept = OPS["bernoulli"](OPS["full"](shape, 1 - p, dtype=input.dtype))
        input.mul_(kept / (1 - p) if p < 1 else kept)
    return input


def rrelu_(input, lower=1 / 8, upper=1 / 3, training=False, generator=None):
    """``nn.functional.rrelu``, written into ``input``."""
    return F.rrelu(input, lower, upper, training, inplace=True)


def method(name: str, text: str, original: str | None = None):
    """Return a method of tensors as a function."""
    def call(input, *args, **kwargs):
        return getattr(Tensor, original or name)(input, *args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = text
    return overridable(call)


i0_ = method("i0_", "``i0``, written into ``input``.")
int_repr = method("int_repr", "The whole numbers in memory of a quantized tensor.")
q_scale = method("q_scale", "The scale of a quantized tensor.")
q_zero_point = method("q_zero_point", "The number that stands for 0 in a quantized tensor.")
q_per_channel_scales = method("q_per_channel_scales", "The scales of the channels of a quantized tensor.")
q_per_channel_zero_points = method("q_per_channel_zero_points", "What stands for 0 in each channel.")
q_per_channel_axis = method("q_per_channel_axis", "The dimension of channels of a quantized tensor.")
resize_as_sparse_ = method("resize_as_sparse_", "Gives a sparse tensor the size of another.")


def copied(name: str):
    """Return a component of a sparse tensor, as a copy."""
    def call(input):
        return getattr(input, name)().clone()

    call.__name__ = call.__qualname__ = f"{name}_copy"
    call.__doc__ = f"``Tensor.{name}()`` as a copy."
    return overridable(call)


indices_copy, values_copy = copied("indices"), copied("values")
crow_indices_copy, col_indices_copy = copied("crow_indices"), copied("col_indices")
ccol_indices_copy, row_indices_copy = copied("ccol_indices"), copied("row_indices")


def affine_grid_generator(theta, size, align_corners):
    """``nn.functional.affine_grid``."""
    return F.affine_grid(theta, size, align_corners)


def native_channel_shuffle(input, groups):
    """``channel_shuffle``."""
    return OPS["channel_shuffle"](input, groups)


def native_norm(input, p=2, dim=None, keepdim=False, dtype=None):
    """``norm``; over all dimensions without ``dim``."""
    return OPS["norm"](input, p, dim, keepdim, dtype=dtype) if dim else OPS["norm"](input, p, dtype=dtype)


@overridable
def conv_tbc(input, weight, bias, pad=0):
    """A convolution over time: ``input`` is (T, B, C), ``weight`` (kernel, C, out), the result (T', B, out)."""
    return F.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, 1, pad).permute(2, 0, 1)


def mkldnn_convolution(input, weight, bias, padding, stride, dilation, groups):
    """A convolution over one to three dimensions, with arguments in oneDNN's order."""
    return OPS["convolution"](input, weight, bias, stride, padding, dilation, False, [0] * len(padding), groups)


def embedding_renorm_(weight, indices, max_norm, norm_type=2.0):
    """Scale the rows of ``weight`` at ``indices`` to a norm of at most ``max_norm``, in place."""
    rows = OPS["unique"](indices.reshape(-1))
    norms = OPS["norm"](weight.detach()[rows], norm_type, 1, True)
    scale = OPS["where"](norms > max_norm, max_norm / (norms + 1e-7), 1.0).to(weight.dtype)
    with no_grad():
        weight[rows] = weight[rows] * scale
    return weight


@overridable
def batch_norm_update_stats(input, running_mean, running_var, momentum):
    """Mean of each channel, the second dimension, and the variance (divided by the count less 1); the running
    statistics, if given, are updated."""
    if not input.numel():
        raise RuntimeError(
            f"input tensor must have at least one element, but got input_sizes = {list(input.shape)}")
    dims = [d for d in range(input.ndim) if d != 1]
    mean, var = OPS["mean"](input, dims), OPS["var"](input, dims, correction=0)
    count = input.numel() // input.shape[1]
    for running, now in ((running_mean, mean), (running_var, var * (count / max(count - 1, 1)))):
        if running is not None:
            running.mul_(1 - momentum).add_(now * momentum)
    return mean, var


@overridable
def is_distributed(input) -> bool:
    """Return False: plain tensors are not distributed."""
    return False


def is_vulkan_available() -> bool:
    """Return False: there is no Vulkan device."""
    return False


def compiled_with_cxx11_abi() -> bool:
    """Return True: PyTorch's builds use the C++11 ABI."""
    return True


@overridable
def slice_inverse(input, src, dim=0, start=None, end=None, step=1):
    """``src``, the inverse of taking it as a slice of ``input``."""
    return src.expand(src.shape)


class Nesting(threading.local):
    """Number of autocast blocks that a thread has counted."""

    depth = 0


nesting = Nesting()


def autocast_increment_nesting() -> int:
    """Count one more autocast block; returns how deep they are nested."""
    nesting.depth += 1
    return nesting.depth


def autocast_decrement_nesting() -> int:
    """Count one less autocast block; returns how deep they are nested."""
    nesting.depth -= 1
    return nesting.depth


def set_anomaly_enabled(mode: bool, check_nan: bool = True):
    """Turn anomaly detection of NaN in backward passes on or off."""
    from .autograd.anomaly import set_detect_anomaly
    set_detect_anomaly(mode, check_nan)


def quantized_max_pool(dims: int):
    """Maximum pooling of the integers of quantized tensors."""
    def call(input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        found = getattr(F, f"max_pool{dims}d")(input.dequantize(), kernel_size, stride or None, padding, dilation,
                                               ceil_mode)
        return OPS["quantize_per_tensor"](found, input.q_scale(), input.q_zero_point(), input.dtype)

    call.__name__ = call.__qualname__ = f"quantized_max_pool{dims}d"
    call.__doc__ = f"Maximum pooling over {dims} dimensions of a quantized tensor."
    return overridable(call)


quantized_max_pool1d, quantized_max_pool2d, quantized_max_pool3d = map(quantized_max_pool, (1, 2, 3))


@overridable
def quantized_batch_norm(input, weight, bias, mean, var, eps, output_scale, output_zero_point):
    """Batch norm of a quantized tensor with given statistics, quantized with another scale and zero."""
    found = F.batch_norm(input.dequantize(), mean, var, weight, bias, False, 0.0, eps)
    return OPS["quantize_per_tensor"](found, output_scale, output_zero_point, input.dtype)


@overridable
def fused_moving_avg_obs_fake_quant(input, observer_on, fake_quant_on, running_min, running_max, scale, zero_point,
                                    averaging_const, quant_min, quant_max, ch_axis, per_row_fake_quant=False,
                                    symmetric_quant=False):
    """Update the moving minimum and maximum from ``input`` (if ``observer_on`` is 1), then scale and zero point, all in
    place, and return ``input``, quantized and dequantized if ``fake_quant_on`` is 1."""
    if observer_on.item():
        observe(input.detach(), running_min, running_max, averaging_const, ch_axis if per_row_fake_quant else None)
        numbers = limits(running_min, running_max, quant_min, quant_max, symmetric_quant)
        for target, found in zip((scale, zero_point), numbers):
            target.resize_(found.shape).copy_(found)
    if not fake_quant_on.item():
        return input
    scale, zero_point = scale.clone(), zero_point.clone()  # current values: the next call overwrites them
    if per_row_fake_quant:
        return OPS["fake_quantize_per_channel_affine"](input, scale, zero_point, ch_axis, quant_min, quant_max)
    return OPS["fake_quantize_per_tensor_affine"](input, scale, zero_point, quant_min, quant_max)


def observe(input, running_min, running_max, constant, axis):
    """Update the moving minimum and maximum from a tensor; infinite ones are replaced."""
    rows = input.reshape(1, -1) if axis is None else input.movedim(axis, 0).reshape(input.shape[axis], -1)
    for running, now in ((running_min, rows.amin(1)), (running_max, rows.amax(1))):
        if running.numel() != now.numel():
            running.resize_(now.shape).fill_(float("inf"))
        before, now = running.clone(), now.reshape(running.shape)
        running.copy_(OPS["where"](before.isinf(), now, before + constant * (now - before)))


def limits(low, high, quant_min, quant_max, symmetric):
    """Scale and zero point for the range between two numbers, extended to include 0."""
    low, high = low.clamp_max(0), high.clamp_min(0)
    if symmetric:
        half = (quant_max - quant_min) // 2
        scale = OPS["maximum"](-low / (half + 1), high / half)
        zero = OPS["full_like"](scale, 0 if quant_min < 0 else (quant_max + quant_min + 1) // 2)
    else:
        scale = (high - low) / (quant_max - quant_min)
        scale = scale.clamp_min(1.1920928955078125e-07)
        zero = (quant_min - (low / scale).round()).clamp(quant_min, quant_max)
    return scale.clamp_min(1.1920928955078125e-07), zero


def on_gpu(name: str):
    """An operator that PyTorch has only for GPUs: there, too, it raises an error on the CPU."""
    def call(*args, **kwargs):
        raise NoDeviceError(f"Could not run 'aten::{name}' with arguments from the 'CPU' backend: it is an operator of "
                            "libraries for GPUs; the operator without the prefix is for every device")

    call.__name__ = call.__qualname__ = name
    call.__doc__ = "An operator of GPUs: raises NoDeviceError on the CPU."
    return call


def _running_with_deploy() -> bool:
    """Return False: ``torch::deploy``, with several interpreters in one process, is discontinued."""
    return False


def cudnn_is_acceptable(input) -> bool:
    """True if cuDNN would compute with a tensor: it is on a GPU."""
    return False


ON_GPUS = ("batch_norm_backward_elemt", "batch_norm_backward_reduce", "batch_norm_elemt", "batch_norm_gather_stats",
           "batch_norm_gather_stats_with_counts", "batch_norm_stats", "cudnn_affine_grid_generator",
           "cudnn_batch_norm", "cudnn_convolution", "cudnn_convolution_add_relu", "cudnn_convolution_relu",
           "cudnn_convolution_transpose", "cudnn_grid_sampler", "miopen_batch_norm", "miopen_convolution",
           "miopen_convolution_add_relu", "miopen_convolution_relu", "miopen_convolution_transpose",
           "miopen_ctc_loss", "miopen_depthwise_convolution", "miopen_rnn")
globals().update({name: on_gpu(name) for name in ON_GPUS})
