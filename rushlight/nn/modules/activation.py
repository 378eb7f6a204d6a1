"""Activation functions as modules, and multi-head attention."""
from __future__ import annotations

from .. import functional as F
from ..multihead import multi_head_attention_forward
from ..init import constant_, xavier_normal_, xavier_uniform_
from .linear import NonDynamicallyQuantizableLinear, empty
from .module import Module


def simple(name, function, doc):
    """A module without settings."""
    class Made(Module):
        def forward(self, input):
            return getattr(F, function)(input)
    Made.__name__ = Made.__qualname__ = name
    Made.__doc__ = doc
    return Made


Sigmoid, Tanh = simple("Sigmoid", "sigmoid", "1 / (1 + exp(-x))."), simple("Tanh", "tanh", "The hyperbolic tangent.")
LogSigmoid, Softsign, Tanhshrink = (simple("LogSigmoid", "logsigmoid", "log(sigmoid(x))."),
                                    simple("Softsign", "softsign", "x / (1 + |x|)."),
                                    simple("Tanhshrink", "tanhshrink", "x - tanh(x)."))


def settings(name, function, doc, options=(), inplace=False, shown=None):
    """A module whose settings are passed on to a function of the same names."""
    class Made(Module):
        def __init__(self, *args, **kwargs):
            super().__init__()
            names = [n for n, _ in options] + (["inplace"] if inplace else [])
            given = dict(zip(names, args), **kwargs)
            for key in given:
                if key not in names:
                    raise TypeError(f"{name}.__init__() got an unexpected keyword argument '{key}'")
            for key, default in options:
                setattr(self, key, given.get(key, default))
            if inplace:
                self.inplace = given.get("inplace", False)

        def forward(self, input):
            values = {key: getattr(self, key) for key, _ in options}
            if inplace:
                values["inplace"] = self.inplace
            return getattr(F, function)(input, **values)

        def extra_repr(self):
            parts = [f"{key}={getattr(self, key)!r}" if shown is None else shown.format(getattr(self, key))
                     for key, _ in options]
            return ", ".join(parts + ["inplace=True"] * (inplace and self.inplace))

    Made.__name__ = Made.__qualname__ = name
    Made.__doc__ = doc
    return Made


ReLU = settings("ReLU", "relu", "max(x, 0).", inplace=True)
SiLU = settings("SiLU", "silu", "x * sigmoid(x).", inplace=True)
Mish = settings("Mish", "mish", "x * tanh(softplus(x)).", inplace=True)
SELU = settings("SELU", "selu", "The self-normalising ELU.", inplace=True)
Hardswish = settings("Hardswish", "hardswish", "x * hardsigmoid(x).", inplace=True)
Hardsigmoid = settings("Hardsigmoid", "hardsigmoid", "min(max(x + 3, 0), 6) / 6.", inplace=True)
Hardsigmoid.extra_repr = Hardswish.extra_repr = lambda self: ""
GELU = settings("GELU", "gelu", "x * Phi(x).", (("approximate", "none"),))
LeakyReLU = settings("LeakyReLU", "leaky_relu", "x where positive, else negative_slope * x.",
                     (("negative_slope", 0.01),), inplace=True)
ELU = settings("ELU", "elu", "x where positive, else alpha * (exp(x) - 1).", (("alpha", 1.0),), inplace=True)
CELU = settings("CELU", "celu", "x where positive, else alpha * (exp(x / alpha) - 1).", (("alpha", 1.0),), inplace=True)
Softplus = settings("Softplus", "softplus", "log(1 + exp(beta x)) / beta.", (("beta", 1.0), ("threshold", 20.0)))
Hardshrink = settings("Hardshrink", "hardshrink", "x where |x| > lambd, else 0.", (("lambd", 0.5),), shown="{}")
Softshrink = settings("Softshrink", "softshrink", "x moved towards 0 by lambd.", (("lambd", 0.5),), shown="{}")
GLU = settings("GLU", "glu", "a * sigmoid(b), a and b the halves along a dimension.", (("dim", -1),))
Softmax = settings("Softmax", "softmax", "exp(x) / sum exp(x) along a dimension.", (("dim", None),))
LogSoftmax = settings("LogSoftmax", "log_softmax", "log(softmax(x)) along a dimension.", (("dim", None),))
Softmin = settings("Softmin", "softmin", "softmax(-x) along a dimension.", (("dim", None),))


