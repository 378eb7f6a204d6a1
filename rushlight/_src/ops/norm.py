"""Normalization."""
from __future__ import annotations

import math

from ..core.dtypes import float32, float64
from ..core.errors import DtypeMismatchError
from ..core.kinds import P
from ..core.meta import check_sizes, product
from ..core.op import OPS, op, rule, sample
from .promotion import downcast, real, upcast

F = "nn.functional"


def standardised(x, dims, eps):
    """(x - mean) / sqrt(variance + eps) over dims, and 1 / sqrt(variance + eps)."""
    count = product(x.shape[d] for d in dims)
    away = P.sub(x, P.div(P.sum(x, dims), count))
    rstd = P.rsqrt(P.add(P.div(P.sum(P.mul(away, away), dims), count), real(eps)))
    return P.mul(away, rstd), rstd


def check_parameters(input, *parameters):
    """DtypeMismatchError unless parameters have the input's dtype, or float32 for a 16-bit float input."""
    for found in parameters:
        if found is not None and found.dtype is not input.dtype and not (input.dtype.is_half
                                                                         and found.dtype is float32):
            expected = ("all inputs must share same datatype" if found.dtype is float32
                        else "expect parameter to have scalar type of Float")
            raise DtypeMismatchError(
                f"mixed dtype (CPU): {expected}, but got: {input.dtype} and {found.dtype}",
                "parameters of the input's dtype", "convert the input or the layer with .to(dtype)")


def affine(x, weight, bias, shape):
    if weight is not None:
        x = P.mul(x, P.reshape(upcast(weight), shape=shape))
    return x if bias is None else P.add(x, P.reshape(upcast(bias), shape=shape))


@op(samples=(sample((3, 4), (4,), (4,), (4,)), sample((2, 3, 4), (3, 4))), method=False, name="_layer_norm",
    writable=True, second="none")
def layer_norm_(input, weight, bias, rank, eps):
    """Normalize over the last ``rank`` dimensions, scale and shift (Ba et al. 2016)."""
    check_parameters(input, weight, bias)
    x = upcast(input)
    dims = tuple(range(len(x.shape) - rank, len(x.shape)))
    out, _ = standardised(x, dims, eps)
    return downcast(affine(out, weight, bias, tuple(x.shape[d] for d in dims)), input)


@rule(layer_norm_)
def vjp(g, y, input, weight, bias, rank, eps):
    """The closed form: rstd * (gw - mean(gw) - xhat * mean(gw * xhat))."""
    x, g = upcast(input), upcast(g)
    split = len(x.shape) - rank
    inner, outer = tuple(range(split, len(x.shape))), tuple(range(split))
    count = product(x.shape[d] for d in inner)
    xhat, rstd = standardised(x, inner, eps)
    shape = tuple(x.shape[d] for d in inner)
    gw = g if weight is None else P.mul(g, P.reshape(upcast(weight), shape=shape))
    mean_g = P.div(P.sum(gw, inner), count)
    mean_gx = P.div(P.sum(P.mul(gw, xhat), inner), count)
    gx = P.mul(rstd, P.sub(P.sub(gw, mean_g), P.mul(xhat, mean_gx)))
    out = [downcast(gx, input)]
    if weight is not None:
        out.append(downcast(P.reshape(P.sum(P.mul(g, xhat), outer) if outer else P.mul(g, xhat),
                                      shape=tuple(weight.shape)),
                        weight))
    if bias is not None:
        out.append(downcast(P.reshape(P.sum(g, outer) if outer else P.mul(g, 1.0), shape=tuple(bias.shape)), bias))
    return out


