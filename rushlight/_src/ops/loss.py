"""Loss functions."""
from __future__ import annotations

import math

from ..core.advice import warn
from ..core.dtypes import FLOATING, int64, type_name
from ..core.kinds import P
from ..core.meta import broadcast, product
from ..core.op import OPS, op, rule
from ..core.tensor import Tensor, refuse_where
from .activation import log_softmax, soft
from .class_scores import by_rows, check_classes, check_margin_scores, has_no_classes
from .promotion import check_number, needs, promoted, real, upcast

AUTOCAST = "float32"  # sensitive to rounding

F = "nn.functional"


def chosen(reduction, size_average=None, reduce=None):
    """Return the reduction, from old flags if given."""
    if size_average is not None or reduce is not None:
        size_average, reduce = (flag is None or bool(flag) for flag in (size_average, reduce))
        meant = "none" if not reduce else "mean" if size_average else "sum"
        warn(f"size_average and reduce args will be deprecated, please use reduction='{meant}' instead.")
        return meant
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def reduced(loss, reduction):
    dims = tuple(range(len(loss.shape)))
    if reduction == "none":
        return loss
    total = P.reshape(P.sum(loss, dims), shape=()) if dims else loss
    return P.div(total, product(loss.shape)) if reduction == "mean" else total


def warn_of_broadcast(input, target):
    """Warn of broadcasting: it makes a matrix of differences, and training appears to work."""
    if tuple(input.shape) != tuple(target.shape):
        warn(f"Using a target size ({target.shape}) that is different to the input size ({input.shape}): the loss is "
             "that of their broadcast shape. "
             "Give both the same shape, for example by target.view_as(input) or unsqueeze.")


def pairwise(name, formula, doc, **traits):
    """Declare a loss of input and target, element by element, then reduced."""
    @op(method=False, name=f"_{name}", **traits)
    def core(input, target, reduction, option):
        x, y = promoted(input, target)
        loss = formula(upcast(x), upcast(y), option) if option is not None else formula(upcast(x), upcast(y))
        out = reduced(loss, reduction)
        return P.convert(out, dtype=x.dtype) if x.dtype.is_half else out
    core.traits["doc"] = doc
    return core


mse_core = pairwise("mse_loss", lambda x, y: P.mul(P.sub(x, y), P.sub(x, y)), "(x - y)^2")
l1_core = pairwise("l1_loss", lambda x, y: P.abs(P.sub(x, y)), "|x - y|", overwritable=("input", "target"))


def smooth(x, y, beta):
    needs(FLOATING, "smooth_l1_loss", x, FLOATING)
    away = P.abs(P.sub(x, y))
    if beta == 0:
        return away
    near = P.lt(away, beta)
    return P.where(near, half_square(near, away, 1 / beta), P.sub(away, 0.5 * beta))


def huber(x, y, delta):
    needs(FLOATING, "huber_loss", x, FLOATING)
    away = P.abs(P.sub(x, y))
    near = P.le(away, delta)
    return P.where(near, half_square(near, away, 1.0), P.mul(P.sub(away, 0.5 * delta), real(delta)))


def half_square(near, away, factor):
    """away ** 2 * factor / 2; 0 where not near, so that an infinity is not multiplied by a gradient of 0."""
    kept = P.where(near, away, 0.0)
    return P.mul(P.mul(kept, kept), 0.5 * factor)


smooth_core = pairwise("smooth_l1_loss", smooth, "", overwritable=("input", "target"))  # with a beta of 0: l1_loss
huber_core = pairwise("huber_loss", huber, "")
soft_margin_core = pairwise("soft_margin_loss", lambda x, y: soft(P.neg(P.mul(x, y))), "log(1 + exp(-xy))")


def check_weight(input, weight):
    """Raise ValueError for weights of another size than the input's."""
    if tuple(weight.shape) != tuple(input.shape):
        raise ValueError(f"Weights and input must have the same size: {list(weight.shape)}, {list(input.shape)}.")