class Hardtanh(Module):
    """x limited to [min_val, max_val].

    >>> torch.nn.Hardtanh()(torch.tensor([-3., 0.5]))
    tensor([-1.0000,  0.5000])
    """

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False, min_value=None, max_value=None):
        super().__init__()
        # by their old names too
        min_val, max_val = (new if old is None else old for new, old in ((min_val, min_value), (max_val, max_value)))
        if max_val <= min_val:
            raise AssertionError("max_val must be larger than min_val")
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input):
        return F.hardtanh(input, self.min_val, self.max_val, inplace=self.inplace)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}" + ", inplace=True" * self.inplace


class ReLU6(Hardtanh):
    """min(max(x, 0), 6).

    >>> torch.nn.ReLU6()(torch.tensor([-1., 8.]))
    tensor([0., 6.])
    """

    def __init__(self, inplace=False):
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self):
        return "inplace=True" * self.inplace


class Threshold(Module):
    """x where above the threshold, else value.

    >>> torch.nn.Threshold(1, 0)(torch.tensor([0.5, 2.]))
    tensor([0., 2.])
    """

    def __init__(self, threshold, value, inplace=False):
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input):
        return F.threshold(input, self.threshold, self.value, inplace=self.inplace)

    def extra_repr(self):
        return f"threshold={self.threshold}, value={self.value}" + ", inplace=True" * self.inplace


class RReLU(Module):
    """Leaky relu with a random slope in training."""

    def __init__(self, lower=1.0 / 8, upper=1.0 / 3, inplace=False):
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input):
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self):
        return f"lower={self.lower}, upper={self.upper}" + ", inplace=True" * self.inplace


class PReLU(Module):
    """x where positive, else a learned slope times x.

    >>> torch.nn.PReLU()(torch.tensor([-4., 2.])).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = empty(num_parameters, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self):
        constant_(self.weight, self.init)

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class Softmax2d(Module):
    """softmax over the channels of an image.

    >>> torch.nn.Softmax2d()(torch.zeros(1, 2, 3, 3)).shape
    torch.Size([1, 2, 3, 3])
    """

    def forward(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)


class MultiheadAttention(Module):
    """Attention by several heads, with input and output projections (Vaswani et al. 2017).

    >>> torch.nn.MultiheadAttention(8, 2)(*torch.ones(3, 5, 2, 8))[0].shape
    torch.Size([5, 2, 8])
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None,
                 vdim=None, batch_first=False, device=None, dtype=None):
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead")
        super().__init__()
        self.embed_dim, self.kdim, self.vdim = (embed_dim, kdim if kdim is not None else embed_dim,
                                                vdim if vdim is not None else embed_dim)
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads, self.dropout, self.batch_first, self.head_dim = (num_heads, dropout, batch_first,
                                                                         embed_dim // num_heads)
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        places = {"device": device, "dtype": dtype}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = empty((3 * embed_dim, embed_dim), **places)
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight, self.k_proj_weight = empty((embed_dim, embed_dim),
                                                           **places), empty((embed_dim, self.kdim), **places)
            self.v_proj_weight = empty((embed_dim, self.vdim), **places)
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", empty(3 * embed_dim, **places) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **places)
        self.bias_k, self.bias_v = (empty((1, 1, embed_dim), **places),
                                    empty((1, 1, embed_dim), **places)) if add_bias_kv else (None, None)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self):
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            constant_(self.in_proj_bias, 0.0)
            constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            xavier_normal_(self.bias_k)
            xavier_normal_(self.bias_v)

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        if query.is_nested or key.is_nested or value.is_nested:
            return self.nested(query, key, value, key_padding_mask, need_weights, attn_mask, is_causal), None
        first = self.batch_first and query.dim() == 3
        if first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        out, attention = multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias, self.training, key_padding_mask, need_weights, attn_mask,
            not self._qkv_same_embed_dim, self.q_proj_weight,
            self.k_proj_weight, self.v_proj_weight, average_attn_weights=average_attn_weights, is_causal=is_causal)
        return out.transpose(0, 1) if first else out, attention

    def nested(self, query, key, value, key_padding_mask, need_weights, attn_mask, is_causal):
        """Attention of nested tensors [batch, n, size]: within each example, and without weights."""
        if (key_padding_mask is not None or attn_mask is not None and not is_causal or need_weights
            or not self.batch_first or self.bias_k is not None or self.add_zero_attn):
            raise AssertionError(
                "MultiheadAttention takes nested tensors with batch_first=True, need_weights=False, without masks "
                "(is_causal may be said), bias_k and zero "
                "attention: examples have no padding to mask")
        weights = self.in_proj_weight.chunk(3) if self._qkv_same_embed_dim else (self.q_proj_weight, self.k_proj_weight,
                                                                                 self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = (F.linear(x, w, b).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
                   for x, w, b in zip((query, key, value), weights, biases))
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0,
                                             is_causal=is_causal)
        return self.out_proj(out.transpose(1, 2).flatten(-2))
