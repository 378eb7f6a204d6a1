"""What calls of ``aten`` run where PyTorch's operator is the inner part of one that users call: such as the batch norm
that gives its running statistics in place of writing them."""
from __future__ import annotations

from .._src.core.dtypes import float32
from .._src.core.op import OPS


def _native_batch_norm_legit_functional(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """A batch norm, the mean and the inverse deviation that it used, and the running statistics after it."""
    before = running_mean.clone(), running_var.clone()
    out, mean, rstd = OPS["native_batch_norm"](input, weight, bias, *before, training, momentum, eps)
    return out, mean, rstd, *before


def _softmax(self, dim, half_to_float):
    return OPS["softmax"](self.float() if half_to_float else self, dim)


def _log_softmax(self, dim, half_to_float):
    return OPS["log_softmax"](self.float() if half_to_float else self, dim)


def pooled(count):
    return lambda self, output_size: OPS[f"nn.functional.adaptive_avg_pool{count}d"](self, list(output_size))


def _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None,
                                                scale=None):
    """Attention, and the logarithm of the sum of exponentials of each row of scores."""
    if attn_mask is not None and attn_mask.dtype not in (query.dtype, float32):
        raise RuntimeError("scaled_dot_product_attention_flash_attention: Attention mask is the same data type as "
                           f"query: it is {attn_mask.dtype}, and query {query.dtype}")
    size = query.shape[-1]
    rows, columns = (x.float() if x.dtype.is_half else x for x in (query, key))
    scores = (rows @ columns.transpose(-1, -2)) * (size ** -0.5 if scale is None else scale)
    if is_causal:
        rows, columns = scores.shape[-2:]
        seen = OPS["tril"](OPS["ones"](rows, columns, dtype=scores.dtype, device=scores.device))
        scores = OPS["masked_fill"](
            scores, seen == 0, float("-inf"))
    if attn_mask is not None:
        scores = scores + attn_mask
    out = OPS["nn.functional.scaled_dot_product_attention"](query, key, value, attn_mask, dropout_p, is_causal,
                                                            scale=scale)
    return out, OPS["logsumexp"](scores, -1)


def normal_functional(self, mean=0.0, std=1.0, *, generator=None):
    return OPS["randn_like"](self) * std + mean


def copy(self, src, non_blocking=False):
    """The values of ``src`` as a tensor that lies as ``self`` does."""
    return OPS["empty_like"](self).copy_(src)


def fill(self, value):
    return OPS["full_like"](self, value) if not hasattr(value, "dtype") else copy(self, value)


FUNCTIONS = {f.__name__: f for f in (_native_batch_norm_legit_functional, _softmax, _log_softmax, normal_functional,
                                     copy, fill,
                                     _scaled_dot_product_flash_attention_for_cpu)}
FUNCTIONS |= {f"_adaptive_avg_pool{count}d": pooled(count) for count in (2, 3)}
