"""Implementations of ``aten``'s backward operators: VJPs of the forward operators, or formulas if
the arguments are results of the forward."""
from __future__ import annotations

from .._src.core.op import OPS
from .._src.functions import REDUCTIONS

F = "nn.functional"
RANKS = 1, 2, 3


def pulled(forward, inputs, gradient) -> tuple:
    """The gradients of ``inputs``, for the gradient of ``forward(*inputs)``."""
    from ..func import vjp
    return vjp(forward, *inputs)[1](gradient)


def zeros(sizes, like):
    """Return zeros of these sizes, with the dtype and device of ``like``."""
    return OPS["new_zeros"](like, tuple(sizes))


def masked(gradients, output_mask) -> tuple:
    """Return the requested gradients; None for others."""
    return tuple(found if wanted else None for found, wanted in zip(gradients, output_mask))


def through(forward):
    """The backward operator of a function of one tensor: ``(grad_output, self, *the function's parameters)``."""
    def run(grad_output, self, *args, **kwargs):
        return pulled(lambda x: forward(x, *args, **kwargs), (self,), grad_output)[0]

    return run


def from_sizes(forward):
    """The backward operator of a view: ``(grad_output, the sizes of the tensor, *the view's parameters)``."""
    def run(grad_output, input_sizes, *args):
        return pulled(lambda x: forward(x, *args), (zeros(input_sizes, grad_output),), grad_output)[0]

    return run


def loss(name, parameter=None):
    """A loss between a tensor and its target, whose reduction is a number."""
    def run(x, target, reduction, value=None):
        named = {} if parameter is None else {parameter: value}
        return OPS[f"{F}.{name}"](x, target, reduction=reduction_named(reduction), **named)

    return run


def reduction_named(reduction) -> str:
    """Return the name of a reduction, which aten gives as an int."""
    return reduction if isinstance(reduction, str) else REDUCTIONS[reduction]


# --- activations ------------------------------------------------------------------------------------------------------
def sigmoid_backward(grad_output, output):
    """Return the gradient of the input of ``sigmoid``, from its result."""
    return grad_output * OPS["conj"]((1 - output) * output)


def tanh_backward(grad_output, output):
    """Return the gradient of the input of ``tanh``, from its result."""
    return grad_output * OPS["conj"](1 - output * output)


def threshold_backward(grad_output, self, threshold):
    """Return the gradient of the input of ``threshold``: 0 up to the threshold."""
    return OPS["where"](self <= threshold, 0, grad_output)


def leaky_relu_backward(grad_output, self, negative_slope, self_is_result):
    return OPS["where"](self > 0, grad_output, grad_output * negative_slope)


def elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    x = self_or_result
    grown = x + alpha * scale if is_result else OPS["exp"](x * input_scale) * (alpha * scale)
    return OPS["where"](x <= 0, grad_output * input_scale * grown, grad_output * scale)


def log_sigmoid_backward(grad_output, self, buffer):
    return through(OPS[f"{F}.logsigmoid"])(grad_output, self)


def _softmax_backward_data(grad_output, output, dim, input_dtype):
    product = grad_output * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)


def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    return (grad_output - OPS["exp"](output) * grad_output.sum(dim, keepdim=True)).to(input_dtype)


# --- normalization ----------------------------------------------------------------------------------------------------
def of_normalized(gradient, normalized, rstd, dims):
    """The gradient of what was normalized over ``dims``, for that of the result."""
    return rstd * (gradient - gradient.mean(dims, keepdim=True)
                   - normalized * (gradient * normalized).mean(dims, keepdim=True))


def native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    count, rank = len(normalized_shape), input.dim()
    inner, outer = tuple(range(rank - count, rank)), tuple(range(rank - count))
    normalized = (input - mean) * rstd
    found = of_normalized(grad_out if weight is None else grad_out * weight, normalized, rstd, inner)
    summed = (lambda t: t.sum(outer)) if outer else (lambda t: t)
    return masked((found, summed(grad_out * normalized), summed(grad_out)), output_mask)


def native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask):
    def grouped(t):
        return t.reshape(N, group, C // group, HxW)

    deviation = rstd.reshape(N, group, 1, 1)
    normalized = (grouped(input) - mean.reshape(N, group, 1, 1)) * deviation
    scaled = grad_out.reshape(N, C, HxW)
    products, sums = (scaled * normalized.reshape(N, C, HxW)).sum((0, 2)), scaled.sum((0, 2))
    weighted = scaled if weight is None else scaled * weight.reshape(1, C, 1)
    found = of_normalized(grouped(weighted), normalized, deviation, (2, 3))
    return masked((found.reshape(input.shape), products, sums), output_mask)


def native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps,
                               output_mask):
    dims = tuple(d for d in range(input.dim()) if d != 1)

    def by_channel(t):
        return t.reshape(1, -1, *(1,) * (input.dim() - 2))

    mean, rstd = (save_mean, save_invstd) if train else (running_mean, (running_var + eps).rsqrt())
    normalized = (input - by_channel(mean)) * by_channel(rstd)
    weighted = grad_out if weight is None else grad_out * by_channel(weight)
    found = of_normalized(weighted, normalized, by_channel(rstd), dims) if train else weighted * by_channel(rstd)
    return masked((found, (grad_out * normalized).sum(dims), grad_out.sum(dims)), output_mask)


