"""A transformer encoder layer as a single operator, for inference: nothing is saved for a backward pass."""
from __future__ import annotations

import math

from ..core.kinds import P
from ..core.op import OPS, op
from . import flash
from .matmul import linear
from .norm import layer_norm_
from .prims.views import expanded

AUTOCAST = "half"


@op(method=False, name="_encoder_layer")
def encoder_layer(src, starts, allowed, attention, feed, norms, heads, epsilons, gelu, norm_first, longest):
    """Self-attention and a feed-forward network with residuals and norms (Vaswani et al. 2017).

    src: [batch, s, e], or [rows, e] whose sequences begin at ``starts``; ``allowed``: [batch, 1, 1 or s, s] bools or
      numbers to add, or None.
    attention: weights and biases of the projections in [3 e, e] and out [e, e]; feed: of both linear layers; norms: of
      both norms.
    """
    def attend(x):
        return linear.body(self_attention(linear.body(x, *attention[:2]), starts, allowed, heads, longest),
                           *attention[2:])

    def advance(x):
        x = linear.body(x, *feed[:2])
        x = OPS["nn.functional.gelu"].body(x) if gelu else P.maximum(x, 0.0)
        return linear.body(x, *feed[2:])

    def norm(x, k):
        return layer_norm_.body(x, *norms[2 * k:2 * k + 2], 1, epsilons[k])

    if norm_first:
        x = P.add(src, attend(norm(src, 0)))
        return P.add(x, advance(norm(x, 1)))
    x = norm(P.add(src, attend(src)), 0)
    return norm(P.add(x, advance(x)), 1)


def self_attention(projected, starts, allowed, heads, longest):
    """Attention of packed queries, keys and values, [*, 3 e] -> [*, e]."""
    *lead, width = projected.shape
    size = width // 3 // heads
    order = (0, 2, 1, 3) if starts is None else (1, 0, 2)

    def part(k):
        rank = len(lead) + 1
        found = P.slice(projected, starts=(0,) * (rank - 1) + (k * (width // 3),), steps=(1,) * rank,
                        shape=(*lead, width // 3))
        return P.permute(P.reshape(found, shape=(*lead, heads, size)), dims=order)

    q, k, v = map(part, range(3))
    scale = 1.0 / math.sqrt(size)
    if starts is None:
        shape = lead[0], heads, lead[1], lead[1]
        mask = None if allowed is None else P.expand(allowed, shape=expanded(allowed.shape, shape))
        out, _ = flash.attend(flash.AttentionOperands(q, k, v, mask), flash.AttentionSpec(False, scale))
    else:
        out = flash.sequences_of(q, k, v, (starts, starts), None, None,
                                 flash.AttentionSpec(False, scale, longest=longest))
    return P.reshape(P.permute(out, dims=order), shape=(*lead, width // 3))