@op(composite=True, lean=True, namespace=F, by_rows=True)
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalize over the last dimensions, which must be ``normalized_shape``."""
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []")
    sizes = tuple(input.shape)
    if sizes[-len(shape):] != shape or len(sizes) < len(shape):
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*{', '.join(['', *map(str, shape)])}], "
            f"but got input of size{list(input.shape)}")
    for name, v in (("weight", weight), ("bias", bias)):
        if v is not None and v.shape != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape {list(v.shape)} "
                f"and normalized_shape = {list(shape)}")
    return layer_norm_(input, weight, bias, len(shape), real(eps))


@op(composite=True, lean=True, method=False, name="layer_norm", by_rows=True)
def layer_norm_top(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    """Like nn.functional.layer_norm."""
    return layer_norm(input, normalized_shape, weight, bias, eps)


@op(samples=(sample((3, 4), (4,), (4,)),), method=False, name="_rms_norm", writable=True,
    overwritable=lambda input, **_: ("input",) if input.dtype.is_half else ())  # PyTorch saves it in float32
def rms_norm_(input, weight, rank, eps):
    """x / sqrt(mean(x ** 2) + eps) over the last dimensions (Zhang & Sennrich 2019)."""
    x = upcast(input)
    dims = tuple(range(len(x.shape) - rank, len(x.shape)))
    count = product(x.shape[d] for d in dims)
    out = P.mul(x, P.rsqrt(P.add(P.div(P.sum(P.mul(x, x), dims), count), real(eps))))
    if weight is not None:  # of any dtype: for complex numbers only the real part of the product remains
        wide = float64 if weight.dtype is float64 else x.dtype
        out, weight = (v if v.dtype is wide else P.convert(v, dtype=wide) for v in (out, weight))
        out = P.mul(out, P.reshape(weight, shape=tuple(x.shape[d] for d in dims)))
    return downcast(out, input)


@op(composite=True, lean=True, namespace=F, by_rows=True)
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Scale to a root mean square of 1 over the last dimensions."""
    from ..core.dtypes import finfo
    shape = tuple(normalized_shape)
    if not shape or tuple(input.shape[-len(shape):]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}], but "
            f"got input of size{list(input.shape)}")
    if weight is not None and tuple(weight.shape) != shape:
        raise RuntimeError(
            f"Expected weight to be of same shape as normalized_shape, but got weight of shape {list(weight.shape)} "
            f"and normalized_shape = {list(shape)}")
    if eps is None:
        eps = finfo(input.dtype if not input.dtype.is_half else float32).eps
    return rms_norm_(input, weight, len(shape), real(eps))


rms_norm_top = op(lambda input, normalized_shape, weight=None, eps=None: rms_norm(input, normalized_shape, weight, eps),
                  name="rms_norm", composite=True, method=False, doc=rms_norm.doc,
                  by_rows=True)