def with_weight(core, name):
    """Declare a loss of input, target and a weight for each element, by whose sum the mean divides."""
    def body(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
        warn_of_broadcast(input, target)
        reduction = chosen(reduction, size_average, reduce)
        if weight is None:
            return core(input, target, reduction, None)
        check_weight(input, weight)
        loss = core(input, target, "none", None) * weight
        return loss.sum() / weight.sum() if reduction == "mean" else finish(loss, reduction)
    body.__name__, body.__doc__ = name, core.traits["doc"]
    return op(body, namespace=F, composite=True)


mse_loss, l1_loss = with_weight(mse_core, "mse_loss"), with_weight(l1_core, "l1_loss")


@op(composite=True, namespace=F)
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target * input)), in the dtype of the input."""
    needs(FLOATING, "soft_margin_loss", input, FLOATING)
    warn_of_broadcast(input, target)
    return soft_margin_core(input, target, chosen(reduction, size_average, reduce), None).to(input.dtype)


@op(composite=True, namespace=F)
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Squared below beta, absolute above (Girshick 2015)."""
    if not beta >= 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    warn_of_broadcast(input, target)
    return smooth_core(input, target, chosen(reduction, size_average, reduce), real(beta))


@op(composite=True, namespace=F)
def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Squared below delta, linear above (Huber 1964)."""
    if not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    warn_of_broadcast(input, target)
    if weight is None:
        return huber_core(input, target, chosen(reduction), real(delta))
    check_weight(input, weight)
    return finish(huber_core(input, target, "none", real(delta)) * weight, chosen(reduction))


# --- classes ----------------------------------------------------------------------------------------------------------
@op(method=False, name="_nll")
def nll_core(input, target, weight, ignore_index, reduction):
    """-input[target] for each row of class scores [n, c] (targets [n]), weighted by class; ignored targets count 0."""
    n, c = input.shape
    ignored = P.eq(target, ignore_index)
    safe = P.where(ignored, 0, target)
    picked = P.reshape(P.gather(input, P.reshape(safe, shape=(n, 1)), dim=1), shape=(n,))
    scale = P.convert(P.logical_not(ignored), dtype=input.dtype)
    if weight is not None:
        if weight.dtype is not input.dtype:
            raise RuntimeError(f"expected scalar type {type_name(input.dtype)} but found {type_name(weight.dtype)}")
        scale = P.mul(scale, P.take(weight, safe, dim=0))
    loss = P.where(ignored, 0, P.neg(P.mul(upcast(picked), upcast(scale))))
    if reduction == "none":
        return P.convert(loss, dtype=input.dtype) if loss.dtype is not input.dtype else loss
    total = P.reshape(P.sum(loss, (0,)), shape=())
    if reduction == "mean":
        total = P.div(total, P.reshape(P.sum(upcast(scale), (0,)), shape=()))
    return P.convert(total, dtype=input.dtype) if total.dtype is not input.dtype else total


def row_losses(rows, target, weight, ignore_index, reduction):
    """``nll_core``, also for rows without classes: they get one, which only ignored targets have."""
    if has_no_classes(rows):
        rows = P.pad(rows, low=(0, 0), high=(0, 1), inner=(0, 0), value=0)
        weight = None if weight is None else P.pad(weight, low=(0,), high=(1,), inner=(0,), value=0)
        target = OPS["where"](target == ignore_index, target, 1)
    return nll_core(rows, target, weight, ignore_index, reduction)


@op(composite=True, namespace=F)
def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """The negative log likelihood of class targets, given log probabilities [n, c, *]."""
    reduction = chosen(reduction, size_average, reduce)
    check_classes(input, target, weight)
    rows, flat = by_rows(input, target)
    out = row_losses(rows, flat.to(int64), weight, ignore_index, reduction)
    return out.reshape(target.shape) if reduction == "none" else out


@op(samples=(), method=False, name="_cross_entropy", overwritable=("input",))
def cross_entropy_core(input, target, ignore_index, reduction):
    """nll(log_softmax(input), target) for rows [n, c] of logits."""
    x = upcast(input)
    n, c = x.shape
    ignored = P.eq(target, ignore_index)
    safe = P.reshape(P.where(ignored, 0, target), shape=(n, 1))
    high = P.amax(x, (1,))
    total = P.add(P.log(P.sum(P.exp(P.sub(x, high)), (1,))), high)
    loss = P.reshape(P.sub(total, P.gather(x, safe, dim=1)), shape=(n,))
    loss = P.where(ignored, 0.0, loss)
    if reduction != "none":
        loss = P.reshape(P.sum(loss, (0,)), shape=())
    if reduction == "mean":
        loss = P.div(loss, P.reshape(P.sum(P.convert(P.logical_not(ignored), dtype=x.dtype), (0,)), shape=()))
    return P.convert(loss, dtype=input.dtype) if loss.dtype is not input.dtype else loss


@rule(cross_entropy_core)
def vjp(g, y, input, target, ignore_index, reduction):  # noqa: F811
    """(softmax(x) - onehot(target)) * g, row by row."""
    x, g = upcast(input), upcast(g)
    n, c = x.shape
    ignored = P.eq(target, ignore_index)
    high = P.amax(x, (1,))
    e = P.exp(P.sub(x, high))
    p = P.div(e, P.sum(e, (1,)))
    hit = P.eq(P.reshape(P.iota(size=c, dtype=int64), shape=(1, c)), P.reshape(target, shape=(n, 1)))
    if reduction == "mean":
        g = P.div(g, P.reshape(P.sum(P.convert(P.logical_not(ignored), dtype=x.dtype), (0,)), shape=()))
    g = P.where(ignored, 0.0, g)
    g = P.reshape(g, shape=(n, 1))
    gx = P.mul(P.sub(p, P.convert(hit, dtype=x.dtype)), g)
    return [P.convert(gx, dtype=input.dtype) if gx.dtype is not input.dtype else gx, None]


@op(composite=True, namespace=F)
def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    """The cross entropy of logits [n, c, *] with class targets [n, *] or class probabilities [n, c, *].

    >>> torch.nn.functional.cross_entropy(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor(1.3863)
    """
    reduction = chosen(reduction, size_average, reduce)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if target.is_floating_point():
        return soft_targets(input, target, weight, reduction, label_smoothing, ignore_index)
    check_classes(input, target, weight)
    rows, flat = by_rows(input, target)
    flat = flat.to(int64)
    if weight is None and not label_smoothing and rows.numel():
        out = cross_entropy_core(rows, flat, ignore_index, reduction)
        return out.reshape(target.shape) if reduction == "none" else out
    logp = log_softmax(rows, 1)
    out = row_losses(logp, flat, weight, ignore_index, reduction)
    if label_smoothing:
        smooth_rows = -(logp * weight).sum(1) if weight is not None else -logp.sum(1)
        kept = flat != ignore_index
        smooth_rows = smooth_rows * kept.to(smooth_rows.dtype)
        if reduction == "mean":
            scale = kept.sum()
            if weight is not None and not has_no_classes(rows):
                scale = (weight[flat.clamp(min=0)] * kept.to(weight.dtype)).sum()
            smoothed = smooth_rows.sum() / scale
        else:
            smoothed = smooth_rows.sum() if reduction == "sum" else smooth_rows
        share = math.inf if has_no_classes(rows) else label_smoothing / rows.size(1)
        out = (1 - label_smoothing) * out + smoothed * share
    return out.reshape(target.shape) if reduction == "none" else out


def soft_targets(input, target, weight, reduction, smoothing, ignore_index):
    if tuple(input.shape) != tuple(target.shape):
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {type_name(target.dtype)} of shape "
            f"{list(target.shape)}: classes are integers (target.long()), "
            f"and class probabilities have the shape of the input, {list(input.shape)}")
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    dim = 1 if input.dim() > 1 else 0
    classes = input.size(dim)
    if smoothing and not has_no_classes(input):
        target = target * (1 - smoothing) + smoothing / classes
    loss = log_softmax(input, dim) * target
    if weight is not None:
        loss = loss * weight.reshape([-1 if k == dim else 1 for k in range(input.dim())])
    if reduction == "none":
        return -loss.sum(dim)
    if reduction == "sum":
        return -loss.sum()
    return -loss.sum() / (0 if has_no_classes(input) else input.numel() // classes)


@op(composite=True, namespace=F)
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target * (log target - input), input being log probabilities."""
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = OPS["xlogy"](target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / (input.size(0) if input.dim() else 1)
    reduction = chosen(reduction, size_average, reduce)
    if reduction == "mean":
        warn("reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' "
             "divides only by the batch size, and "
             "aligns with the KL math definition.")
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


@op(composite=True, namespace=F, autocast=None)
def linear_cross_entropy(input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean",
                         ignore_index=None, label_smoothing=0.0, options=None):
    """The cross entropy of linearly transformed input.  input: [*, in], linear_weight: [c, *out, in], target: [*, *out]
    classes or [*, c, *out] probabilities."""
    if options is not None:
        raise NotImplementedError(
            f"linear_cross_entropy: chunking options are not supported, got {options}; pass options=None")
    if linear_weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {linear_weight.size(-1)}), got unbatched input "
            f"with shape {tuple(input.shape)}")
    rows = linear_weight.reshape(-1, linear_weight.size(-1))
    scores = OPS["nn.functional.linear"](input, rows, None if linear_bias is None else linear_bias.reshape(-1))
    scores = scores.reshape((*input.shape[:-1], *linear_weight.shape[:-1]))
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(scores, target, weight, ignore_index=ignored, reduction=reduction,
                         label_smoothing=label_smoothing)


