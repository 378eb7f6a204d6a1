"""TorchScript's operators on tensors: the overload of ``aten`` that a call means, by the schemas."""
from __future__ import annotations

import functools

from .._ops import ops
from .._src import flat as torch
from .._src.core.convert import channels_last, channels_last_3d, contiguous_format, preserve_format
from .._src.core.native import Tensor
from .._src.core.op import OPS
from ..library.overloads import overloads
from .foreign_values import CONTAINERS, PRIM, SAME, VALUES, dtype_of

FORMATS = {0: contiguous_format, 1: preserve_format, 2: channels_last, 3: channels_last_3d}


def holds_tensor(values) -> bool:
    """Whether there is a tensor among values, or in a list among them."""
    return any(isinstance(v, Tensor) or isinstance(v, (list, tuple)) and holds_tensor(v) for v in values)


def called(name, args, kwargs):
    """``torch.name(...)`` of a program.  RuntimeError for an operator that is not known, or arguments that no overload
    takes."""
    if name in SAME and (not args or name.startswith("__is")):
        return SAME[name](*args, **kwargs)
    if args and isinstance(args[0], (list, dict, tuple, str)) and name in CONTAINERS:
        return CONTAINERS[name](*args, **kwargs)
    if not holds_tensor((*args, *kwargs.values())):
        if name in VALUES:
            return VALUES[name](*args, **kwargs)
    elif name in SAME:
        return SAME[name](*args, **kwargs)
    if name in OTHERS:
        return OTHERS[name](*args, **kwargs)
    return overloaded(name, args, kwargs)


def prim(name, args, kwargs):
    """``ops.prim.name(...)``"""
    if name not in PRIM:
        raise RuntimeError(f"the file calls prim::{name}, which is not known")
    return PRIM[name](*args, **kwargs)


def overloaded(name, args, kwargs):
    """The overload that fits best."""
    found = []
    for label, overload in overloads(name).items():
        bound = overload.bind(args, kwargs)
        if bound is None:
            continue
        bound = {k: converted(overload.by_name[k], v) for k, v in bound.items()}
        scores = [overload.by_name[k].fits(v) for k, v in bound.items()]
        if None not in scores:
            found.append((sum(scores), len(found), label, overload, bound))
    if not found:
        raise RuntimeError(f"the file calls aten::{name} with arguments that no overload of it takes"
                           if overloads(name) else f"the file calls aten::{name}, which is not known")
    _, _, label, overload, bound = min(found)
    given = [bound.get(a.name, a.default_value) for a in overload.arguments if not a.kwarg_only]
    named = {a.name: bound[a.name] for a in overload.arguments if a.kwarg_only and a.name in bound}
    result = getattr(getattr(ops.aten, name), label)(*given, **named)
    return list(result) if type(result) is torch.Size else result


def converted(argument, value):
    """Numbers that stand for dtypes, layouts and orders of dimensions."""
    if value is None:
        return None
    if argument.base == "ScalarType":
        return dtype_of(value)
    if argument.base == "MemoryFormat" and type(value) is int:
        return FORMATS[value]
    return torch.strided if argument.base == "Layout" and type(value) is int else value


@functools.lru_cache(maxsize=64)
def layer(kind, *sizes):
    """A recurrent layer without data of its own."""
    from .. import nn
    inputs, hidden, layers, bias, first, dropout, both = sizes
    made = getattr(nn, kind)(inputs, hidden, layers, bias=bias, batch_first=first, dropout=dropout, bidirectional=both,
                             device="meta")
    return made, [name for name, _ in made.named_parameters()]


def recurrent(kind):
    """``torch.lstm`` and its like: as our layers, on the parameters that are given."""
    def run(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        from ..func import functional_call
        state = hx[0] if isinstance(hx, (list, tuple)) else hx
        module, names = layer(kind, input.shape[-1], state.shape[-1], num_layers, has_biases, batch_first, dropout,
                              bidirectional)
        module.train(train)
        out, last = functional_call(module, dict(zip(names, params, strict=True)),
                                    (input, tuple(hx) if kind == "LSTM" else hx))
        return (out, *last) if kind == "LSTM" else (out, last)

    return run


def encoder_layer(src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
                  norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2,
                  ffn_bias_2, mask=None, mask_type=None):
    """A layer of a transformer's encoder, as it is where nothing is trained."""
    def attended(x):
        return self_attention(x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type)

    def forward(x):
        inner = OPS["nn.functional.linear"](x, ffn_weight_1, ffn_bias_1)
        return OPS["nn.functional.linear"](OPS["nn.functional.gelu"](inner) if use_gelu else inner.relu(), ffn_weight_2, ffn_bias_2)

    def first(x):
        return OPS["nn.functional.layer_norm"](x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x):
        return OPS["nn.functional.layer_norm"](x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attended(first(src))
        return x + forward(second(x))
    x = first(src + attended(src))
    return second(x + forward(x))


def self_attention(x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None, mask_type=None):
    n, length = x.shape[0], x.shape[1]
    parts = OPS["nn.functional.linear"](x, qkv_weight, qkv_bias).view(n, length, 3, num_heads, embed_dim // num_heads)
    q, k, v = (part.transpose(1, 2) for part in parts.unbind(2))
    if mask is not None:
        mask = mask.logical_not() if mask.dtype is torch.bool else mask
        mask = mask[:, None, None, :] if mask_type == 1 else mask
    out = OPS["nn.functional.scaled_dot_product_attention"](q, k, v, mask)
    return OPS["nn.functional.linear"](out.transpose(1, 2).reshape(n, length, embed_dim), proj_weight, proj_bias)


OTHERS = {"lstm": recurrent("LSTM"), "gru": recurrent("GRU"), "_transformer_encoder_layer_fwd": encoder_layer}
