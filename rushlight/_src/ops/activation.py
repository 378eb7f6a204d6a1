"""Activation functions, softmax and dropout."""
from __future__ import annotations

import math

from ..core.advice import warn
from ..core.dtypes import FLOATING, bool_, float32
from ..core.interpret import is_recording
from ..core.kinds import P
from ..core.meta import product
from ..core.op import OPS, Scalar, op, rule, sample
from ..core.tensor import wrapped
from .promotion import as_dtype, check_number, downcast, floating, held, needs, real, upcast
from .random import draw, uniform_at

ONE = (sample((3, 4)), sample((2, 0)))
F = "nn.functional"


@op(samples=ONE, inplace_too=True, second="zeros", overwritable=("input",))
def relu(input):
    """max(x, 0); NaN propagates."""
    if input.dtype.name == "bool":
        raise RuntimeError("Boolean inputs not supported for relu")
    return P.where(P.lt(input, 0), 0, input) if not input.dtype.is_complex else complex_error("relu")


@rule(relu)
def vjp(g, y, input):
    return [P.where(P.le(y, 0), 0, g)]


def complex_error(name):
    raise RuntimeError(f"{name} is not defined for complex tensors")


def switched(operator, name):
    """Return the function with ``inplace=`` as its last parameter, as in nn.functional."""
    def body(input, *args, inplace=False, **kwargs):
        if args and type(args[-1]) is bool:
            *args, inplace = args
        if not inplace:
            return operator(input, *args, **kwargs)
        if f"{operator.name}_" in OPS:
            return OPS[f"{operator.name}_"](input, *args, **kwargs)
        # the derivative reads the overwritten values
        source = input.clone() if input.requires_grad and is_recording() else input
        return input.copy_(operator(source, *args, **kwargs))
    body.__name__, body.__doc__ = name, operator.doc
    return op(body, namespace=F, composite=True)


@op(samples=ONE, namespace=F)
def gelu(input, approximate="none"):
    """x * Phi(x), Phi the normal distribution function (Hendrycks & Gimpel 2016, arXiv:1606.08415).  [*] floating ->
    [*]."""
    if not input.dtype.is_floating_point:
        raise RuntimeError(f'"GeluKernelImpl" not implemented for {input.dtype}')
    x = upcast(input)
    if approximate == "none":
        return downcast(P.mul(P.mul(x, 0.5), P.add(P.erf(P.mul(x, math.sqrt(0.5))), 1.0)), input)
    if approximate == "tanh":
        cubic = P.mul(P.add(x, P.mul(P.mul(P.mul(x, x), x), 0.044715)), 2 * math.sqrt(2 / math.pi))
        return downcast(P.mul(x, P.sigmoid(cubic)), input)
    raise RuntimeError("approximate argument must be either none or tanh.")


@op(samples=ONE, namespace=F, name="_silu")
def silu_(input):
    """x * sigmoid(x)."""
    needs(FLOATING, "silu", input)
    x = upcast(input)
    return downcast(P.mul(x, P.sigmoid(x)), input)


@op(samples=ONE, namespace=F, name="_mish")
def mish_(input):
    """x * tanh(softplus(x))."""
    needs(FLOATING, "mish", input, FLOATING)
    x = upcast(input)
    return downcast(P.mul(x, P.tanh(soft(x))), input)


def below_zero(x):
    """-|x|, with a one-sided slope at 0, so that a ``where`` with the same side has the right slope there."""
    return P.where(P.lt(x, 0), x, P.neg(x))


def soft(x):
    """log(1 + exp(x)), without overflow."""
    return P.add(P.where(P.lt(x, 0), 0.0, x), P.log1p(P.exp(below_zero(x))))


@op(samples=ONE, namespace=F)
def softplus(input, beta=1.0, threshold=20.0):
    """log(1 + exp(beta x)) / beta, x itself where beta x is above the threshold."""
    needs(FLOATING, "softplus", input, FLOATING)
    x, beta, threshold = upcast(input), held(beta, input.dtype, True), held(threshold, input.dtype, True)
    scaled = P.mul(x, real(beta))
    return downcast(P.where(P.gt(scaled, real(threshold)), x,
                        P.div(soft(P.where(P.gt(scaled, real(threshold)), 0.0, scaled)), real(beta))), input)


