"""Attention and embeddings."""
from __future__ import annotations

import math
import threading

from ..core import interpret
from ..core.convert import contiguous_format
from ..core.dtypes import bool_, float32, float64, int32, int64
from ..core.expectations import expect_counts
from ..core.expr import Expr
from ..core.kinds import P
from ..core.later import entered
from ..core.log import logger
from ..core.meta import Meta, product
from ..core.native import mine
from ..core.op import OPS, op, rule
from ..core.tensor import refuse_where, wrapped
from .activation import dropout
from .dropping import blocks_drawn, level_of
from .flash import flash, refusal
from .promotion import upcast
from .random import draw

F = "nn.functional"
with_sparse_gradient = entered("sparse.rows", "with_sparse_gradient")
log = logger("kernels")


class Kernels(threading.local):
    """Attention kernels that a thread allows, in order of preference."""

    allowed = EVERY = ("FLASH_ATTENTION", "MATH", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION")

    def allow(self, name: str, enabled: bool):
        """Enable or disable a kernel in all threads."""
        chosen = {*self.allowed, name} if enabled else {*self.allowed} - {name}
        self.__dict__.pop("allowed", None)
        Kernels.allowed = tuple(kernel for kernel in self.EVERY if kernel in chosen)


kernels = Kernels()
MOST_SETTLED = 1024
settled: dict = {}  # calls that Rushlight's kernel computes, without mask and dropout, by metas and allowed kernels


@op(composite=True, namespace=F, autocast="half", reads=(kernels, "allowed"))
def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                                 enable_gqa=False):
    """softmax(query key^T * scale + mask) value.  [*, l, e], [*, s, e], [*, s, v] -> [*, l, v] (Vaswani et al.
    2017)."""
    asked = None
    if attn_mask is None and not dropout_p and not mine.stack:  # these determine the kernel
        asked = query._rush_meta, key._rush_meta, value._rush_meta, enable_gqa, kernels.allowed, query.device.provider
        if asked in settled:
            return flash(query, key, value, None, None, None, bool(is_causal), None if scale is None else float(scale),
                         0, settled[asked])
    if query.dim() < 2 or key.dim() < 2 or value.dim() < 2:
        raise RuntimeError(
            f"Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {query.dim()}, "
            f"key.dim: {key.dim()} and value.dim: {value.dim()} instead.")
    if not query.dtype is key.dtype is value.dtype:
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {query.dtype} key.dtype: "
            f"{key.dtype} and value.dtype: {value.dtype} instead.")
    if attn_mask is not None and attn_mask.dtype not in (bool_, float32, query.dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{attn_mask.dtype} and query.dtype: {query.dtype} instead.")
    if is_causal and attn_mask is not None:
        if dropout_p or query.dim() != 4:
            raise RuntimeError(
                "scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True, unless there "
                "are four dimensions and no dropout")
        attn_mask, is_causal = below_diagonal(attn_mask, query.size(-2), key.size(-2)), False
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")
    kernel, refused = checked_kernel(query, key, value, attn_mask, dropout_p, enable_gqa)
    if kernel != "MATH":
        if asked is not None:
            if len(settled) == MOST_SETTLED:
                settled.clear()
            settled[asked] = who(kernel, query)
        level = level_of(float(dropout_p))
        seed, place = (None, None) if not level else draw(None, 4 * blocks_drawn(product(query.shape[:-2]),
                                                                                     query.shape[-2], key.shape[-2]))
        return flash(query, key, value, attn_mask, seed, place, bool(is_causal),
                     None if scale is None else float(scale), level, who(kernel, query))
    log.debug("attention by its formula: %s", refused or "the kernel is not allowed or not the first choice")
    if enable_gqa:
        key = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
        value = value.repeat_interleave(query.size(-3) // value.size(-3), -3)
    root, sign = roots_of(query.size(-1)) if scale is None else math.sqrt(
        abs(scale)), -1 if scale is not None and scale < 0 else 1
    half = query.dtype if query.dtype.is_half else None  # exp() magnifies the rounding errors of large scores
    if half:
        query, key, value = query.float(), key.float(), value.float()
    scores = (query * root * sign) @ (key.transpose(-2, -1) * root)
    mask = None if attn_mask is None or attn_mask.dtype is bool_ else attn_mask
    allowed = attn_mask if attn_mask is not None and attn_mask.dtype is bool_ else None
    if type(scores.size(-1)) is int and scores.size(-1) == 0:
        return scores @ value  # no keys: zeros
    weights = masked_softmax(scores, allowed, mask, bool(is_causal))
    if dropout_p:
        weights = dropout(weights, dropout_p)
    out = weights @ value
    return out.to(half) if half else out


def below_diagonal(mask, length, keys):
    """Return a mask that also forbids elements above the diagonal."""
    allowed = OPS["ones"]((length, keys), dtype=bool_).tril()
    return mask & allowed if mask.dtype is bool_ else OPS["where"](allowed, mask, -math.inf)


def roots_of(size):
    """Square root of the default scale for heads of this size; a run-time scalar if the size is dynamic."""
    if isinstance(size, Expr):
        return (size / 1) ** -0.25
    return math.sqrt(1.0 / math.sqrt(size)) if size else 1.0  # of no elements every score is 0


def who(kernel: str, query) -> str:
    """Select the kernel of attention (``AttentionSpec.kernel``): vendor libraries are for devices other than the
    host."""
    if query.device.provider.on_host:
        return ""
    return "vendor" if kernel == "CUDNN_ATTENTION" else "" if "CUDNN_ATTENTION" in kernels.allowed else "own"


def checked_kernel(*arguments):
    """(first allowed kernel that supports the call, reasons why earlier ones do not); RuntimeError if none does."""
    refused = {}
    for kernel in kernels.allowed:
        reason = refusals[kernel](*arguments)
        if reason is None:
            return kernel, "; ".join(f"{name}: {why}" for name, why in refused.items())
        refused[kernel] = reason
    reasons = "; ".join(f"{name}: {why}" for name, why in refused.items())
    query = arguments[0]
    if refused.get("FLASH_ATTENTION") == f"{float64}" and query.device.provider.on_host:
        return "MATH", reasons  # in that precision the formula is the kernel
    raise RuntimeError(
        "No available kernel. Aborting execution. No kernel that sdpa_kernel() allows supports the call: "
        f"{reasons or 'there are none'}.")


def elsewhere(*arguments):
    return "it is a kernel for other devices"


def refusal_of_vendor(query, key, value, mask, probability, shares):
    """Reason why the library of the device's vendor does not compute attention; None if it does."""
    declined = query.device.provider.target().declines_vendor_attention(query, value)
    if declined is not None:
        return declined
    if probability:
        return "dropout, which it draws otherwise"
    if mask is not None and mask.dtype is not query.dtype:
        return f"a mask of {mask.dtype}"
    if len(query.shape) != 4:
        return f"{len(query.shape)} dimensions"
    return refusal(query, key, value, mask, probability, shares)


refusals = {"FLASH_ATTENTION": refusal, "MATH": lambda *arguments: None, "EFFICIENT_ATTENTION": refusal,
            "CUDNN_ATTENTION": refusal_of_vendor,
            "OVERRIDEABLE": elsewhere, "ERROR": elsewhere}


@op(method=False, name="_softmax_of_allowed")
def masked_softmax(scores, allowed, bias, causal):
    """softmax over the last dimension where ``allowed`` (and, if causal, up to the diagonal); rows with nothing allowed
    are 0."""
    x = scores if not scores.dtype.is_half else P.convert(scores, dtype=float32)
    if bias is not None:
        x = P.add(x, bias if bias.dtype is x.dtype else P.convert(bias, dtype=x.dtype))
    if causal:
        rows = P.reshape(P.iota(size=x.shape[-2], dtype=int64), shape=(x.shape[-2], 1))
        columns = P.reshape(P.iota(size=x.shape[-1], dtype=int64), shape=(1, x.shape[-1]))
        x = P.where(P.le(columns, rows), x, -math.inf)
    if allowed is not None:
        x = P.where(allowed, x, -math.inf)
    at = (len(x.shape) - 1,)
    high = P.amax(x, at)
    if allowed is not None or bias is not None:
        high = P.where(P.eq(high, -math.inf), 0.0, high)
    e = P.exp(P.sub(x, high))
    total = P.sum(e, at)
    out = P.div(e, P.where(P.eq(total, 0), 1.0, total) if allowed is not None or bias is not None else total)
    return out if out.dtype is scores.dtype else P.convert(out, dtype=scores.dtype)


@rule(masked_softmax)
def vjp(g, y, scores, allowed, bias, causal):
    at = (len(y.shape) - 1,)
    from .promotion import upcast
    g, y = upcast(g), upcast(y)
    gx = P.mul(y, P.sub(g, P.sum(P.mul(g, y), at)))
    out = [P.convert(gx, dtype=scores.dtype) if gx.dtype is not scores.dtype else gx]
    if allowed is not None:
        out.append(None)
    if bias is not None:
        from ..core.kinds import sum_to
        out.append(P.convert(sum_to(gx, bias.shape), dtype=bias.dtype))
    return out


@op(composite=True)
def repeat_interleave(input, repeats: object =None, dim=None, *, output_size=None):
    """Repeat each element (or slice along ``dim``) a number of times."""
    if repeats is None:
        input, repeats = OPS["arange"](input.numel()), input
    x = input.reshape(-1) if dim is None else input
    at = 0 if dim is None else wrapped(dim, max(x.dim(), 1))
    x = x if x.dim() else x.reshape(1)
    if isinstance(repeats, (int, Expr)):
        expect_counts((repeats,), lambda: RuntimeError("repeats can not be negative"))
        shape = tuple(x.shape)
        out = x.unsqueeze(at + 1).expand(*shape[:at + 1], repeats, *shape[at + 1:])
        out = out.clone(memory_format=contiguous_format)  # with one repeat, reshape alone would return a view
        return out.reshape(*shape[:at], shape[at] * repeats, *shape[at + 1:])
    if repeats.dtype not in (int64, int32):
        raise RuntimeError("repeats has to be Long or Int tensor")
    return x.index_select(at, repeated(repeats, x.size(at), at, output_size))


@op(composite=True, method=False, name="_repeat_positions")
def repeated(repeats, size, at, output_size):
    """Repeat each of ``size`` positions by its count: [output_size] int64."""
    import numpy as np
    from ..core.exchange import from_numpy
    counts = repeats.reshape(-1).cpu().numpy()
    if (counts < 0).any():
        raise RuntimeError("repeats can not be negative")
    if len(counts) != 1 and len(counts) != size:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {len(counts)} and "
            f"input.size({at}) = {size}")
    index = np.repeat(np.arange(size), int(counts[0]) if len(counts) == 1 else counts)
    if output_size is not None and len(index) != output_size:
        raise RuntimeError(f"repeat_interleave: output_size is {output_size}, but the repeats sum to {len(index)}")
    return from_numpy(index.astype(np.int64)).to(repeats._rush_meta.device)


@rule(repeated)
def unmeasured(some, repeats, size, at, output_size):
    return Meta.of((some() if output_size is None else output_size,), int64, repeats.device)


@op(method=False, name="_embedding")
def embedding_rows(weight, indices, padding_idx):
    """weight[indices]: [v, d], [*] -> [*, d]; the row ``padding_idx`` gets no gradient."""
    return P.take(weight, indices if indices.dtype is int64 else P.convert(indices, dtype=int64), dim=0)


@rule(embedding_rows)
def vjp(g, y, weight, indices, padding_idx):  # noqa: F811
    at = indices if indices.dtype is int64 else P.convert(indices, dtype=int64)
    if padding_idx is not None:
        keep = P.ne(P.reshape(at, shape=(*at.shape, 1)), padding_idx)
        g = P.where(keep, g, 0)
    return [P.put(P.full(shape=tuple(weight.shape), value=0, dtype=weight.dtype), at, g, dim=0, combine="add"), None]


@op(composite=True, namespace=F, by_rows=True)
def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """The rows of ``weight`` [v, d] at integer positions [*] -> [*, d].

    >>> torch.nn.functional.embedding(torch.tensor([2, 0]), torch.eye(3))
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    if input.dtype not in (int64, int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{input.dtype} instead")
    if weight.dim() != 2:
        raise RuntimeError("'weight' must be 2-D")
    if padding_idx is not None:
        if not -weight.size(0) <= padding_idx < weight.size(0):
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx = padding_idx % weight.size(0)
    if not weight.size(1):  # no element is read that could tell of a wrong position
        refuse_where((input < 0) | (input >= weight.size(0)), IndexError("index out of range in self"))
    if max_norm is not None:
        from ..autograd.mode import no_grad
        with no_grad():
            rows = OPS["unique"](input.reshape(-1))
            weight[rows] = OPS["renorm"](weight.detach()[rows], norm_type, 0, max_norm)
    if sparse and not scale_grad_by_freq and weight.requires_grad and interpret.is_recording():
        interpreter = interpret.top()
        if interpreter is None:
            return with_sparse_gradient(weight, input, padding_idx)
        if interpreter.breaks:
            raise NotImplementedError("a table with a sparse gradient is read outside of graphs")
    out = embedding_rows(weight, input, padding_idx)
    if scale_grad_by_freq and weight.requires_grad:
        counts = OPS["bincount"](input.reshape(-1), minlength=weight.size(0))[input].unsqueeze(-1).to(weight.dtype)
        out = out.detach() + (out - out.detach()) / counts
    return out


op(lambda weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False: embedding(
    indices, weight, padding_idx if padding_idx >= 0 else None, scale_grad_by_freq=scale_grad_by_freq),
   name="embedding", composite=True, method=False,
   doc="The rows of ``weight`` [v, d] at integer positions [*] -> [*, d].")


@op(composite=True, namespace=F)
def one_hot(tensor, num_classes=-1):
    """[*] integers -> [*, classes] with a one at each integer's index.

    >>> torch.nn.functional.one_hot(torch.tensor([1, 0]), 3)
    tensor([[0, 1, 0],
            [1, 0, 0]])
    """
    if tensor.dtype is not int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return tensor.new_zeros((*tensor.shape, num_classes))
    refuse_where(tensor < 0, RuntimeError("Class values must be non-negative."))
    if num_classes == -1:
        return one_hot_of_all(tensor)
    refuse_where(tensor >= num_classes, RuntimeError("Class values must be smaller than num_classes."))
    return (tensor.unsqueeze(-1) == OPS["arange"](num_classes)).to(int64)


@op(composite=True, method=False, name="_one_hot_of_all")
def one_hot_of_all(tensor):
    """``one_hot`` with as many classes as occur: the largest integer is the last class."""
    return (tensor.unsqueeze(-1) == OPS["arange"](int(tensor.max()) + 1)).to(int64)


@rule(one_hot_of_all)
def unmeasured(some, tensor):  # noqa: F811
    return Meta.of((*tensor.shape, some()), int64, tensor.device)


@op(composite=True, planned=True, namespace=F, autocast="parts")
def bilinear(input1, input2, weight, bias=None):
    """x1^T W x2 + b for each output: [*, a], [*, b], [o, a, b] -> [*, o]."""
    if input1.size(-1) != weight.size(1) or input2.size(-1) != weight.size(2):
        raise RuntimeError(
            f"bilinear(): input sizes do not match weight size: got {input1.size(-1)} and {input2.size(-1)} but "
            f"expected {weight.size(1)} and {weight.size(2)}")
    lead = tuple(input1.shape[:-1])
    a, b, w = upcast(input1.reshape(-1, input1.size(-1))), upcast(input2.reshape(-1, input2.size(-1))), upcast(weight)
    out = ((a @ w.permute(1, 0, 2).reshape(w.size(1), -1)).reshape(-1, w.size(0), w.size(2)) * b.unsqueeze(1)).sum(-1)
    out = out if bias is None else out + upcast(bias)
    return out.reshape(*lead, w.size(0)).to(input1.dtype)


@op(composite=True, planned=True, method=False, view=True, autocast="parts", spread=True)
def einsum(equation, *operands):
    """Sums of products by the names of dimensions: "bij,bjk->bik".

    >>> torch.einsum("ij,j->i", torch.ones(2, 3), torch.ones(3))
    tensor([3., 3.])
    """
    if len(operands) == 1 and isinstance(equation, str) and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    from .einsum import contract, equation_of
    if not isinstance(equation, str):
        equation, operands = equation_of((equation, *operands))
    return contract(equation, list(operands))


@op(composite=True, planned=True, method=False, autocast="parts")
def tensordot(a, b, dims: object = 2, out=None):
    """Sums of products over paired dimensions."""
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        left, right = list(range(a.dim() - dims, a.dim())), list(range(dims))
    else:
        left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
    left, right = [d % a.dim() for d in left], [d % b.dim() for d in right]
    if len(left) != len(right) or any(a.size(i) != b.size(j) and 1 not in (a.size(i), b.size(j))
                                      for i, j in zip(left, right)):
        raise RuntimeError(
            f"contracted dimensions need to match, but first has size {[a.size(i) for i in left]} and second has size "
            f"{[b.size(j) for j in right]}")
    for i, j in zip(left, right):  # a dimension of size 1 meets every element of the other
        if a.size(i) != b.size(j):
            a, b = (a, b.sum(j, keepdim=True, dtype=b.dtype)) if a.size(i) == 1 else (a.sum(i, keepdim=True,
                                                                                            dtype=a.dtype), b)
    keep_a, keep_b = [d for d in range(a.dim()) if d not in left], [d for d in range(b.dim()) if d not in right]
    x = a.permute(keep_a + left).reshape(product(a.size(d) for d in keep_a), -1 if left else 1)
    y = b.permute(right + keep_b).reshape(-1 if right else 1, product(b.size(d) for d in keep_b))
    return (x @ y).reshape([a.size(d) for d in keep_a] + [b.size(d) for d in keep_b])
