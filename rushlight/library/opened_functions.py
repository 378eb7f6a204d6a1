"""Functions of numbers, sums and attention in the operators that they consist of: more of ``decompositions``."""
from __future__ import annotations

import math

from .._src.api import get_default_dtype
from .._src.core.native import Tensor
from .._src.core.dtypes import bool_, finfo, uint8
from .._src.core.meta import broadcast
from .decompositions import of, reshape, transpose
from .primitives import aten, as_given, number

INFINITY = math.inf


def both(a, b):
    """Two tensors of one shape."""
    shape = list(broadcast(tuple(a.shape), tuple(b.shape)))
    return [x if list(x.shape) == shape else aten.expand(x, shape) for x in (a, b)]


def is_nan(x):
    return aten.isnan(x)


def whole_range(x, size):
    return aten.arange.start_step(0, size, device=x.device, pin_memory=False)


# --- functions of one number ------------------------------------------------------------------------------------------
@of("logit")
def logit(x, eps=None):
    eps = -1.0 if eps is None else eps
    low, high = aten.lt.Scalar(x, eps), aten.gt.Scalar(x, 1 - eps)
    if eps >= 0:
        x = aten.where.self(high, number(1 - eps, x.dtype, x.device), x)
        x = aten.where.self(low, number(eps, x.dtype, x.device), x)
    return aten.log(x / aten.sub.Tensor(1, x))


@of("sinc", "special_sinc")
def sinc(x):
    x = x * math.pi
    return aten.where.self(aten.eq.Scalar(x, 0), number(1, x.dtype, x.device), aten.sin(x) / x)


@of("special_entr")
def entr(x):
    if not x.dtype.is_inexact:
        x = aten._to_copy(x, dtype=get_default_dtype())
    zero = aten.where.self(aten.eq.Scalar(x, 0), number(0, x.dtype, x.device), number(-INFINITY, x.dtype, x.device))
    some = aten.where.self(aten.gt.Scalar(x, 0), aten.neg(x) * aten.log(x), zero)
    return aten.where.self(is_nan(x), x, some)


@of("xlogy.Tensor", "special_xlogy")
def xlogy(x, y):
    made = x * aten.log(y)
    made = aten.where.self(aten.eq.Scalar(x, 0), number(0, made.dtype, made.device), made)
    return aten.where.self(is_nan(y), number(math.nan, made.dtype, made.device), made)


@of("log_sigmoid")
def log_sigmoid(x):
    zero = aten.full([], 0, dtype=x.dtype, device=x.device, pin_memory=False)
    return aten.minimum(zero, x) - aten.log1p(aten.exp(aten.neg(aten.abs(x))))


@of("softshrink")
def softshrink(x, lambd=0.5):
    return aten.where.self(aten.gt.Scalar(aten.abs(x), lambd), x - aten.sign(x) * lambd, x * 0)


@of("hardshrink")
def hardshrink(x, lambd=0.5):
    return aten.where.self(aten.le.Scalar(aten.abs(x), lambd), number(0, x.dtype, x.device), x)


@of("special_ndtr")
def ndtr(x):
    return aten.mul.Scalar(aten.add.Scalar(aten.erf(aten.mul.Scalar(x, math.sqrt(0.5))), 1), 0.5)


@of("isfinite")
def isfinite(x):
    if not x.dtype.is_inexact or x.dtype.is_complex:
        return NotImplemented if x.dtype.is_complex else aten.full_like(x, True, dtype=bool_, pin_memory=False)
    return aten.mul.Tensor(aten.eq.Tensor(x, x), aten.ne.Scalar(aten.abs(x), INFINITY))


@of("isreal")
def isreal(x):
    return NotImplemented if x.dtype.is_complex else aten.full_like(x, True, dtype=bool_, pin_memory=False)


# --- functions of two numbers -----------------------------------------------------------------------------------------
@of("rsub.Scalar", "rsub.Tensor")
def rsub(self, other, alpha=1):
    return aten.sub.Tensor(other, self * alpha if alpha != 1 else self)


@of("floor_divide", "floor_divide.Scalar")
def floor_divide(x, y):
    return aten.div.Tensor_mode(x, y, rounding_mode="floor")


@of("logaddexp")
def logaddexp(x, y):
    if x.dtype.is_complex:
        return NotImplemented
    x, y = both(x, y)
    more = aten.ge.Tensor(x, y)
    high, low = aten.where.self(more, x, y), aten.where.self(more, y, x)
    infinite = aten.logical_not(isfinite(x))
    same = aten.logical_and(infinite, aten.eq.Tensor(x, y))
    return aten.where.self(same, x, high + aten.log1p(aten.exp(low - high)))


@of("logaddexp2")
def logaddexp2(x, y):
    x, y = both(x, y)
    more = aten.ge.Tensor(x, y)
    high, low = aten.where.self(more, x, y), aten.where.self(more, y, x)
    same = aten.logical_and(aten.isinf(x), aten.eq.Tensor(x, y))
    return aten.where.self(same, x, high + aten.log1p(aten.exp2(low - high)) * (1 / math.log(2)))