# --- matmuls, tables, windows -----------------------------------------------------------------------------------------
def convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
                         groups, output_mask):
    """Return the requested gradients of the input, of the weight and of the bias."""
    def forward(x, w):
        return OPS["convolution"](x, w, None, stride, padding, dilation, transposed, output_padding, groups)

    found = [None, None]
    if output_mask[0]:
        found[0], = pulled(lambda x: forward(x, weight), (input,), grad_output)
    if output_mask[1]:
        found[1], = pulled(lambda w: forward(input, w), (weight,), grad_output)
    dims = tuple(d for d in range(grad_output.dim()) if d != 1)
    return *found, grad_output.sum(dims) if output_mask[2] else None


def linear_backward(self, grad_output, weight, output_mask):
    rows = grad_output.reshape(-1, grad_output.shape[-1])
    return masked((grad_output @ weight, rows.t() @ self.reshape(-1, self.shape[-1]), rows.sum(0)), output_mask)


def embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    padding = padding_idx if padding_idx >= 0 else None
    return pulled(lambda table: OPS[f"{F}.embedding"](indices, table, padding, scale_grad_by_freq=scale_grad_by_freq),
                  (zeros((num_weights, grad_output.shape[-1]), grad_output),), grad_output)[0]


def adaptive(rank):
    def run(grad_output, self):
        sizes = tuple(grad_output.shape[-rank:])
        return pulled(lambda x: OPS[f"{F}.adaptive_avg_pool{rank}d"](x, sizes), (self,), grad_output)[0]

    return run


def average(rank):
    def forward(x, kernel_size, stride=(), *rest):
        return OPS[f"{F}.avg_pool{rank}d"](x, kernel_size, stride or None, *rest)

    return through(forward)


def largest(rank):
    """The gradients of windows go to the elements that were largest."""
    def run(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
        made = OPS["flatten"](OPS["zeros_like"](self), -rank)
        parts = OPS["flatten"](indices, -rank), OPS["flatten"](grad_output, -rank)
        return OPS["scatter_add"](made, -1, *parts).reshape(self.shape)

    return run


def losses_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
    def forward(x):
        return OPS[f"{F}.nll_loss"](x, target, weight, ignore_index=ignore_index, reduction=reduction_named(reduction))

    return pulled(forward, (self,), grad_output)[0]


def binary_cross_entropy_backward(grad_output, self, target, weight=None, reduction=1):
    def forward(x):
        return OPS[f"{F}.binary_cross_entropy"](x, target, weight, reduction=reduction_named(reduction))

    return pulled(forward, (self,), grad_output)[0]


def padded(mode):
    return through(lambda x, padding: OPS[f"{F}.pad"](x, list(padding), mode))


# --- views ------------------------------------------------------------------------------------------------------------
def select_backward(grad_output, input_sizes, dim, index):
    return OPS["select_scatter"](zeros(input_sizes, grad_output), grad_output, dim, index)


def slice_backward(grad_output, input_sizes, dim, start, end, step):
    return OPS["slice_scatter"](zeros(input_sizes, grad_output), grad_output, dim, start, end, step)


def diagonal_backward(grad_output, input_sizes, offset, dim1, dim2):
    return OPS["diagonal_scatter"](zeros(input_sizes, grad_output), grad_output, offset, dim1, dim2)


FUNCTIONS = {f.__name__: f for f in (
    sigmoid_backward, tanh_backward, threshold_backward, leaky_relu_backward, elu_backward, log_sigmoid_backward,
    _softmax_backward_data, _log_softmax_backward_data, native_layer_norm_backward, native_group_norm_backward,
    native_batch_norm_backward, convolution_backward, linear_backward, embedding_dense_backward,
    binary_cross_entropy_backward, select_backward, slice_backward, diagonal_backward)}
FUNCTIONS |= {f"{name}_backward": through(OPS[f"{F}.{name}"])
              for name in ("gelu", "silu", "mish", "hardswish", "hardsigmoid", "softplus", "softshrink", "hardshrink",
                           "hardtanh", "glu")}
FUNCTIONS |= {f"{name}_backward": through(loss(name, parameter))
              for name, parameter in (("mse_loss", None), ("smooth_l1_loss", "beta"), ("huber_loss", "delta"))}
FUNCTIONS |= {"logit_backward": through(OPS["logit"]), "unfold_backward": from_sizes(OPS["unfold"]),
              "nll_loss_backward": losses_backward, "nll_loss2d_backward": losses_backward}
for _rank in RANKS[1:]:
    FUNCTIONS |= {f"avg_pool{_rank}d_backward": average(_rank),
                  f"_adaptive_avg_pool{_rank}d_backward": adaptive(_rank),
                  f"max_pool{_rank}d_with_indices_backward": largest(_rank)}
FUNCTIONS |= {f"{kind}_pad{_rank}d_backward": padded(mode)
              for kind, mode in (("reflection", "reflect"), ("replication", "replicate")) for _rank in RANKS}
