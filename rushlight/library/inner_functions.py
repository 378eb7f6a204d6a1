"""Implementations of inner ``aten`` operators, such as the batch norm that returns its running statistics instead of
writing them."""
from __future__ import annotations

from .._src.core.dtypes import float32
from .._src.core.interpret import active
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
    return OPS["randn_like"](self, generator=generator) * std + mean


def copy(self, src, non_blocking=False):
    """Return the values of ``src`` as a tensor with the strides of ``self``."""
    return OPS["empty_like"](self).copy_(src)


def fill(self, value):
    return OPS["full_like"](self, value) if not hasattr(value, "dtype") else copy(self, value)


def embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=None):
    """Rows of a table joined by bags (mode 0 sum, 1 mean, 2 max); the bag of each index, the sizes of bags, and the
    indices that were largest: the latter three as PyTorch gives them, which are 0 or empty for sums."""
    padding, rows = padding_idx, weight.shape[0]
    if padding is not None:
        if not -rows <= padding < rows:
            raise RuntimeError(f"padding_idx must be within the number of embeddings, -{rows} through {rows - 1}, but "
                               f"got {padding}")
        padding %= rows
    name = ("sum", "mean", "max")[mode]
    if active() and not scale_grad_by_freq and not sparse:  # a traced program does not read its starts
        out = OPS["_bags_of_table"](weight, indices, offsets, per_sample_weights, name, padding, include_last_offset)
    else:
        out = OPS["nn.functional.embedding_bag"](
            indices, weight, offsets, scale_grad_by_freq=scale_grad_by_freq, mode=name, sparse=sparse,
            per_sample_weights=per_sample_weights, include_last_offset=include_last_offset, padding_idx=padding)
    starts = offsets[:-1] if include_last_offset else offsets
    if mode == 0 and padding is None:
        return out, offsets.new_empty(0), OPS["zeros_like"](offsets), OPS["zeros_like"](offsets)
    places = OPS["arange"](indices.shape[0], dtype=offsets.dtype, device=offsets.device)
    bags = OPS["searchsorted"](starts, places, right=True) - 1
    if mode == 0:
        return out, bags, OPS["zeros_like"](offsets), OPS["zeros_like"](offsets)
    counted = OPS["ones_like"](bags) if padding is None else indices != padding
    sizes = offsets[1:] - starts if padding is None and include_last_offset else OPS["zeros_like"](starts).scatter_add(
        0, bags, counted.to(offsets.dtype))
    return out, bags, sizes, sizes if mode == 1 else largest(weight, indices, bags, out, padding)


def bag_of_rows(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
                include_last_offset=False, padding_idx=-1):
    """``embedding_bag``, where a ``padding_idx`` below 0 stands for none."""
    return embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
                         include_last_offset, padding_idx if padding_idx >= 0 else None)


def largest(weight, indices, bags, out, padding):
    """The index whose row is the largest of its bag, for each bag and column; 0 for bags without any."""
    count, where = indices.shape[0], OPS["where"]
    hits = weight[indices] == out[bags]
    hits = hits if padding is None else hits & (indices != padding)[:, None]
    places = OPS["arange"](count, dtype=indices.dtype, device=indices.device)[:, None]
    first = OPS["scatter_reduce"](indices.new_full(tuple(out.shape), count), 0, bags[:, None].expand(*hits.shape),
                                  where(hits, places, count), "amin")
    return OPS["cat"]([indices, indices.new_zeros(1)])[first]


FUNCTIONS = {f.__name__: f for f in (_native_batch_norm_legit_functional, embedding_bag, _softmax, _log_softmax,
                                     normal_functional,
                                     copy, fill,
                                     _scaled_dot_product_flash_attention_for_cpu)}
FUNCTIONS |= {f"_adaptive_avg_pool{count}d": pooled(count) for count in (2, 3)}
FUNCTIONS |= {"_embedding_bag": bag_of_rows, "_embedding_bag_forward_only": bag_of_rows}
