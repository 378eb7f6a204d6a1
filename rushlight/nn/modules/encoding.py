"""The fast path of transformer encoders in inference: a layer is one operator, and padding is left out as a nested
tensor."""
from __future__ import annotations

from ..._src.capture.asking import is_compiling
from ..._src.core import interpret
from ..._src.core.dtypes import bfloat16, bool_, float16, float32
from ..._src.core.log import logger
from ..._src.core.native import Tensor, mine
from ..._src.ops.transformer import encoder_layer
from .. import functional as F
from ..parameter import Parameter
from .linear import Linear, NonDynamicallyQuantizableLinear
from .hooks import _has_any_global_hook
from .normalization import LayerNorm

log = logger("kernels")
SOME = 64  # the longest of nested sequences is rounded up to this, so that programs for other batches serve again


def obstacle(layer, src, mask, padding):
    """Why a layer of an encoder runs module by module; None where one operator computes it."""
    from ...backends import mha
    attention, norms = layer.self_attn, (layer.norm1, layer.norm2)
    parts = [(attention.out_proj, NonDynamicallyQuantizableLinear), (layer.linear1, Linear), (layer.linear2, Linear),
             *((n, LayerNorm) for n in norms)]
    weights = [attention.in_proj_weight, *(m.weight for m, _ in parts)]
    if layer.training:
        return "it is training"
    if not mha.get_fastpath_enabled():
        return "backends.mha.set_fastpath_enabled(False)"
    if mine.autocast:
        return "autocast is on"
    if interpret.top() is not None or mine.modes or is_compiling():
        return "its operators are being looked at"
    if any(type(m) is not kind for m, kind in parts) or any(watched(m) for m in (attention, *(m for m, _ in parts),
                                                                                 layer.dropout, layer.dropout1,
                                                                                 layer.dropout2)):
        return "its modules are of other kinds, or have hooks"
    if (attention.in_proj_weight is None or attention.bias_k is not None or attention.add_zero_attn
        or layer.activation not in (F.relu, F.gelu)):
        return "its attention or its activation is of another kind"
    if any(w is None or len(w.shape) != 1 + (m is not None)
           for m, w in [*((None, n.weight) for n in norms), (layer, attention.in_proj_weight)]):
        return "its norms are of another kind"
    if interpret.is_recording() and (src.requires_grad or any(p.requires_grad for p in layer.parameters())):
        return "gradients are recorded"
    if src.dtype not in (float32, bfloat16, float16) or any(w.dtype is not src.dtype for w in weights):
        return f"it computes in {src.dtype}"
    if not (src.is_nested or type(src) in (Tensor, Parameter) and src.dim() == 3 and attention.batch_first
            and src.numel()):
        return "its input is not [batch, n, size], with batch_first"
    if src.is_nested and (src.at != 1 or src.dim() != 3 or src.ragged.gaps or mask is not None or padding is not None):
        return "its input is nested in another way, or there is a mask"
    if mask is not None and (padding is not None or mask.dim() != 2):
        return "there is more than one mask"
    return None


def reason_against(layer):
    """Why padding will never be left out in an encoder of such layers; None where it may be."""
    attention = getattr(layer, "self_attn", None)
    if type(layer).__name__ != "TransformerEncoderLayer" or attention is None:
        return f"its layers are {type(layer).__name__}, not TransformerEncoderLayer"
    if not attention.batch_first:
        return "batch_first was not True for its layers (use batch_first for better inference performance)"
    if attention.in_proj_weight is None or layer.activation not in (F.relu, F.gelu):
        return "its attention or its activation is of another kind"
    return None


def watched(module):
    """True if hooks or a replaced forward intervene between a module's call and its weights."""
    return bool(_has_any_global_hook() or module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
                or module._backward_pre_hooks or "forward" in module.__dict__)


def run(layer, src, mask, padding):
    """The layer as one operator."""
    attention = layer.self_attn
    weights = ((attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight, attention.out_proj.bias),
               (layer.linear1.weight, layer.linear1.bias, layer.linear2.weight, layer.linear2.bias),
               (layer.norm1.weight, layer.norm1.bias, layer.norm2.weight, layer.norm2.bias))
    how = attention.num_heads, (float(layer.norm1.eps),
                                float(layer.norm2.eps)), layer.activation is F.gelu, layer.norm_first
    if not src.is_nested:
        return encoder_layer(src, None, allowed(mask, padding), *weights, *how, ())
    rows = src.rows.size(0)
    spare = rows - src.ragged.end
    longest = -(-max(src.ragged.longest, spare) // SOME) * SOME
    return src.with_rows(encoder_layer(src.rows, src.ragged.closed(rows), None, *weights, *how, (longest, longest)))


def allowed(mask, padding):
    """Return the mask of queries, or numbers to add, [batch or 1, 1, queries or 1, keys]; None for no mask."""
    found = mask[None, None] if mask is not None else None if padding is None else padding[:, None, None]
    return ~found if found is not None and found.dtype is bool_ else found


def packable(encoder, src, mask, padding):
    """Whether padding can be left out: the mask says where it is, there is some, and every layer takes the fast
    path."""
    if (padding is None or not encoder.enable_nested_tensor or src.is_nested or padding.dtype is not bool_
        or padding.dim() != 2 or src.dim() != 3):
        return False
    for layer in encoder.layers:
        reason = obstacle(layer, src, mask, padding)
        if reason is not None:
            log.debug("padding stays: %s", reason)
            return False
    return bool(padding.any())
