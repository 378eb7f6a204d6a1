"""Attention with several heads as a function: projections, masks, attention, and the projection of what was found
(Vaswani et al. 2017)."""
from __future__ import annotations

from .._src.core.advice import warn
from .._src.core.dtypes import bool_
from .._src.core.op import OPS
from .._src.core.overriding import overridable
from . import functional as F

cat = OPS["cat"]


def as_bias(mask, name: str, dtype):
    """A mask as numbers to add: -inf where a bool mask forbids.  AssertionError for a mask of integers."""
    if mask is None or mask.is_floating_point():
        return mask
    if mask.dtype is not bool_:
        raise AssertionError(
            f"only bool and floating types of {name} are supported, not {mask.dtype}: write mask.bool()")
    return mask.new_zeros(tuple(mask.shape), dtype=dtype).masked_fill_(mask, float("-inf"))


def canonical(mask, padding, dtype):
    """Both masks as numbers to add; a warning where one is bool and the other is not."""
    if mask is not None and padding is not None and mask.dtype is not padding.dtype:
        warn("Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type for both instead.")
    return as_bias(mask, "attn_mask", dtype), as_bias(padding, "key_padding_mask", dtype)


def check(query, key, value, padding, mask, heads):
    """AssertionError for tensors of other ranks than those of one example or one batch."""
    rank = query.dim()
    if rank not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor")
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(
            f"For {'' if rank == 3 else 'un'}batched ({rank}-D) `query`, expected `key` and `value` to be {rank}-D "
            f"but found {key.dim()}-D and {value.dim()}-D tensors respectively")
    if padding is not None and padding.dim() != rank - 1:
        raise AssertionError(
            f"For {'' if rank == 3 else 'un'}batched ({rank}-D) `query`, expected `key_padding_mask` to be `None` or "
            f"{rank - 1}-D but found {padding.dim()}-D tensor instead")
    if mask is not None and mask.dim() not in (2, 3):
        raise AssertionError(
            f"For {'' if rank == 3 else 'un'}batched ({rank}-D) `query`, expected `attn_mask` to be `None`, 2-D or "
            f"3-D but found {mask.dim()}-D tensor instead")
    if mask is not None and rank == 2 and mask.dim() == 3 and tuple(mask.shape) != (heads, query.shape[0],
                                                                                    key.shape[0]):
        raise AssertionError(
            f"Expected `attn_mask` shape to be {(heads, query.shape[0], key.shape[0])} but got {tuple(mask.shape)}")


def check_sizes(query, key, value, mask, padding, width, heads, separate):
    """AssertionError for sizes that do not fit each other; RuntimeError for those of the mask."""
    length, batch, size = query.shape
    if size != width:
        raise AssertionError(f"was expecting embedding dimension of {width}, but got {size}")
    if separate and tuple(key.shape[:2]) != tuple(value.shape[:2]):
        raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
    if not separate and tuple(key.shape) != tuple(value.shape):
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    if width % heads:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {heads}")
    wanted = (length, key.shape[0]) if mask is None or mask.dim() == 2 else (batch * heads, length, key.shape[0])
    if mask is not None and tuple(mask.shape) != wanted:
        raise RuntimeError(f"The shape of the {mask.dim()}D attn_mask is {tuple(mask.shape)}, but should be {wanted}.")
    if padding is not None and tuple(padding.shape) != (batch, key.shape[0]):
        raise AssertionError(
            f"expecting key_padding_mask shape of {(batch, key.shape[0])}, but got {tuple(padding.shape)}")


def check_static(keys, values, count, size, bias):
    """AssertionError for keys or values [count, source, size] of other sizes, or that a bias would be added to."""
    for name, given in (("key", keys), ("value", values)):
        if given is None:
            continue
        if bias is not None:
            raise AssertionError(f"bias cannot be added to static {name}.")
        for at, wanted in ((0, count), (2, size)):
            if given.size(at) != wanted:
                raise AssertionError(f"expecting static_{name[0]}.size({at}) of {wanted}, but got {given.size(at)}")


def widened(mask):
    """A mask with one more key, which is always allowed."""
    return mask if mask is None else F.pad(mask, (0, 1))