@of("heaviside")
def heaviside(x, values):
    low = aten.logical_or(aten.lt.Scalar(x, 0), is_nan(x))
    steps = aten.where.self(low, number(0, x.dtype, x.device), number(1, x.dtype, x.device))
    zero = aten.eq.Scalar(x, 0)
    if tuple(values.shape) != tuple(x.shape):
        values = aten.expand(values, list(broadcast(tuple(x.shape), tuple(values.shape))))
    return aten.where.self(zero, values, steps)


@of("lerp.Tensor", "lerp.Scalar")
def lerp(start, end, weight):
    if not isinstance(weight, Tensor):
        weight = aten.full([], weight, dtype=start.dtype, device=start.device, pin_memory=False)
    far = aten.ge.Scalar(aten.abs(weight), 0.5)
    factor = aten.where.self(far, weight - 1, weight)
    base = aten.where.self(far, end, start)
    return factor * (end - start) + base


@of("addcmul")
def addcmul(self, tensor1, tensor2, *, value=1):
    return self + tensor1 * value * tensor2


@of("addcdiv")
def addcdiv(self, tensor1, tensor2, *, value=1):
    return self + tensor1 / tensor2 * value


# --- sums -------------------------------------------------------------------------------------------------------------
def as_answer(found, x):
    """What is asked of bytes is answered in bytes."""
    return aten._to_copy(found, dtype=uint8) if x.dtype is uint8 else found


@of("all")
def all_of(x):
    return as_answer(aten.logical_not(aten.any.dims(aten.logical_not(x))), x)


@of("all.dim")
def all_along(x, dim, keepdim=False):
    return as_answer(aten.logical_not(aten.any.dim(aten.logical_not(x), dim, keepdim)), x)


@of("all.dims")
def all_along_several(x, dim=None, keepdim=False):
    return as_answer(aten.logical_not(aten.any.dims(aten.logical_not(x), dim, keepdim)), x)


@of("count_nonzero", "count_nonzero.dim_IntList")
def count_nonzero(x, dim=None):
    dims = None if dim is None else [dim] if isinstance(dim, int) else list(dim)
    return aten.sum.dim_IntList(aten.ne.Scalar(x, 0), dims)


@of("nansum")
def nansum(x, dim=None, keepdim=False, *, dtype=None):
    if x.dtype.is_complex or not x.dtype.is_inexact:
        return NotImplemented
    shown = aten.where.self(is_nan(x), number(0, x.dtype, x.device), x)
    dims = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    return aten.sum.dim_IntList(shown, dims, keepdim, **{} if dtype is None else {"dtype": dtype})