@op(method=False, name="_group_norm", writable=True)
def group_norm_(input, groups, weight, bias, eps):
    """Normalize over groups of channels (Wu & He 2018)."""
    check_parameters(input, weight, bias)
    x = upcast(input)
    n, c, *space = x.shape
    grouped = P.reshape(x, shape=(n, groups, c // groups, product(space)))
    out, _ = standardised(grouped, (2, 3), eps)
    out = P.reshape(out, shape=tuple(x.shape))
    return downcast(affine(out, weight, bias, (1, c) + (1,) * len(space)), input)


@op(composite=True, lean=True, namespace=F)
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalize over groups of channels."""
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    if num_groups <= 0 or input.size(1) % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={num_groups}")
    for name, v in (("weight", weight), ("bias", bias)):
        if v is not None and tuple(v.shape) != (input.size(1),):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {list(v.shape)} and input of shape {list(input.shape)}")
    if product(input.shape) == num_groups:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {list(input.shape)} for "
            f"{num_groups} groups")
    return group_norm_(input, num_groups, weight, bias, real(eps))


@op(method=False, name="_batch_norm", writable=True, second="none", overwritable=("bias",))
def batch_norm_(input, weight, bias, eps):
    """Normalize over batch and space for each channel (Ioffe & Szegedy 2015); also return the mean and the biased
    variance."""
    check_parameters(input, weight, bias)
    x = upcast(input)
    dims = (0, *range(2, len(x.shape)))
    count = product(x.shape[d] for d in dims)
    c = x.shape[1]
    mean = P.div(P.sum(x, dims), count)
    away = P.sub(x, mean)
    var = P.div(P.sum(P.mul(away, away), dims), count)
    shape = (1, c) + (1,) * (len(x.shape) - 2)
    out = affine(P.mul(away, inverse_deviation(var, real(eps))), weight, bias, shape)
    return downcast(out, input), P.reshape(mean, shape=(c,)), P.reshape(var, shape=(c,))


def inverse_deviation(var, eps):
    """1 / sqrt(var + eps); 0 for equal values and an eps of 0, as in PyTorch."""
    spread = P.add(var, eps)
    found = P.rsqrt(spread)
    if type(eps) is float and eps:
        return found
    return P.where(P.eq(P.where(P.eq(var, 0), spread, 1.0), 0), 0.0, found)


@rule(batch_norm_)
def vjp(g, y, input, weight, bias, eps):  # noqa: F811
    """The closed form, from the saved mean and variance."""
    out, mean, var = y
    x = upcast(input)
    g0 = upcast(g[0]) if g[0] is not None else P.full(shape=tuple(x.shape), value=0, dtype=x.dtype)
    dims = (0, *range(2, len(x.shape)))
    count, c = product(x.shape[d] for d in dims), x.shape[1]
    shape = (1, c) + (1,) * (len(x.shape) - 2)
    rstd = inverse_deviation(P.reshape(var, shape=shape), real(eps))
    xhat = P.mul(P.sub(x, P.reshape(mean, shape=shape)), rstd)
    sum_g, sum_gx = P.sum(g0, dims), P.sum(P.mul(g0, xhat), dims)
    gx = P.mul(P.sub(P.sub(g0, P.div(sum_g, count)), P.mul(xhat, P.div(sum_gx, count))), rstd)
    if weight is not None:
        gx = P.mul(gx, P.reshape(upcast(weight), shape=shape))
    if g[1] is not None:
        gx = P.add(gx, P.div(P.reshape(upcast(g[1]), shape=shape), count))
    if g[2] is not None:
        gx = P.add(gx, P.mul(P.mul(P.sub(x, P.reshape(mean, shape=shape)), 2.0 / max(count, 1) if type(count) is int
                                   else P.div(2.0, count)), P.reshape(upcast(g[2]), shape=shape)))
    results = [downcast(gx, input)]
    if weight is not None:
        results.append(downcast(P.reshape(sum_gx, shape=(c,)), weight))
    if bias is not None:
        results.append(downcast(P.reshape(sum_g, shape=(c,)), bias))
    return results


@op(method=False, name="_batch_norm_eval", writable=True, second="none")
def batch_norm_eval(input, mean, var, weight, bias, eps):
    """Normalize with given statistics for each channel."""
    x = upcast(input)
    check_parameters(input, mean, var, weight, bias)
    shape = (1, x.shape[1]) + (1,) * (len(x.shape) - 2)
    rstd = P.rsqrt(P.add(upcast(var), real(eps)))
    scale = rstd if weight is None else P.mul(rstd, upcast(weight))
    out = P.mul(P.sub(x, P.reshape(upcast(mean), shape=shape)), P.reshape(scale, shape=shape))
    return downcast(out if bias is None else P.add(out, P.reshape(upcast(bias), shape=shape)), input)


@op(composite=True, lean=True, namespace=F)
def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Normalize each channel: over the batch in training (updating the running statistics), else with the running
    ones."""
    if training and input.dim() > 1:
        if values_of_channel(input) == 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
        if eps <= 0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if not training and eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return batch_norm_of_any(input, running_mean, running_var, weight, bias, training, momentum, eps)


def values_of_channel(input) -> int:
    """Return the number of elements of a channel, over the batch and space."""
    return input.numel() // max(input.size(1), 1)


def batch_norm_of_any(input, running_mean, running_var, weight, bias, training, momentum, eps):
    """``batch_norm`` that in training accepts any eps, and batches of one value for a channel."""
    if input.dim() == 1 and not input.numel():
        return input.clone()
    if input.dim() < 2:
        raise RuntimeError(f"batch_norm expected at least 2 dimensions, got {input.dim()}")
    channels = input.shape[1]
    for name, v in (("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias)):
        if v is not None and v.shape != (channels,) and v.numel() != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {v.numel()}")
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when training=False")
        return batch_norm_eval(input, running_mean, running_var, weight, bias, real(eps))
    count = values_of_channel(input)
    out, mean, var = batch_norm_(input, weight, bias, real(eps))
    if running_mean is not None and count:
        with_momentum(running_mean, mean.detach(), momentum)
        with_momentum(running_var, var.detach() * (count / (count - 1) if count > 1 else math.inf), momentum)
    return out


def with_momentum(running, fresh, momentum):
    running.mul_(1 - momentum).add_(fresh.to(running.dtype), alpha=momentum)


@op(composite=True, namespace=F)
def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
                  momentum=0.1, eps=1e-5):
    """Normalize over space for each sample and channel (Ulyanov et al. 2016)."""
    n, c = input.shape[:2]
    if use_input_stats and input.numel() // max(n * c, 1) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    if not use_input_stats:
        return batch_norm_of_any(input, running_mean, running_var, weight, bias, False, momentum, eps)
    flat = input.reshape(1, n * c, *input.shape[2:])
    tiled = [None if v is None else v.repeat(n) for v in (running_mean, running_var, weight, bias)]
    out = batch_norm_of_any(flat, *tiled, True, momentum, eps)
    if running_mean is not None:
        running_mean.copy_(tiled[0].view(n, c).mean(0))
        running_var.copy_(tiled[1].view(n, c).mean(0))
    return out.reshape(input.shape)


def statistics(input, dims, eps, weight, bias):
    """Mean and 1 / sqrt(variance + eps) over dimensions, which are kept, in the dtype of the parameters, if there are
    any."""
    x = input.float() if input.dtype.is_half else input
    spread, mean = OPS["var_mean"](x, dims, correction=0, keepdim=True)
    dtype = next((given.dtype for given in (weight, bias) if given is not None), input.dtype)
    return mean.to(dtype), (spread + eps).rsqrt().to(dtype)


@op(composite=True, method=False)
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """``layer_norm`` with the mean and 1 / sqrt(variance + eps) that it used."""
    rank = len(normalized_shape)
    mean, rstd = statistics(input, tuple(range(input.dim() - rank, input.dim())), eps, weight, bias)
    return layer_norm(input, tuple(normalized_shape), weight, bias, eps), mean.detach(), rstd.detach()


@op(composite=True, method=False)
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """``group_norm`` with the mean and 1 / sqrt(variance + eps) of each group."""
    check_sizes((N, C, HxW))
    mean, rstd = statistics(input.reshape(N, group, (C // group) * HxW), (2,), eps, weight, bias)
    return group_norm(input, group, weight, bias, eps), mean.squeeze(2), rstd.squeeze(2)


@op(composite=True, method=False)
def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """``batch_norm`` with the mean and 1 / sqrt(variance + eps) of the batch (empty if it used the running ones)."""
    if not training:
        out = batch_norm_of_any(input, running_mean, running_var, weight, bias, False, momentum, eps)
        return out, input.new_empty((0,)), input.new_empty((0,))
    mean, rstd = statistics(input.detach(), (0, *range(2, input.dim())), eps, weight, bias)
    out = batch_norm_of_any(input, running_mean, running_var, weight, bias, True, momentum, eps)
    return out, mean.reshape(-1), rstd.reshape(-1)


@op(composite=True, namespace=F)
def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """x / max(norm(x), eps) along a dimension."""
    if input.dtype.is_half:  # rounded once
        return normalize(input.float(), p, dim, eps).to(input.dtype)
    size = OPS["norm"](input, p, dim, True).clamp_min(eps)
    return input / size.expand_as(input)


@op(composite=True, namespace=F)
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k: object = 1.0):
    """x / (k + alpha * mean of squares of adjacent channels) ** beta (Krizhevsky et al. 2012)."""
    if input.dim() < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality                          input (got {input.dim()} dimensions)")
    if not input.numel():
        return input
    if size < 1:
        raise RuntimeError(f"kernel size should be greater than zero, but got kH: {size} kW: 1")
    square = OPS["nn.functional.pad"](input * input, (0, 0) * (input.dim() - 2) + (size // 2, (size - 1) // 2))
    near = square.unfold(1, size, 1)
    # an integer, as averages of integers are in pooling
    mean = near.mean(-1) if near.dtype.is_inexact else near.sum(-1) // size
    return input / (mean * alpha + k).pow(beta)