def combined(mask, padding, batch, heads):
    """Return the additive mask of the scores: [1 or batch * heads, 1 or length, source], or None."""
    mask = mask.unsqueeze(0) if mask is not None and mask.dim() == 2 else mask
    if padding is None:
        return mask
    spread = padding.view(batch, 1, 1, -1).expand(-1, heads, -1, -1).reshape(batch * heads, 1, -1)
    return spread if mask is None else mask + spread


def attended(q, k, v, bias, heads, drop, need_weights, is_causal):
    """The result of attention [batch * heads, length, head_dim], and its weights if they are wanted."""
    if need_weights:
        scores = (q * q.shape[-1]**-0.5) @ k.transpose(1, 2)
        attention = F.softmax(scores if bias is None else scores + bias, -1)
        attention = F.dropout(attention, drop) if drop else attention
        return attention @ v, attention
    batch = q.size(0) // heads
    apart = [x.view(batch, heads, *x.shape[1:]) for x in (q, k, v)]
    if bias is not None:
        bias = bias.unsqueeze(0) if bias.size(0) == 1 else bias.view(batch, heads, *bias.shape[1:])
    return F.scaled_dot_product_attention(*apart, bias, drop, is_causal).reshape(q.shape), None


@overridable
def multi_head_attention_forward(query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k,
                                 bias_v, add_zero_attn, dropout_p, out_proj_weight,
                                 out_proj_bias, training=True, key_padding_mask=None, need_weights=True, attn_mask=None,
                                 use_separate_proj_weight=False, q_proj_weight=None,
                                 k_proj_weight=None, v_proj_weight=None, static_k=None, static_v=None,
                                 average_attn_weights=True, is_causal=False):
    """What ``nn.MultiheadAttention`` computes, with its weights given: the result [length, batch, size], and the
    weights of attention or None.

    query: [length, batch, size], key and value: [source, batch, *], all without batch for one example.  ``attn_mask``:
      [length, source] or one for each head,
    ``key_padding_mask``: [batch, source]; bool (True forbids) or numbers to add.  ``static_k`` and ``static_v`` [batch
      * heads, source, head size] take the
    place of what would be projected.  AssertionError for sizes that do not fit, RuntimeError for a mask of another
    size.
    """
    check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if attn_mask is None and is_causal:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    batched = query.dim() == 3
    if not batched:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    check_sizes(query, key, value, attn_mask, key_padding_mask, embed_dim_to_check, num_heads, use_separate_proj_weight)
    is_causal = bool(
        is_causal) and key_padding_mask is None and not need_weights and bias_k is None and not add_zero_attn
    mask, padding = (None, None) if is_causal else canonical(attn_mask, key_padding_mask, query.dtype)
    length, batch, width = query.shape
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else in_proj_weight.chunk(3)
    biases = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
    q, k, v = (F.linear(x, weight, bias) for x, weight, bias in zip((query, key, value), weights, biases))
    check_static(static_k, static_v, batch * num_heads, width // num_heads, bias_k)
    if bias_k is not None:
        k, v, mask, padding = cat([k, bias_k.expand(1, *k.shape[1:])]), cat(
            [v, bias_v.expand(1, *v.shape[1:])]), widened(mask), widened(padding)
    q, k, v = (x.reshape(x.size(0), batch * num_heads, width // num_heads).transpose(0, 1) for x in (q, k, v))
    k, v = k if static_k is None else static_k, v if static_v is None else static_v
    if add_zero_attn:
        k, v, mask, padding = (*(cat([x, x.new_zeros((x.shape[0], 1, x.shape[2]))], 1) for x in (k, v)), widened(mask),
                               widened(padding))
    out, attention = attended(q, k, v, combined(mask, padding, batch, num_heads), num_heads,
                              dropout_p if training else 0.0, need_weights, is_causal)
    out = F.linear(out.transpose(0, 1).reshape(length, batch, width), out_proj_weight, out_proj_bias)
    if need_weights:
        attention = attention.view(batch, num_heads, length, k.size(1))
        attention = attention.mean(1) if average_attn_weights else attention
    if not batched:
        return out.squeeze(1), attention.squeeze(0) if need_weights else None
    return out, attention
