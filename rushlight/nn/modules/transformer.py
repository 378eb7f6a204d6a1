"""Transformers (Vaswani et al. 2017)."""
from __future__ import annotations

import copy

from ..._src import flat as torch
from ..._src.core.advice import warn
from .. import functional as F
from ..init import xavier_uniform_
from . import encoding
from .activation import GELU, MultiheadAttention, ReLU
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm


def _get_activation_fn(activation):
    """A function by name or itself.  RuntimeError for another name."""
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)


class _Layer(Module):
    """Blocks (attentions, then a feed-forward network), each with a residual and a norm of its own."""

    def _rush_enter(self, attentions, d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
                    norm_first, bias, device, dtype):
        made = {"bias": bias, "device": device, "dtype": dtype}
        for name in attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **made))
        self.linear1 = Linear(d_model, dim_feedforward, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **made)
        self.norm_first, self.activation = norm_first, _get_activation_fn(activation)
        blocks = range(1, len(attentions) + 2)
        for block in blocks:
            setattr(self, f"norm{block}", LayerNorm(d_model, eps=layer_norm_eps, **made))
        for block in blocks:
            setattr(self, f"dropout{block}", Dropout(dropout))

    def _rush_through(self, x, *blocks):
        """x through blocks in turn: norms before them or, as in the paper, behind the residuals."""
        for place, block in enumerate(blocks, 1):
            norm = getattr(self, f"norm{place}")
            x = x + block(norm(x)) if self.norm_first else norm(x + block(x))
        return x

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        return self.dropout1(attend(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal))

    def _rush_hidden(self, x):
        return self.dropout(self.activation(self.linear1(x)))


def attend(attention, x, memory, mask, padding, is_causal):
    """Return the attention of x to a memory."""
    return attention(x, memory, memory, attn_mask=mask, key_padding_mask=padding, need_weights=False,
                     is_causal=is_causal)[0]


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a residual and a norm.  src: [batch, n, d_model]
    (batch_first), or nested.

    In inference a layer of the usual kind is one operator (``encoding.py``).

    >>> torch.nn.TransformerEncoderLayer(8, 2, 16)(torch.ones(5, 2, 8)).shape
    torch.Size([5, 2, 8])
    """

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True,
                 device=None, dtype=None):
        super().__init__()
        relu = activation in ("relu", F.relu) or isinstance(activation, ReLU)
        gelu = activation in ("gelu", F.gelu) or isinstance(activation, GELU)
        self.activation_relu_or_gelu = 1 if relu else 2 if gelu else 0  # as files have it
        self._rush_enter(["self_attn"], d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps,
                         batch_first, norm_first, bias, device, dtype)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        usual = type(self)._sa_block is TransformerEncoderLayer._sa_block and type(
            self)._ff_block is TransformerEncoderLayer._ff_block
        if usual and not self.training and encoding.obstacle(self, src, src_mask, src_key_padding_mask) is None:
            return encoding.run(self, src, src_mask, src_key_padding_mask)
        return self._rush_through(src, lambda x: self._sa_block(x, src_mask, src_key_padding_mask, is_causal),
                                  self._ff_block)

    def _ff_block(self, x):
        return self.dropout2(self.linear2(self._rush_hidden(x)))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, and a feed-forward network.

    >>> torch.nn.TransformerDecoderLayer(8, 2, 16)(torch.ones(5, 2, 8), torch.ones(4, 2, 8)).shape
    torch.Size([5, 2, 8])
    """

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True,
                 device=None, dtype=None):
        super().__init__()
        self._rush_enter(["self_attn", "multihead_attn"], d_model, nhead, dim_feedforward, dropout, activation,
                         layer_norm_eps, batch_first, norm_first, bias, device, dtype)

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False):
        return self._rush_through(tgt, lambda x: self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal),
                                  lambda x: self._mha_block(x, memory, memory_mask, memory_key_padding_mask,
                                                       memory_is_causal), self._ff_block)

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
        return self.dropout2(attend(self.multihead_attn, x, mem, attn_mask, key_padding_mask, is_causal))

    def _ff_block(self, x):
        return self.dropout3(self.linear2(self._rush_hidden(x)))


class _Stack(Module):
    """Copies of a layer, one after the other, and perhaps a norm behind the last."""

    def __init__(self, layer, num_layers, norm):
        super().__init__()
        self.layers = _get_clones(layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def _rush_through(self, x, *args, after=lambda x: x):
        """x through every layer, then ``after`` and the norm."""
        for layer in self.layers:
            x = layer(x, *args)
        x = after(x)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """Copies of an encoder layer, one after the other."""

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__(encoder_layer, num_layers, norm)
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        reason = enable_nested_tensor and encoding.reason_against(encoder_layer)
        self.use_nested_tensor = bool(enable_nested_tensor and not reason)  # as files have it
        if reason:
            warn(f"enable_nested_tensor is True, but padding will not be left out: {reason}.")

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        """Every layer in turn.  Where padding is left out (inference with ``enable_nested_tensor``), its places are 0
        after the layers."""
        if not (all(type(layer) is TransformerEncoderLayer for layer in self.layers)
                and encoding.packable(self, src, mask, src_key_padding_mask)):
            return self._rush_through(src, mask, src_key_padding_mask, bool(is_causal))
        from ...nested.padding import STEP, from_mask, to_mask
        shape, kept = tuple(src.shape), ~src_key_padding_mask
        return self._rush_through(from_mask(src, kept, STEP), mask, None, bool(is_causal),
                                  after=lambda x: to_mask(x, kept, shape))


class TransformerDecoder(_Stack):
    """Copies of a decoder layer, one after the other."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__(decoder_layer, num_layers, norm)

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=None, memory_is_causal=False):
        return self._rush_through(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                                  bool(tgt_is_causal), memory_is_causal)


class Transformer(Module):
    """An encoder and a decoder."""

    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048,
                 dropout=0.1, activation=F.relu, custom_encoder=None,
                 custom_decoder=None, layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, device=None,
                 dtype=None):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        self.encoder = custom_encoder or TransformerEncoder(TransformerEncoderLayer(*layer, **kw), num_encoder_layers,
                                                            LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kw))
        self.decoder = custom_decoder or TransformerDecoder(TransformerDecoderLayer(*layer, **kw), num_decoder_layers,
                                                            LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kw))
        for p in self.parameters():
            if p.dim() > 1:
                xavier_uniform_(p)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None,
                tgt_key_padding_mask=None, memory_key_padding_mask=None,
                src_is_causal=None, tgt_is_causal=None, memory_is_causal=False):
        if src.dim() == 3 and src.size(0 if self.batch_first else 1) != tgt.size(0 if self.batch_first else 1):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                            tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """-inf above the diagonal: no position sees a later one."""
        return torch.triu(torch.full((sz, sz), float("-inf"), dtype=dtype, device=device), 1)


def _get_clones(module, N):
    """N copies of a module."""
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


_generate_square_subsequent_mask = Transformer.generate_square_subsequent_mask


def _detect_is_causal_mask(mask, is_causal=None, size=None) -> bool:
    """``is_causal``; where it is None, whether a mask hides exactly what is later."""
    if is_causal is not None or mask is None:
        return bool(is_causal)
    causal = _generate_square_subsequent_mask(mask.size(-2) if size is None else size, mask.device, mask.dtype)
    return mask.shape == causal.shape and bool((mask == causal).all())


def _get_seq_len(src, batch_first: bool):
    """The length of a sequence, be it in a batch or not; None where it is neither."""
    return None if src.dim() not in (2, 3) else src.size(1 if src.dim() == 3 and batch_first else 0)
