"""Linear layers that learn with rounded weights."""
from __future__ import annotations

from ....._src.core.later import later
from .....nn import Linear as Float
from .....nn import functional as F
from .rounded import Rounded

__getattr__ = later(__name__)


class Linear(Rounded, Float):
    """A linear layer by rounded weights: [*, k] -> [*, n]."""

    _FLOAT_MODULE = Float

    def __init__(self, in_features, out_features, bias=True, qconfig=None, device=None, dtype=None):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.round_weight(qconfig)

    def forward(self, input):
        return F.linear(input, self.rounded(), self.bias)

    @classmethod
    def like(cls, layer, qconfig):
        made = cls(layer.in_features, layer.out_features, layer.bias is not None, qconfig=qconfig)
        made.weight, made.bias = layer.weight, layer.bias
        return made

    def to_float(self):
        """The float layer, with the weight as it is before rounding."""
        made = Float(self.in_features, self.out_features, self.bias is not None)
        made.weight, made.bias = self.weight, self.bias
        return made.train(self.training)