def finish(loss, reduction):
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


@op(composite=True, namespace=F)
def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
                     reduction="mean"):
    """The negative log likelihood of Poisson counts."""
    reduction = chosen(reduction, size_average, reduce)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + OPS["where"](target <= 1, 0.0, stirling)
    return finish(loss, reduction)


@op(composite=True, namespace=F)
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """The negative log likelihood of normal variables with given variances."""
    if not isinstance(var, Tensor):
        var = input.new_full(tuple(input.shape), float(var))
    if tuple(var.shape) != tuple(input.shape):
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = var.unsqueeze(-1)
        elif not (tuple(input.shape[:-1]) == tuple(var.shape[:-1]) and var.size(-1) == 1):
            try:
                broadcast(tuple(input.shape), tuple(var.shape))
            except RuntimeError:
                raise ValueError("var is of incorrect size") from None
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    refuse_where(var < 0, ValueError("var has negative entry/entries"))
    check_number(eps, var.dtype)
    var = OPS["where"](var < eps, eps + (var - var.detach()), var)  # whose slope is 1 where it is clamped, too
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    return finish(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


@op(composite=True, namespace=F)
def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """x where the target is 1, max(0, margin - x) where it is -1."""
    check_number(margin, input.dtype)
    near = OPS["where"](target == -1, 0.0, input)
    far = OPS["where"](target == 1, 0.0, (margin - input).clamp_min(0))
    return finish(near + far, chosen(reduction, size_average, reduce))


@op(composite=True, namespace=F, autocast=None)
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between vectors along a dimension."""
    dtype = OPS["add"](x1, x2).dtype if x1.dtype is not x2.dtype else x1.dtype
    if not dtype.is_inexact:
        raise RuntimeError("expected common dtype to be floating point, yet common dtype is " + str(dtype))
    if not eps >= 0:  # nor NaN
        raise RuntimeError(f"eps must be non-negative, got: {eps}")
    x1, x2 = OPS["broadcast_tensors"](x1.to(dtype), x2.to(dtype))
    a, b = (OPS["norm"](v, 2, dim, True).clamp_min(eps) for v in (x1, x2))
    return ((x1 / a) * (x2 / b)).sum(dim)


OPS["cosine_similarity"] = cosine_similarity


@op(composite=True, namespace=F)
def cosine_embedding_loss(input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
    if target.dim() not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if any(x.dim() != target.dim() + 1 for x in (input1, input2)):
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}.")
    dim = target.dim()
    eps = 1e-12
    product_ = (input1 * input2).sum(dim)
    cos = product_ / ((input1 * input1).sum(dim) + eps).mul((input2 * input2).sum(dim) + eps).sqrt()
    loss = OPS["where"](target == 1, 1 - cos, 0.0) + OPS["where"](target == -1, (cos - margin).clamp_min(0), 0.0)
    return finish(loss, chosen(reduction, size_average, reduce))


@op(composite=True, namespace=F)
def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """max(0, -target * (x1 - x2) + margin)."""
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{input1.shape}, input2: {input2.shape}, target: {target.shape} ")
    return finish((-target * (input1 - input2) + margin).clamp_min(0), chosen(reduction, size_average, reduce))


@op(composite=True, namespace=F, autocast=None)
def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of x1 - x2 + eps over the last dimension."""
    return OPS["norm"](x1 - x2 + eps, p, max(x1.dim(), x2.dim()) - 1, keepdim)


@op(composite=True, namespace=F)
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None,
                        reduce=None, reduction="mean"):
    """max(0, d(a, p) - d(a, n) + margin)."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs")
    return triplet(lambda a, b: pairwise_distance(a, b, p, eps), anchor, positive, negative, margin, swap,
                   chosen(reduction, size_average, reduce))


def triplet(distance, anchor, positive, negative, margin, swap, reduction):
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = OPS["minimum"](far, distance(positive, negative))
    return finish((near - far + margin).clamp_min(0), reduction)


@op(composite=True, namespace=F)
def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False,
                                      reduction="mean"):
    """max(0, d(a, p) - d(a, n) + margin) for any distance."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs")
    return triplet(distance_function or pairwise_distance, anchor, positive, negative, margin, swap, chosen(reduction))


