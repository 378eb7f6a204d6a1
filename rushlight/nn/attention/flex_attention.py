"""Attention whose scores the user changes by a function of each: FlexAttention (Dong et al. 2024), forward and backward
on the CPU.

    def causal(b, h, q_idx, kv_idx):
        return q_idx >= kv_idx

    mask = create_block_mask(causal, None, None, 1024, 1024)
    out = flex_attention(query, key, value, block_mask=mask)

The functions are traced once, as a program for a single score.  Kernels compute it within blocks of scores that never
leave the cache; its derivative is derived; fully masked blocks are skipped.
"""
from __future__ import annotations

import math
from typing import NamedTuple

from ...autograd import is_grad_enabled
from ..._src.core.dtypes import bfloat16, float16, float32, float64
from ..._src.core.log import logger
from ..._src.core.op import OPS
from ..._src.core.tensor import Tensor
from ..._src.ops.flash import flex
from .block_mask import BlockMask, and_masks, create_block_mask, create_mask, noop_mask, or_masks  # noqa: F401
from .mods import Mods

log = logger("kernels")

_DEFAULT_SPARSE_BLOCK_SIZE = 128


def _identity(score, batch, head, token_q, token_kv):
    """The score_mod that changes nothing."""
    return score


class AuxRequest(NamedTuple):
    """Additional results requested of flex_attention."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """Additional results of flex_attention: [b, h, queries] float32, or None if not requested."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False,
                   kernel_options=None, *,
                   return_aux=None):
    """softmax(score_mod(query key^T * scale)) value, where the mask allows.

    query [b, h, l, e], key [b, h', s, e], value [b, h', s, v] -> [b, h, l, v], of float32, bfloat16, float16 or
    float64; with ``enable_gqa`` h may be a multiple of h'. ``score_mod(score, b, h, q_idx, kv_idx)`` returns what
    becomes of a score; tensors that it reads get gradients.
    ``return_lse``: also the logarithm of each row's total, [b, h, l] float32.

    >>> import rushlight as torch
    >>> q = k = v = torch.ones(1, 1, 4, 8)
    >>> flex_attention(q, k, v, lambda score, b, h, q_idx, kv_idx: score + (q_idx - kv_idx)).shape
    torch.Size([1, 1, 4, 8])
    """
    check(query, key, value, enable_gqa)
    block_mask = checked_mask(block_mask, query, key)
    scale = 1.0 / math.sqrt(query.size(-1)) if scale is None else float(scale)
    extents = (*query.shape[:3], key.size(2))
    if key.size(0) != query.size(0):
        key, value = (x.expand(query.size(0), *x.shape[1:]) for x in (key, value))
    mask_mod = (None if block_mask is None or block_mask.mask_mod is noop_mask
                and block_mask.full_kv_num_blocks is None else block_mask.mask_mod)
    mods, captured = Mods.of(score_mod, mask_mod, tuple(extents), block_mask.BLOCK_SIZE if block_mask
                             else (_DEFAULT_SPARSE_BLOCK_SIZE,) * 2,
                             float64 if query.dtype is float64 else float32)
    wants_lse = return_lse or return_aux is not None
    refused = refusal(query, key, value, mods, captured, kernel_options or {}, wants_lse, return_aux)
    most = None
    if refused is None:
        blocks = block_mask.states if mask_mod else None
        out, lse = flex(query, key, value, blocks, captured, mods.causal, scale, mods)
    else:
        log.debug("flex_attention by its formula: %s", refused)
        out, lse, most = formula(query, key, value, mods, captured, block_mask if mask_mod else None, scale)
    if return_aux is not None:
        return out, AuxOutput(lse if return_aux.lse else None, most if return_aux.max_scores else None)
    return (out, lse) if return_lse else out


