"""TorchScript's operators on tensors: the overload of ``aten`` that a call means, by the schemas."""
from __future__ import annotations

import operator

from .._ops import ops
from .._src import flat as torch
from .._src.core.convert import channels_last, channels_last_3d, contiguous_format, preserve_format
from .._src.core.native import Tensor
from .._src.core.op import OPS
from ..library.overloads import overloads
from ..nn.modules.rnn import in_parts
from .foreign_values import CONTAINERS, PRIM, SAME, VALUES, dtype_of

FORMATS = {0: contiguous_format, 1: preserve_format, 2: channels_last, 3: channels_last_3d}


UNSAFE = ("from_file", "save")  # they read or write files
KNOWN: dict = {}  # operator -> [(schema, overload)]


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


def prepare(name):
    """Finds the overloads of an operator that code calls, before it runs."""
    if name not in KNOWN:
        known = {} if name in UNSAFE else overloads(name)  # the names of the table; others are not looked for
        packet = getattr(ops.aten, name, None) if known else None
        KNOWN[name] = [] if packet is None else [(one, packet.overload(label)) for label, one in known.items()]


def overloaded(name, args, kwargs):
    """The overload that fits best."""
    best, lowest = None, None
    for overload, run in KNOWN.get(name, ()):
        bound = overload.bind(args, kwargs)
        if bound is None:
            continue
        bound = {k: converted(overload.by_name[k], v) for k, v in bound.items()}
        scores = [overload.by_name[k].fits(v) for k, v in bound.items()]
        if None not in scores and (best is None or sum(scores) < lowest):
            best, lowest = (overload, run, bound), sum(scores)
    if best is None:
        raise RuntimeError(f"the file calls aten::{name} with arguments that no overload of it takes"
                           if KNOWN.get(name) else f"the file calls aten::{name}, which is not known")
    overload, run, bound = best
    given, named = [], {a.name: bound[a.name] for a in overload.arguments if a.kwarg_only and a.name in bound}
    for argument in overload.arguments:  # missing arguments are omitted
        if argument.name in bound and argument.name not in named:
            if argument.name != "alpha" and len(given) == overload.arguments.index(argument):
                given.append(bound[argument.name])
            else:
                named[argument.name] = bound[argument.name]
    result = run(*given, **named)
    return list(result) if type(result) is torch.Size else result


def converted(argument, value):
    """Numbers that stand for dtypes, layouts and orders of dimensions."""
    if value is None:
        return None
    if argument.base == "ScalarType":
        return dtype_of(value)
    for base, known in (("MemoryFormat", FORMATS), ("Layout", {0: torch.strided})):
        if argument.base == base and type(value) is int:
            if value not in known:
                raise RuntimeError(f"the file names a {base} by the number {value}, which is none of {sorted(known)}")
            return known[value]
    return value


def recurrent(mode):
    """``torch.lstm`` and its like, by what computes our layers."""
    def run(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        if not isinstance(params, (list, tuple)) or isinstance(batch_first, (list, tuple)):
            raise NotImplementedError(f"the file runs {mode} on packed sequences, which is not supported")
        count, directions = 4 if has_biases else 2, 1 + bool(bidirectional)
        if len(params) != count * directions * num_layers:
            raise NotImplementedError(f"the file runs {mode} with {len(params)} weights where {num_layers} layers have "
                                      f"{count * directions * num_layers}: projections are not supported")
        x = input.transpose(0, 1) if batch_first else input
        h, c = hx if mode == "LSTM" else (hx, None)
        hidden, cells = [], []
        for layer in range(num_layers):
            outs = []
            for backwards in range(directions):
                at = layer * directions + backwards
                w_ih, w_hh, b_ih, b_hh = (*params[at * count:(at + 1) * count], None, None)[:4]
                gates = OPS["nn.functional.linear"](x, w_ih, b_ih)
                gates = gates.flip(0) if backwards else gates
                out, last_h, last_c = in_parts(mode, gates, None, h[at], None if c is None else c[at],
                                               (w_hh, b_hh, None))
                outs.append(out.flip(0) if backwards else out)
                hidden.append(last_h)
                cells.append(last_c)
            x = torch.cat(outs, -1) if bidirectional else outs[0]
            if dropout and train and layer < num_layers - 1:
                x = OPS["nn.functional.dropout"](x, dropout, True)
        x = x.transpose(0, 1) if batch_first else x
        return (x, torch.stack(hidden)) if c is None else (x, torch.stack(hidden), torch.stack(cells))

    return run


def encoder_layer(src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
                  norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2,
                  ffn_bias_2, mask=None, mask_type=None):
    """A layer of a transformer's encoder, as it is where nothing is trained."""
    def attended(x):
        return self_attention(x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type)

    def forward(x):
        inner = OPS["nn.functional.linear"](x, ffn_weight_1, ffn_bias_1)
        return OPS["nn.functional.linear"](OPS["nn.functional.gelu"](inner) if use_gelu else inner.relu(),
                                           ffn_weight_2, ffn_bias_2)

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


OTHERS = {"lstm": recurrent("LSTM"), "gru": recurrent("GRU"), "rnn_tanh": recurrent("RNN_TANH"),
          "rnn_relu": recurrent("RNN_RELU"), "_transformer_encoder_layer_fwd": encoder_layer,
          "__lshift__": operator.lshift, "__rshift__": operator.rshift}