@op(composite=True, namespace=F)
def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The mean over classes of max(0, margin - x[y] + x[i]) ** p."""
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    check_margin_scores(input)
    check_number(margin, input.dtype)
    if weight is not None and weight.dim() != 1:
        raise ValueError(f"weight must be one-dimensional, but is {list(weight.shape)}")
    reduction = chosen(reduction, size_average, reduce)
    x = input.reshape(-1, input.size(-1)) if input.dim() else input.reshape(1, 1)
    t = target.reshape(-1)
    if x.size(0) != t.numel():
        raise RuntimeError(f"inconsistent target size, expected {x.size(0)} but got {list(target.shape)}")
    gap = (margin - x.gather(1, t.unsqueeze(1)) + x).relu()
    gap = gap if p == 1 else gap * gap
    if weight is not None:
        gap = gap * weight[t].unsqueeze(1)
    own = OPS["arange"](x.size(1)).unsqueeze(0) == t.unsqueeze(1)
    loss = OPS["where"](own, 0.0, gap).sum(1) / x.size(1)
    return loss.reshape(target.shape) if reduction == "none" else finish(loss, reduction)


@op(composite=True, namespace=F)
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """Hinge loss between every target class and every other class; targets end at the first -1."""
    reduction = chosen(reduction, size_average, reduce)
    check_margin_scores(input)
    if tuple(input.shape) != tuple(target.shape):
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    x, t = input.reshape(-1, input.size(-1) if input.dim() else 1), target.reshape(-1, input.size(-1) if input.dim()
                                                                                   else 1)
    valid = (t < 0).to(int64).cumsum(1) == 0
    safe = t.clamp(min=0)
    is_target = OPS["zeros_like"](x).scatter_add(1, safe, valid.to(x.dtype)) > 0
    gap = (1 - x.gather(1, safe).unsqueeze(2) + x.unsqueeze(1)).relu()
    counted = valid.unsqueeze(2) & ~is_target.unsqueeze(1)
    loss = OPS["where"](counted, gap, 0.0).sum((1, 2)) / x.size(1)
    return loss.reshape(input.shape[:-1]) if reduction == "none" else finish(loss, reduction)
