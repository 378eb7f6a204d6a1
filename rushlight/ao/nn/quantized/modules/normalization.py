"""Norms of quantized tensors."""
from __future__ import annotations

from ....._src.core.later import later
from ....._src.ops.quantized_library import LIBRARY
from ..... import nn
from .....nn import LayerNorm as FloatLayerNorm
from .utils import Scaled

__getattr__ = later(__name__)


class LayerNorm(Scaled, nn.LayerNorm):
    """A layer norm with a float weight and bias: quantized [*, n] -> quantized [*, n]."""

    def __init__(self, normalized_shape, weight, bias, scale, zero_point, eps=1e-5, elementwise_affine=True,
                 device=None, dtype=None):
        super().__init__(normalized_shape, eps, elementwise_affine, bias is not None)
        del self.weight, self.bias  # parameters, while what is given may be any tensors
        self.weight, self.bias = weight, bias
        self.set_output(scale, zero_point, device, dtype)

    def forward(self, input):
        return LIBRARY["layer_norm"](input, list(self.normalized_shape), self.weight, self.bias, self.eps, *self.known)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """From a float layer with an observer of its results."""
        return cls.of(mod, None, *mod.activation_post_process.calculate_qparams())

    @classmethod
    def of(cls, layer: FloatLayerNorm, observer, scale, zero_point):
        """From a float layer, and the scale and zero point of its results."""
        return cls(layer.normalized_shape, layer.weight, layer.bias, float(scale), int(zero_point), layer.eps,
                   layer.elementwise_affine)


class GroupNorm(Scaled, nn.GroupNorm):
    """A group norm with a float weight and bias: quantized [n, c, *] -> quantized [n, c, *]."""

    def __init__(self, num_groups, num_channels, weight, bias, scale, zero_point, eps=1e-5, affine=True, device=None,
                 dtype=None):
        super().__init__(num_groups, num_channels, eps, affine)
        self.weight, self.bias = weight, bias
        self.set_output(scale, zero_point, device, dtype)

    def forward(self, input):
        return LIBRARY["group_norm"](input, self.num_groups, self.weight, self.bias, self.eps, *self.known)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """From a float layer with an observer of its results."""
        return cls(mod.num_groups, mod.num_channels, mod.weight, mod.bias,
                   *mod.activation_post_process.calculate_qparams(), mod.eps, mod.affine)


class _InstanceNorm(Scaled):
    """An instance norm with a float weight and bias: quantized [n, c, *] -> quantized [n, c, *]."""

    def __init__(self, num_features, weight, bias, scale, zero_point, eps=1e-5, momentum=0.1, affine=False,
                 track_running_stats=False, device=None, dtype=None):
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.weight, self.bias = weight, bias
        self.set_output(scale, zero_point, device, dtype)

    def forward(self, input):
        return LIBRARY["instance_norm"](input, self.weight, self.bias, self.eps, *self.known)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """From a float layer with an observer of its results."""
        return cls(mod.num_features, mod.weight, mod.bias, *mod.activation_post_process.calculate_qparams(), mod.eps,
                   affine=mod.affine)


class InstanceNorm1d(_InstanceNorm, nn.InstanceNorm1d):
    """An instance norm over one dimension: quantized [n, c, l] -> quantized [n, c, l]."""


class InstanceNorm2d(_InstanceNorm, nn.InstanceNorm2d):
    """An instance norm over two dimensions: quantized [n, c, h, w] -> quantized [n, c, h, w]."""


class InstanceNorm3d(_InstanceNorm, nn.InstanceNorm3d):
    """An instance norm over three dimensions: quantized [n, c, d, h, w] -> quantized [n, c, d, h, w]."""