@op(samples=ONE, namespace=F)
def logsigmoid(input):
    """log(sigmoid(x)), without overflow."""
    needs(FLOATING, "logsigmoid", input, FLOATING)
    x = upcast(input)
    return downcast(P.sub(P.where(P.lt(x, 0), x, 0.0), P.log1p(P.exp(below_zero(x)))), input)


@op(samples=ONE, namespace=F, name="_leaky_relu", second="zeros")
def leaky_(input, negative_slope=0.01):
    """x where positive, else negative_slope * x."""
    needs(FLOATING, "leaky_relu", input, FLOATING)
    return P.where(P.gt(input, 0), input, P.mul(input, held(negative_slope, input.dtype, True)))


@op(samples=ONE, namespace=F, name="_elu")
def elu_(input, alpha=1.0, scale=1.0):
    """scale * x where positive, else scale * alpha * (exp(x) - 1)."""
    needs(FLOATING, "elu", input, FLOATING)
    x, alpha = upcast(input), held(alpha, input.dtype, True)
    low = P.mul(P.expm1(P.where(P.le(x, 0), x, 0.0)), real(alpha) * scale)
    return downcast(P.where(P.le(x, 0), low, P.mul(x, real(scale))), input)


@op(samples=ONE, namespace=F, name="_celu")
def celu_(input, alpha=1.0):
    """x where positive, else alpha * (exp(x / alpha) - 1)."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    needs(FLOATING, "celu", input, FLOATING)
    x, alpha = upcast(input), held(alpha, input.dtype, True)
    low = P.mul(P.expm1(P.div(P.where(P.le(x, 0), x, 0.0), real(alpha))), real(alpha))
    return downcast(P.where(P.le(x, 0), low, x), input)


SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


@op(samples=ONE, namespace=F, name="_selu")
def selu_(input):
    """The self-normalizing ELU (Klambauer et al. 2017)."""
    return elu_.body(input, SELU_ALPHA, SELU_SCALE)


@op(samples=ONE, namespace=F, name="_hardtanh", second="zeros")
def hardtanh_(input, min_val=-1.0, max_val=1.0):
    """x limited to [min_val, max_val]; no gradient at the limits."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if input.dtype.is_complex:
        complex_error("hardtanh")
    if input.dtype is bool_ or not input.dtype.is_signed and min_val < 0:
        raise RuntimeError(f"Cannot do hardtanh with a negative limit on {input.dtype}" if input.dtype is not bool_
                           else "Bool inputs not supported for hardtanh")
    low, high = held(min_val, input.dtype), held(max_val, input.dtype)
    return P.where(P.le(input, low), low, P.where(P.ge(input, high), high, input))


@op(samples=ONE, namespace=F, name="_relu6", second="zeros")
def relu6_(input):
    """min(max(x, 0), 6)."""
    return hardtanh_.body(input, 0.0, 6.0)


@op(samples=ONE, namespace=F, name="_hardsigmoid", second="zeros")
def hardsigmoid_(input):
    """min(max(x + 3, 0), 6) / 6."""
    needs(FLOATING, "hardsigmoid", input, FLOATING)
    x = upcast(input)
    line = P.div(P.add(x, 3.0), 6.0)
    return downcast(P.where(P.le(x, -3.0), 0.0, P.where(P.ge(x, 3.0), 1.0, line)), input)


@op(samples=ONE, namespace=F, name="_hardswish")
def hardswish_(input):
    """x * hardsigmoid(x)."""
    needs(FLOATING, "hardswish", input, FLOATING)
    x = upcast(input)
    kept = P.where(P.ge(P.abs(x), 3.0), 0.0, x)  # so that infinities are not multiplied by a gradient of 0
    curve = P.div(P.mul(kept, P.add(kept, 3.0)), 6.0)
    return downcast(P.where(P.le(x, -3.0), 0.0, P.where(P.ge(x, 3.0), x, curve)), input)


@op(samples=ONE, namespace=F, name="_threshold", second="zeros")
def threshold_(input, threshold, value):
    """x where above the threshold, else value."""
    if input.dtype.is_complex or input.dtype is bool_:
        raise NotImplementedError(f"threshold is not implemented for {input.dtype}: convert it first")
    return P.where(P.le(input, held(threshold, input.dtype, True)), held(value, input.dtype), input)