def corrected(function, x, dim, unbiased, keepdim):
    """A variance by its ``correction``, for calls that say whether it is unbiased, in the place of ``dim`` as well."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    return function.correction(x, dim, correction=1.0 if unbiased else 0.0, keepdim=keepdim)


@of("var", "var.dim")
def var(x, dim=None, unbiased=True, keepdim=False):
    return corrected(aten.var, x, dim, unbiased, keepdim)


@of("std", "std.dim")
def std(x, dim=None, unbiased=True, keepdim=False):
    return aten.sqrt(var(x, dim, unbiased, keepdim))


@of("std.correction")
def std_by(x, dim=None, *, correction=None, keepdim=False):
    return aten.sqrt(aten.var.correction(x, dim, correction=correction, keepdim=keepdim))


@of("var_mean", "var_mean.dim")
def var_mean(x, dim=None, unbiased=True, keepdim=False):
    return corrected(aten.var_mean, x, dim, unbiased, keepdim)


@of("std_mean", "std_mean.dim")
def std_mean(x, dim=None, unbiased=True, keepdim=False):
    found, mean = var_mean(x, dim, unbiased, keepdim)
    return aten.sqrt(found), mean


@of("std_mean.correction")
def std_mean_by(x, dim=None, *, correction=None, keepdim=False):
    found, mean = aten.var_mean.correction(x, dim, correction=correction, keepdim=keepdim)
    return aten.sqrt(found), mean


@of("logsumexp", "special_logsumexp")
def logsumexp(x, dim, keepdim=False):
    dims = [dim] if isinstance(dim, int) else list(dim)
    if not x.dtype.is_inexact or x.dtype.is_complex or not x.dim():
        return NotImplemented
    high = aten.amax(x, dims, True)
    shift = aten.where.self(aten.eq.Scalar(aten.abs(high), INFINITY), number(0.0, x.dtype, x.device), high)
    made = aten.log(aten.sum.dim_IntList(aten.exp(x - shift), dims, keepdim))
    return made + (shift if keepdim else aten.squeeze.dims(shift, dims))


@of("linalg_vecdot")
def vecdot(x, y, *, dim=-1):
    return NotImplemented if x.dtype.is_complex else aten.sum.dim_IntList(x * y, [dim], **as_given(x))


@of("mse_loss")
def mse_loss(input, target, reduction=1):
    return reduced(aten.pow.Tensor_Scalar(input - target, 2), reduction)


@of("l1_loss")
def l1_loss(input, target, reduction=1):
    return reduced(aten.abs(input - target), reduction)


def reduced(x, reduction):
    return aten.mean(x) if reduction == 1 else aten.sum.dim_IntList(x, []) if reduction == 2 else x


# --- places -----------------------------------------------------------------------------------------------------------
@of("squeeze.dim")
def squeeze(x, dim):
    return aten.squeeze.dims(x, [dim])


@of("stack")
def stack(tensors, dim=0):
    rank = tensors[0].dim() + 1
    dim = dim % rank
    if dim == rank - 1:
        return aten.cat([aten.unsqueeze(x, dim) for x in tensors], dim)
    shape = list(tensors[0].shape)
    return aten.view(aten.cat(list(tensors), dim), [*shape[:dim], len(tensors), *shape[dim:]])


@of("linalg_diagonal")
def linalg_diagonal(x, *, offset=0, dim1=-2, dim2=-1):
    return aten.diagonal(x, offset, dim1, dim2)


@of("roll")
def roll(x, shifts, dims=()):
    shifts, dims = listed(shifts), listed(dims)
    if len(shifts) != 1 or len(dims) != 1:
        if not dims:
            return aten.view(roll(reshape(x, [x.numel()]), shifts, [0]), list(x.shape))
        for shift, dim in zip(shifts, dims):
            x = roll(x, [shift], [dim])
        return x
    size, dim = x.shape[dims[0]], dims[0] % x.dim()
    if type(size) is int and size == 0:
        return aten.clone(x)
    places = aten.fmod.Scalar(whole_range(x, size) + (size - shifts[0] % size) % size, size)
    return aten.index_select(x, dim, places)


def listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def triangle(x, diagonal, compared):
    rows, columns = x.shape[-2], x.shape[-1]
    offset = aten.unsqueeze(whole_range(x, columns), -2) - aten.unsqueeze(whole_range(x, rows), -1)
    return aten.where.self(compared(offset, diagonal), x, number(0 if x.dtype is not bool_ else False, x.dtype,
                                                                 x.device))


@of("tril")
def tril(x, diagonal=0):
    return triangle(x, diagonal, aten.le.Scalar)


@of("triu")
def triu(x, diagonal=0):
    return triangle(x, diagonal, aten.ge.Scalar)


@of("pad")
def pad(x, padding, mode="constant", value=None):
    if mode != "constant":
        return NotImplemented
    return aten.constant_pad_nd(x, list(padding), 0.0 if value is None else value)


# --- attention --------------------------------------------------------------------------------------------------------
def scores_of(query, key, attn_mask, is_causal, scale):
    """Return the attention scores, whose softmax are the weights."""
    size = query.shape[-1]
    factor = math.sqrt(size ** -0.5 if scale is None else abs(scale))
    sign = -1 if scale is not None and scale < 0 else 1
    rows = aten.mul.Scalar(query, factor * sign)
    mask = added(query, key, attn_mask, is_causal)
    scores = aten.matmul(rows, aten.mul.Scalar(transpose(key, -2, -1), factor))
    return scores if mask is None else scores + mask


def weighed(scores, value):
    """Values in the shares that scores give them; nothing where no score is above -infinity."""
    shares = aten._softmax(scores, -1, False)
    seen = aten.any.dim(aten.logical_not(aten.eq.Scalar(scores, -INFINITY)), -1, True)
    nothing = aten.full_like(shares, 0, pin_memory=False)
    return aten.matmul(aten.where.self(aten.logical_not(seen), nothing, shares), value)


@of("scaled_dot_product_attention")
def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    if dropout_p or enable_gqa or query.dtype.is_half:
        return NotImplemented
    return weighed(scores_of(query, key, attn_mask, is_causal, scale), value)


@of("_scaled_dot_product_flash_attention_for_cpu")
def attention_and_totals(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    if dropout_p or query.dtype.is_half:
        return NotImplemented
    scores = scores_of(query, key, attn_mask, is_causal, scale)
    return weighed(scores, value), aten.logsumexp(scores, [-1])


def added(query, key, mask, is_causal):
    """Return the additive mask of scores: 0 where they count, minus infinity elsewhere."""
    if is_causal:
        every = aten.full([query.shape[-2], key.shape[-2]], True, dtype=bool_, device=query.device, pin_memory=False)
        offset = aten.unsqueeze(whole_range(query, key.shape[-2]), -2) - aten.unsqueeze(
            whole_range(query, query.shape[-2]), -1)
        mask = aten.logical_and(aten.le.Scalar(offset, 0), every)
    if mask is None or mask.dtype is not bool_:
        return mask
    low = number(-INFINITY, query.dtype, query.device)
    return aten.where.self(mask, number(0.0, query.dtype, query.device), low)


@of("rms_norm")
def rms_norm(input, normalized_shape, weight=None, eps=None):
    if input.dtype.is_half:
        return NotImplemented
    dims = list(range(input.dim() - len(normalized_shape), input.dim()))
    mean = aten.mean.dim(aten.pow.Tensor_Scalar(input, 2), dims, True)
    made = input * aten.rsqrt(aten.add.Scalar(mean, finfo(input.dtype).eps if eps is None else eps))
    return made if weight is None else made * weight
