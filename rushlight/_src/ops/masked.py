"""Reductions and normalizations over elements where a mask holds: the others count as the reduction's neutral
element."""
from __future__ import annotations

import math

from ..core.dtypes import bool_, bound
from ..core.op import OPS, op
from ..core.tensor import Tensor
from .logic import where_

NAMESPACE = "masked"


def converted(input, dtype):
    return input if dtype is None or input.dtype is dtype else input.to(dtype)


def kept(input, mask, neutral):
    """The input with ``neutral`` where the mask does not hold."""
    if mask is None:
        return input
    if not isinstance(mask, Tensor) or mask.dtype is not bool_:
        raise TypeError(f"a mask is a tensor of bools, got {getattr(mask, 'dtype', type(mask).__name__)}")
    return where_(mask.expand(input.shape) if mask.dim() < input.dim() else mask, input, input.new_full((), neutral))


def all_dims(input, dim):
    """Dimensions of ``dim``, possibly a run-time scalar; all if it is empty."""
    named = () if dim is None else tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    return named or tuple(range(input.dim()))


def reduction(name, neutral, doc):
    """Declare a reduction that replaces masked elements by ``neutral(dtype)``."""
    def body(input, dim=None, *, keepdim=False, dtype=None, mask=None):
        x = converted(input, dtype)
        filled = kept(x, mask, neutral(x.dtype))
        dims = all_dims(x, dim)
        found = OPS[name](filled, dims, keepdim)
        return found.to(x.dtype) if name == "logsumexp" else found
    body.__name__, body.__doc__ = name, doc
    return op(body, composite=True, namespace=NAMESPACE)


sum = reduction("sum", lambda dtype: 0, "The sum of elements where the mask holds.")
prod = reduction("prod", lambda dtype: 1, "The product of elements where the mask holds.")
amax = reduction("amax", lambda dtype: bound(dtype, False), "The largest of the elements where the mask holds.")
amin = reduction("amin", lambda dtype: bound(dtype, True), "The smallest of the elements where the mask holds.")
logsumexp = reduction("logsumexp", lambda dtype: bound(dtype, False),
                      "log(sum(exp(x))) of the elements where the mask holds.")


def position(name, highest):
    def body(input, dim=None, *, keepdim=False, dtype=None, mask=None):
        x = converted(input, dtype)
        return OPS[name](kept(x, mask, bound(x.dtype, highest)), dim, bool(keepdim)).to(x.dtype)
    body.__name__, body.__doc__ = (
        name, f"Where the {'smallest' if highest else 'largest'} element is among those where the mask holds, in the "
              "dtype of the input.")
    return op(body, composite=True, namespace=NAMESPACE)


argmax, argmin = position("argmax", False), position("argmin", True)


def running(name, neutral):
    def body(input, dim, *, dtype=None, mask=None):
        x = converted(input, dtype)
        return OPS[name](kept(x, mask, neutral), dim, dtype=None if x.dtype is bool_ else x.dtype)
    body.__name__, body.__doc__ = name, f"{name} with elements where the mask does not hold as {neutral}."
    return op(body, composite=True, namespace=NAMESPACE)


cumsum, cumprod = running("cumsum", 0), running("cumprod", 1)


def counted(input, dims, mask):
    """Number of elements of each result that the mask keeps (dimensions kept)."""
    if mask is None:
        return math.prod(input.shape[d] for d in dims if input.shape)
    return mask.expand(input.shape).sum(dims, keepdim=True)


@op(composite=True, namespace=NAMESPACE)
def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean of elements where the mask holds; NaN if there are none."""
    x = converted(input, dtype)
    dims = all_dims(x, dim)
    out = kept(x, mask, 0).sum(dims, keepdim=True) / counted(x, dims, mask)
    out = out.to(x.dtype) if x.dtype.is_inexact else out
    return out if keepdim else out.squeeze(dims)


def spread(name, root):
    def body(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
        if unbiased is not None and correction is not None:
            raise RuntimeError("Only one of unbiased and correction may be given")
        x = converted(input, dtype)
        x = x if x.dtype.is_inexact else x.float()
        less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
        dims = all_dims(x, dim)
        values = x.float() if x.dtype.is_half else x
        count = counted(x, dims, mask)
        away = kept(values - kept(values, mask, 0).sum(dims, keepdim=True) / count, mask, 0)
        total = away.abs().square().sum(dims, keepdim=True)
        below = (count - less).clamp(min=0) if isinstance(count, Tensor) else max(count - less, 0)
        out = total / below
        out = out.sqrt() if root else out
        out = out.to(x.dtype)
        return out if keepdim else out.squeeze(dims)
    body.__name__, body.__doc__ = (
        name, f"{name} of elements where the mask holds, dividing by their count less ``correction`` (1).")
    return op(body, composite=True, namespace=NAMESPACE)


var, std = spread("var", False), spread("std", True)


@op(composite=True, namespace=NAMESPACE)
def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The (lower) median along a dimension of elements where the mask holds."""
    x = converted(input, dtype)
    if not x.dtype.is_inexact:
        raise ValueError(f"masked median expects a floating input, got {x.dtype}")
    return OPS["nanmedian"](kept(x, mask, math.nan), dim, keepdim).values


def norm_neutral(ord):
    return math.inf if ord < 0 else 0


@op(composite=True, namespace=NAMESPACE)
def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The vector norm of elements where the mask holds."""
    x = converted(input, dtype)
    return OPS["linalg.vector_norm"](kept(x, mask, norm_neutral(ord)), ord, all_dims(x, dim) or None, bool(keepdim))


@op(composite=True, namespace=NAMESPACE)
def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """x / max(norm(x), eps) along a dimension, of elements where the mask holds."""
    x = converted(input, dtype)
    size = norm(x, ord, dim, keepdim=True, mask=mask)
    return kept(x, mask, 0) / size.clamp_min(eps) if not x.is_complex() else kept(x, mask, 0) / size.clamp_min(eps).to(
        x.dtype)


def softened(name, turned):
    def body(input, dim, *, dtype=None, mask=None):
        x = converted(input, dtype)
        filled = kept(x, mask, math.inf if turned else -math.inf)
        return OPS["nn.functional.softmax" if turned else f"nn.functional.{name}"](-filled if turned else filled, dim)
    body.__name__, body.__doc__ = name, f"{name} along a dimension over the elements where the mask holds."
    return op(body, composite=True, namespace=NAMESPACE)


softmax, log_softmax, softmin = softened("softmax", False), softened("log_softmax", False), softened("softmin", True)


@op(composite=True, namespace=NAMESPACE)
def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(input) + exp(other)), each only where its mask holds."""
    return OPS["logaddexp"](kept(converted(input, dtype), input_mask, -math.inf),
                            kept(converted(other, dtype), other_mask, -math.inf))