for _operator, _name in ((silu_, "silu"), (mish_, "mish"), (leaky_, "leaky_relu"), (elu_, "elu"), (celu_, "celu"),
                         (selu_, "selu"), (hardtanh_, "hardtanh"),
                         (relu6_, "relu6"), (hardsigmoid_, "hardsigmoid"), (hardswish_, "hardswish"),
                         (threshold_, "threshold"), (relu, "relu")):
    switched(_operator, _name)


def written(operator, name):
    """Return ``foo_`` of nn.functional: the result is written into the input."""
    def body(input, *args, **kwargs):
        return input.copy_(operator(input, *args, **kwargs))
    body.__name__, body.__doc__ = name + "_", f"In-place {name}."
    return op(body, namespace=F, composite=True, inplace=True)


for _operator, _name in ((leaky_, "leaky_relu"), (elu_, "elu"), (celu_, "celu"), (selu_, "selu"),
                         (hardtanh_, "hardtanh"), (threshold_, "threshold")):
    written(_operator, _name)


@op(samples=ONE, namespace=F, second="zeros", out_exact=True)
def hardshrink(input, lambd=0.5):
    """x where |x| > lambd, else 0."""
    needs(FLOATING, "hardshrink", input, FLOATING)
    return P.where(P.le(P.abs(input), held(lambd, input.dtype)), 0.0, input)


@op(samples=ONE, namespace=F, second="zeros")
def softshrink(input, lambd=0.5):
    """x moved towards 0 by lambd."""
    needs(FLOATING, "softshrink", input, FLOATING)
    check_number(lambd, input.dtype)
    if not 0 <= lambd < math.inf:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return P.where(P.gt(input, lambd), P.sub(input, lambd),
                   P.where(P.lt(input, -lambd), P.add(input, lambd), P.mul(input, 0)))


@op(samples=ONE, namespace=F, overwritable=("input",))
def tanhshrink(input):
    """x - tanh(x)."""
    x = floating(input)
    return P.sub(x, P.tanh(x))


@op(samples=ONE, namespace=F, writable=True)
def softsign(input):
    """x / (1 + |x|)."""
    x = floating(input)
    return P.div(x, as_dtype(P.add(P.abs(x), 1.0), x.dtype))


@op(namespace=F, autocast="half", second="zeros")
def prelu(input, weight):
    """x where positive, else weight * x, one weight for all or for each channel (dimension 1)."""
    if input.dtype is not weight.dtype:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {input.dtype} and {weight.dtype}")
    if not input.shape and weight.shape and weight.shape[0] != 1:
        raise RuntimeError(
            f"prelu: Not allow zero-dim input tensor with {weight.shape[0]} weights: give one weight, or an input "
            "with a channel dimension")
    if len(weight.shape) == 1 and len(input.shape) and weight.shape[0] != 1:
        channels = input.shape[1] if len(input.shape) > 1 else 1
        if weight.shape[0] != channels:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.shape[0]} "
                f"and channel size = {channels}.")
    if len(weight.shape) > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {len(weight.shape)}")
    if weight.shape and len(input.shape) > 1:
        weight = P.reshape(weight, shape=(1, weight.shape[0]) + (1,) * (len(input.shape) - 2))
    elif weight.shape and not input.shape:
        weight = P.reshape(weight, shape=())
    return P.where(P.gt(input, 0), input, P.mul(input, weight))


