"""Norms of quantized tensors."""
from __future__ import annotations

from ....._src.core.later import facade, later
from ....._src.ops.quantized_library import LIBRARY
from .....nn import LayerNorm as FloatLayerNorm
from .utils import WeightedQuantizedModule

__getattr__ = later(__name__)


class LayerNorm(WeightedQuantizedModule):
    """A layer norm with a float weight and bias: quantized [*, n] -> quantized [*, n]."""

    def __init__(self, normalized_shape, weight, bias, scale, zero_point, eps=1e-5, elementwise_affine=True,
                 device=None, dtype=None):
        super().__init__()
        self.normalized_shape, self.eps, self.elementwise_affine, self.weight, self.bias = tuple(
            normalized_shape), eps, elementwise_affine, weight, bias
        self.register_buffer("scale", facade().tensor(float(scale)))
        self.register_buffer("zero_point", facade().tensor(int(zero_point)))
        self.known = float(scale), int(zero_point)

    def forward(self, input):
        return LIBRARY["layer_norm"](input, list(self.normalized_shape), self.weight, self.bias, self.eps, *self.known)

    def _load_from_state_dict(self, state_dict, prefix, *args):
        super()._load_from_state_dict(state_dict, prefix, *args)
        self.known = float(self.scale), int(self.zero_point)

    @classmethod
    def of(cls, layer: FloatLayerNorm, observer, scale, zero_point):
        """From a float layer, and the scale and zero point of its results."""
        return cls(layer.normalized_shape, layer.weight, layer.bias, float(scale), int(zero_point), layer.eps,
                   layer.elementwise_affine)
