"""Transformers (Vaswani et al. 2017)."""
from __future__ import annotations

import copy

from .. import functional as F
from . import encoding
from ..init import xavier_uniform_
from .activation import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm


def function_named(activation):
    if activation in ("relu", "gelu"):
        return getattr(F, activation)
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


class TransformerEncoderLayer(Module):
    """Self-attention and a feed-forward network, each with a residual and a norm.  src: [batch, n, d_model] (batch_first), or nested.

    In inference a layer of the usual kind is one operator (``encoding.py``).
    """

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True,
                 device=None, dtype=None):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **kw)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **kw)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **kw)
        self.norm_first = norm_first
        self.norm1, self.norm2 = (LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kw) for _ in range(2))
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.activation = function_named(activation) if isinstance(activation, str) else activation

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        if not self.training and encoding.obstacle(self, src, src_mask, src_key_padding_mask) is None:
            return encoding.run(self, src, src_mask, src_key_padding_mask)

        def attend(x):
            return self.dropout1(self.self_attn(x, x, x, attn_mask=src_mask, key_padding_mask=src_key_padding_mask, need_weights=False, is_causal=is_causal)[0])

        def feed(x):
            return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))

        if self.norm_first:
            x = src + attend(self.norm1(src))
            return x + feed(self.norm2(x))
        x = self.norm1(src + attend(src))
        return self.norm2(x + feed(x))


class TransformerDecoderLayer(Module):
    """Self-attention, attention to a memory, and a feed-forward network."""

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True,
                 device=None, dtype=None):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **kw)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **kw)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **kw)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **kw)
        self.norm_first = norm_first
        self.norm1, self.norm2, self.norm3 = (LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kw) for _ in range(3))
        self.dropout1, self.dropout2, self.dropout3 = Dropout(dropout), Dropout(dropout), Dropout(dropout)
        self.activation = function_named(activation) if isinstance(activation, str) else activation

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False):
        def attend(x):
            return self.dropout1(self.self_attn(x, x, x, attn_mask=tgt_mask, key_padding_mask=tgt_key_padding_mask, need_weights=False, is_causal=tgt_is_causal)[0])

        def recall(x):
            return self.dropout2(self.multihead_attn(x, memory, memory, attn_mask=memory_mask, key_padding_mask=memory_key_padding_mask, need_weights=False, is_causal=memory_is_causal)[0])

        def feed(x):
            return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))

        if self.norm_first:
            x = tgt + attend(self.norm1(tgt))
            x = x + recall(self.norm2(x))
            return x + feed(self.norm3(x))
        x = self.norm1(tgt + attend(tgt))
        x = self.norm2(x + recall(x))
        return self.norm3(x + feed(x))


class TransformerEncoder(Module):
    """Copies of an encoder layer, one after the other."""

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        """Every layer in turn.  Where padding is left out (inference with ``enable_nested_tensor``), its places are 0 after the layers."""
        packed = all(type(layer) is TransformerEncoderLayer for layer in self.layers) and encoding.packable(self, src, mask, src_key_padding_mask)
        if packed:
            from ...nested.padding import STEP, from_mask, to_mask
            shape, kept, src_key_padding_mask = tuple(src.shape), ~src_key_padding_mask, None
            src = from_mask(src, kept, STEP)
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        src = to_mask(src, kept, shape) if packed else src
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Copies of a decoder layer, one after the other."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(decoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None, tgt_is_causal=None, memory_is_causal=False):
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, bool(tgt_is_causal), memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder."""

    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, dropout=0.1, activation=F.relu, custom_encoder=None,
                 custom_decoder=None, layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        self.encoder = custom_encoder or TransformerEncoder(TransformerEncoderLayer(*layer, **kw), num_encoder_layers, LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kw))
        self.decoder = custom_decoder or TransformerDecoder(TransformerDecoderLayer(*layer, **kw), num_decoder_layers, LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kw))
        for p in self.parameters():
            if p.dim() > 1:
                xavier_uniform_(p)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None,
                src_is_causal=None, tgt_is_causal=None, memory_is_causal=False):
        if src.dim() == 3 and src.size(0 if self.batch_first else 1) != tgt.size(0 if self.batch_first else 1):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """-inf above the diagonal: no position sees a later one."""
        import rushlight

        return rushlight.triu(rushlight.full((sz, sz), float("-inf"), dtype=dtype), 1)
