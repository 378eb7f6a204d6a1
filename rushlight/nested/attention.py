"""Attention over nested tensors: the kernel goes by where each example begins, so nothing is padded and nothing is
computed for padding."""
from __future__ import annotations

import math

from .._src.core.op import OPS
from .._src.ops.attention import checked_kernel, log
from .._src.ops.dropping import blocks_drawn, level_of
from .._src.ops.flash import ragged
from .._src.ops.random import draw
from .tensor import Nested, contiguous, made


def attend(query, key, value, mask, drop, causal, scale, shares) -> Nested:
    """softmax(query key^T * scale) value within each example: [batch, heads, j, size] each; queries may be ragged in
    another way than keys and values."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, Nested):
            raise ValueError(
                f"scaled_dot_product_attention: query, key and value are nested tensors all, or none; {name} is "
                f"dense, of size {list(x.shape)}")
        if x.dim() < 3 or x.at != x.dim() - 2:
            raise RuntimeError(
                f"Expected query, key and value [batch, heads, j, size], ragged in the third dimension; {name} has "
                f"size {tuple(x.shape)}: transpose(1, 2) it")
    if mask is not None:
        raise ValueError("scaled_dot_product_attention: attn_mask is not supported with nested tensors; is_causal is")
    if not key.ragged.fits(value.ragged) or query.ragged.count != key.ragged.count:
        raise RuntimeError(
            "scaled_dot_product_attention: keys and values, and the batch of queries, must fit together; got sizes "
            f"{tuple(query.shape)}, {tuple(key.shape)} and "
            f"{tuple(value.shape)}")
    if not 0 <= drop <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {drop}")
    query, key, value = (x if x.covers() else contiguous(x) for x in (query, key, value))
    kernel, refused = checked_kernel(*(x.rows.unsqueeze(0) for x in (query, key, value)), None, drop, shares)
    if kernel == "MATH" or query.dim() != 4:
        log.debug("attention over nested tensors example by example: %s", refused or "it is not of four dimensions")
        parts = [OPS["nn.functional.scaled_dot_product_attention"](*one, None, drop, causal, scale, shares)
                 for one in zip(query.unbind(), key.unbind(), value.unbind())]
        return made(OPS["cat"](parts, query.at - 1), query.ragged, query.at, query.layout)
    heads, longest = query.rows.size(0), (query.ragged.longest, key.ragged.longest)
    level = level_of(drop)
    seed, place = draw(None, 4 * blocks_drawn(query.ragged.count * heads, *longest)) if level else (None, None)
    scale = 1.0 / math.sqrt(query.rows.size(-1)) if scale is None else float(scale)
    starts = (x.ragged.offsets().to(query.rows.device) for x in (query, key))
    rows = ragged(query.rows, key.rows, value.rows, *starts, seed, place, bool(causal), scale, level, longest)
    return made(rows, query.ragged, query.at, query.layout)