@op(samples=(sample((4, 6)),), namespace=F)
def glu(input, dim=-1):
    """a * sigmoid(b), a and b the halves along a dimension."""
    if not input.shape:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    at = wrapped(dim, len(input.shape))
    size = input.shape[at]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {at} is size {size}")
    from .slices import sliced
    return P.mul(sliced(input, at, 0, 1, size // 2), P.sigmoid(sliced(input, at, size // 2, 1, size // 2)))


# --- softmax ----------------------------------------------------------------------------------------------------------
def softmax_dim(dim, rank):
    """PyTorch's default dimension, with a warning."""
    if dim is None:
        dim = 0 if rank in (0, 1, 3) else 1
        warn(f"Implicit dimension choice for softmax has been deprecated. Change the call to include dim={dim} as an "
             "argument.")
    return wrapped(dim, rank)


def shifted(x, at):
    return P.sub(x, P.amax(x, (at,))) if not (type(x.shape[at]) is int and x.shape[at] == 0) else x


def without_elements(x, error):
    """Return a copy of an argument of an unsupported dtype, if it has no elements; else raise the error."""
    if product(x.shape) != 0:
        raise error
    return P.convert(x, dtype=x.dtype)


@op(samples=(sample((3, 4), 1), sample((2, 3, 4), 0)), overwritable=("input",))
def softmax(input, dim, dtype=None):
    """exp(x) / sum exp(x) along a dimension, shifted by the maximum so that no exp overflows.

    [*] floating -> [*], which adds up to 1 along ``dim``.

    >>> torch.tensor([0., 0.]).softmax(0)
    tensor([0.5000, 0.5000])
    """
    x = input if dtype is None else P.convert(input, dtype=dtype)
    wrapped(dim, len(x.shape))
    if not x.dtype.is_floating_point:
        return without_elements(x, NotImplementedError(f'"softmax_kernel_impl" not implemented for {x.dtype}'))
    if not x.shape:
        return P.div(P.exp(P.mul(x, 0)), 1.0)
    at = wrapped(dim, len(x.shape))
    e = P.exp(shifted(upcast(x), at))
    return downcast(P.div(e, P.sum(e, (at,))), x)


@rule(softmax)
def vjp(g, y, input, dim, dtype=None):  # noqa: F811
    if not y.shape:
        return [P.convert(P.mul(g, 0), dtype=input.dtype)]
    at = wrapped(dim, len(y.shape))
    g, y = upcast(g), upcast(y)
    return [P.convert(P.mul(y, P.sub(g, P.sum(P.mul(g, y), (at,)))), dtype=input.dtype)]


@op(composite=True, method=False)
def _safe_softmax(input, dim, dtype=None):
    """``softmax`` that is 0 along rows in which all elements are minus infinity."""
    masked = (input == -math.inf).all(dim, keepdim=True)
    return softmax(input.masked_fill(masked, 0.0), dim, dtype).masked_fill(masked, 0.0)


@op(samples=(sample((3, 4), 1), sample((2, 3, 4), 0)), overwritable=("input",))
def log_softmax(input, dim, dtype=None):
    """log(softmax(x)), without underflow."""
    x = input if dtype is None else P.convert(input, dtype=dtype)
    if not x.dtype.is_floating_point:
        return without_elements(
            x, NotImplementedError(f'"log_softmax_lastdim_kernel_impl" not implemented for {x.dtype}'))
    if not x.shape:
        return P.mul(x, 0)
    at = wrapped(dim, len(x.shape))
    s = shifted(upcast(x), at)
    return downcast(P.sub(s, P.log(P.sum(P.exp(s), (at,)))), x)


@rule(log_softmax)
def vjp(g, y, input, dim, dtype=None):  # noqa: F811
    if not y.shape:
        return [P.convert(P.mul(g, 0), dtype=input.dtype)]
    at = wrapped(dim, len(y.shape))
    g, y = upcast(g), upcast(y)
    return [P.convert(P.sub(g, P.mul(P.exp(y), P.sum(g, (at,)))), dtype=input.dtype)]


@op(method=False)
def _softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of softmax from its result: y (g - sum(g y))."""
    if not output.shape:
        return P.convert(P.mul(grad_output, 0), dtype=input_dtype)
    g, y = upcast(grad_output), upcast(output)
    out = P.mul(y, P.sub(g, P.sum(P.mul(g, y), (wrapped(dim, len(y.shape)),))))
    return P.convert(out, dtype=input_dtype) if out.dtype is not input_dtype else out


def of_functional(operator, name):
    def body(input, dim=None, _stacklevel=3, dtype=None):
        return operator(input, softmax_dim(dim, input.dim()), dtype)
    body.__name__, body.__doc__ = name, operator.doc
    return op(body, namespace=F, composite=True)


of_functional(softmax, "softmax"), of_functional(log_softmax, "log_softmax")


@op(composite=True, namespace=F)
def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax(-x)."""
    return softmax(-input, softmax_dim(dim, input.dim()), dtype)


@op(composite=True, namespace=F)
def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A sample of the Gumbel-softmax distribution (Jang et al. 2017), one-hot with ``hard`` (straight-through
    gradient)."""
    if eps != 1e-10:
        warn("gumbel_softmax: `eps` is deprecated and has no effect.")
    noise = OPS["empty_like"](logits).exponential_().log()
    y = softmax((logits - noise) / tau, dim)
    if not hard:
        return y
    place = y.argmax(dim, keepdim=True)
    return OPS["zeros_like"](logits).scatter_(dim, place, 1.0) - y.detach() + y


# --- dropout ----------------------------------------------------------------------------------------------------------
@op(method=False, name="_dropout")
def dropout_at(input, seed: Scalar, offset: Scalar, p, shape):
    """x / (1 - p) where a uniform random tensor of ``shape`` is at least p, else x * 0 (NaN propagates), with the
    strides of x."""
    keep = P.ge(uniform_at.body(seed, offset, shape, float32), real(p))
    return P.mul(P.mul(input, 1.0 / (1.0 - p)), P.convert(keep, dtype=input.dtype))


def dropped(input, p, training, shape, inplace=False):
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        out = input * 0.0
    else:
        from ..core.meta import product
        seed, block = draw(None, product(shape))
        out = dropout_at(input, seed, block, real(p), tuple(shape))
    return input.copy_(out) if inplace else out


@op(composite=True, namespace=F, by_rows=True)
def dropout(input, p=0.5, training=True, inplace=False):
    """Elements zeroed with probability p, the others scaled by 1 / (1 - p)."""
    return dropped(input, p, training, input.shape, inplace)


@op(composite=True, method=False, name="dropout", by_rows=True)
def dropout_top(input, p, train):
    """Elements zeroed with probability p when ``train``."""
    return dropped(input, p, train, input.shape)


def channels(name, expected, batched=None):
    def body(input, p=0.5, training=True, inplace=False):
        rank = input.dim()
        if name == "dropout1d" and rank not in expected:
            raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {rank}D input")
        if expected and rank not in expected:
            warn(f"{name}: Received a {rank}-D input to {name}, which will become an error. Give it "
                 f"{' or '.join(map(str, expected))} dimensions.")
        if name == "dropout2d" and rank == 3:
            warn("dropout2d: Received a 3-D input to dropout2d, assuming that channel-wise 1D dropout behavior is "
                 "desired: (n, channels, length). Write dropout1d if so, unsqueeze(0) if it is one image.")
        lead = 2 if batched is None or rank == batched else 1
        if rank < lead:
            raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
        return dropped(input, p, training, tuple(s if k < lead else 1 for k, s in enumerate(input.shape)), inplace)
    body.__name__, body.__doc__ = name, "Whole channels zeroed with probability p."
    return op(body, composite=True, namespace=F)


dropout1d, dropout2d, dropout3d = channels("dropout1d", (2, 3), 3), channels("dropout2d", (3, 4)), channels("dropout3d",
                                                                                                            (4, 5), 5)
feature_dropout = channels("feature_dropout", ())


def alpha(name, whole):
    def body(input, p=0.5, training=False, inplace=False):
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        if not training or p == 0:
            return input
        low = -SELU_ALPHA * SELU_SCALE
        if p == 1:
            out = input * 0.0
        else:
            a = ((1 - p) * (1 + p * low**2)) ** -0.5
            shape = tuple(input.shape) if not whole else tuple(input.shape[:2]) + (1,) * (input.dim() - 2)
            keep = (OPS["rand"](shape) >= p).to(input.dtype)
            out = (input * keep + low * (1 - keep)) * a - a * low * p
        return input.copy_(out) if inplace else out
    body.__name__, body.__doc__ = name, "Dropout that keeps mean and variance under SELU (Klambauer et al. 2017)."
    return op(body, composite=True, namespace=F, by_rows=not whole)


alpha_dropout, feature_alpha_dropout = alpha("alpha_dropout", False), alpha("feature_alpha_dropout", True)


@op(composite=True, namespace=F)
def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """Leaky relu with a random slope in training, the mean slope otherwise."""
    for name, bound in (("lower", lower), ("upper", upper)):
        if not -math.inf < bound < math.inf:
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {bound}")
        check_number(bound, input.dtype)
    if lower > upper:
        raise RuntimeError(
            f"Lower bound should be less than or equal to the upper bound, but got lower = {lower}, upper = {upper}")
    slope = OPS["rand"](tuple(input.shape), dtype=input.dtype if input.dtype.is_floating_point
                        else None) * (upper - lower) + lower if training else (lower + upper) / 2
    out = OPS["where"](input > 0, input, input * slope)
    return input.copy_(out) if inplace else out
