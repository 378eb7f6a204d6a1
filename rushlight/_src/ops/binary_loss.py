"""Losses for two classes: binary cross entropies."""
from __future__ import annotations

from ..core.dtypes import FLOATING, bool_, type_name
from ..core.errors import CastError
from ..core.kinds import P
from ..core.meta import broadcast, product
from ..core.op import op, rule
from ..core.tensor import refuse_where
from .activation import below_zero, logsigmoid
from .loss import F, chosen, finish, reduced
from .promotion import downcast, needs, promoted, upcast


def check_one_dtype(input, target):
    """Raise RuntimeError unless probabilities and targets have one dtype, a floating one."""
    if target.dtype is not input.dtype:
        raise RuntimeError(f"Found dtype {type_name(target.dtype)} but expected {type_name(input.dtype)}")
    needs(FLOATING, "binary_cross_entropy", input, FLOATING)


def weigh(loss, weight):
    """loss * weight in the dtype of the loss, whatever that of the weight is."""
    if weight.dtype.is_complex and not loss.dtype.is_complex:
        raise RuntimeError(f"result type {type_name(weight.dtype)} can't be cast to {type_name(loss.dtype)}")
    a, b = promoted(loss, weight)
    return downcast(P.mul(a, b), loss)


@op(method=False, name="_bce")
def bce_core(input, target, weight, reduction):
    """-(y log x + (1 - y) log(1 - x)), with logarithms of at least -100."""
    x = upcast(input)
    log_x, log_rest = P.maximum(P.log(x), -100.0), P.maximum(P.log1p(P.neg(x)), -100.0)
    y = upcast(target)
    loss = P.sub(P.mul(P.sub(y, 1.0), log_rest), P.mul(y, log_x))
    if weight is not None:
        loss = weigh(loss, weight)
    out = reduced(loss, reduction)
    return P.convert(out, dtype=input.dtype) if out.dtype is not input.dtype else out


@rule(bce_core)
def vjp(g, y, input, target, weight, reduction):
    x, t = upcast(input), upcast(target)
    scale = g if reduction == "none" else P.div(g, product(broadcast(tuple(x.shape),
                                                                     tuple(t.shape)))) if reduction == "mean" else g
    slope = P.div(P.sub(x, t), P.maximum(P.mul(P.sub(1.0, x), x), 1e-12))
    gx = P.mul(slope, scale)
    gt = P.mul(P.sub(P.log1p(P.neg(x)), P.log(x)), scale)
    if weight is not None:
        gx, gt = weigh(gx, weight), weigh(gt, weight)
    out = [P.convert(gx, dtype=input.dtype), P.convert(gt, dtype=target.dtype)]
    return out + [None] if weight is not None else out


@op(composite=True, namespace=F)
def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The cross entropy of probabilities with targets in [0, 1]."""
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size.")
    check_one_dtype(input, target)
    refuse_where(~((input >= 0) & (input <= 1)), RuntimeError("all elements of input should be between 0 and 1"))
    return bce_core(input, target, weight, chosen(reduction, size_average, reduce))


@op(method=False, name="_bce_logits")
def bce_logits_core(input, target, weight, pos_weight, reduction):
    """The cross entropy of logits, without overflow, in the dtype of the targets."""
    needs(FLOATING, "binary_cross_entropy_with_logits", input, FLOATING)
    x, y = (upcast(value) for value in promoted(input, target))
    positive, rest = y, P.log1p(P.exp(below_zero(x)))
    if pos_weight is not None:
        positive, excess = weigh(y, pos_weight), weigh(y, P.sub(*promoted(pos_weight, 1.0)))
        rest = P.mul(P.add(excess, 1.0), rest)
    # one factor of x for each sign: of an infinite x no two infinities are subtracted
    loss = P.add(P.mul(P.where(P.lt(x, 0), P.neg(positive), P.sub(1.0, y)), x), rest)
    if weight is not None:
        loss = weigh(loss, weight)
    return downcast(reduced(loss, reduction), target)


@op(composite=True, namespace=F)
def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction="mean",
                                     pos_weight=None):
    """The cross entropy of sigmoid(input) with targets in [0, 1]."""
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    if not target.is_floating_point():
        raise CastError(
            f"result type {type_name(input.dtype)} can't be cast to the desired output type {type_name(target.dtype)}",
            "floating targets", "Convert them: target.float()")
    if pos_weight is not None and pos_weight.dtype is bool_:
        raise RuntimeError("pos_weight must be a numeric tensor, got torch.bool. Convert it: pos_weight.float()")
    return bce_logits_core(input, target, weight, pos_weight, chosen(reduction, size_average, reduce))


@op(composite=True, namespace=F)
def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The binary cross entropy of logits, summed over the input's last dimension and divided by its size."""
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    classes = input.size(-1)  # of the input, as in PyTorch, also if targets broadcast to more
    return finish(loss.sum(input.dim() - 1) / classes, chosen(reduction, size_average, reduce))