def check(query, key, value, enable_gqa):
    """Raises the errors of operands that do not belong together."""
    if not query.dtype is key.dtype is value.dtype:
        raise ValueError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {query.dtype}, key.dtype: "
            f"{key.dtype}, "
            f"and value.dtype: {value.dtype} instead.")
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() != 4:
            raise NotImplementedError(
                f"flex_attention wants 4 dimensions, batch, heads, length and size; {name} has {list(x.shape)}")
    if key.shape[:3] != value.shape[:3] or query.size(3) != key.size(3):
        raise ValueError(
            f"key {list(key.shape)} and value {list(value.shape)} must agree in batch, heads and length, and query "
            f"{list(query.shape)} and key in size")
    if key.size(0) not in (1, query.size(0)):
        raise ValueError(
            "Expect query and key/value to have the same batch size or key/value a batch of 1, but got "
            f"Bq={query.size(0)} and Bkv={key.size(0)}.")
    if not enable_gqa and query.size(1) != key.size(1):
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={query.size(1)} and "
            f"Hkv={key.size(1)}. "
            "Try setting enable_gqa=True for GQA.")
    if query.size(1) % max(key.size(1), 1):
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={query.size(1)} and "
            f"Hkv={key.size(1)}.")


def checked_mask(block_mask, query, key):
    """The BlockMask, if it suits these operands."""
    if block_mask is None:
        return None
    if not isinstance(block_mask, BlockMask):
        raise TypeError(
            f"block_mask must be a BlockMask, as create_block_mask makes them; got {type(block_mask).__name__}")
    if block_mask.seq_lengths != (query.size(2), key.size(2)):
        raise ValueError(
            f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={query.size(2)} and "
            f"kv_len={key.size(2)}. "
            "A mask of other lengths can be made by create_block_mask, or by BlockMask.from_kv_blocks with seq_lengths.")
    for dim, (have, want) in enumerate(zip(block_mask.states.shape[:2], query.shape[:2])):
        if have not in (1, want):
            raise RuntimeError(
                f"block_mask has {have} {('batches', 'heads')[dim]}, query has {want}: they must agree, or the mask "
                "have 1")
    return block_mask


def refusal(query, key, value, mods, captured, options, wants_lse, aux):
    """Why the kernel is not taken; None where it is."""
    if options.get("BACKEND") == "FORMULA":
        return "kernel_options ask for it"
    if aux is not None and aux.max_scores:
        return "the largest scores are wanted"
    if query.dtype not in (float32, float16, bfloat16):
        return f"{query.dtype}"
    if 0 in (*query.shape, *key.shape, *value.shape):
        return "no elements"
    if mods.template is None:
        return mods.refusal
    declined = query.device.provider.target().declines_attention(query, value)
    if declined is not None:
        return declined
    recorded = is_grad_enabled()
    if recorded and any(t.requires_grad for t in captured):
        return "a tensor that score_mod reads wants a gradient"
    if recorded and wants_lse and any(t.requires_grad for t in (query, key, value)):
        return "the logarithm of the totals may want a gradient"
    return None


def formula(query, key, value, mods, captured, block_mask, scale):
    """Attention with its scores in memory: (result, lse, the largest score of each row)."""
    sharing = query.size(1) // max(key.size(1), 1)
    if sharing > 1:
        key, value = (x.repeat_interleave(sharing, 1) for x in (key, value))
    wide = query.dtype if query.dtype is float64 else float32
    scores = (query @ key.transpose(-2, -1)).to(wide) * scale
    scores = mods.scores(scores.to(wide), captured).to(wide)
    if block_mask is not None:
        seen = (block_mask.states > 0).repeat_interleave(block_mask.BLOCK_SIZE[0],
                                                         2).repeat_interleave(block_mask.BLOCK_SIZE[1], 3)
        scores = OPS["where"](seen[:, :, :query.size(2), :key.size(2)], scores, float("-inf"))
    lse, most = scores.logsumexp(-1), scores.detach().amax(-1) if scores.size(-1) else None
    weights = OPS["where"]((lse == float("-inf")).unsqueeze(-1), 0.0, (scores - lse.unsqueeze(-1)).exp())
    return (weights.to(query.dtype) @ value), lse, most
