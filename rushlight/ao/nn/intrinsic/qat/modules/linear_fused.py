"""Linear layers with their batch norm that learn with rounded weights."""
from __future__ import annotations

from ......_src.core.later import later
from ......nn import BatchNorm1d, Linear
from ......nn import functional as F
from ...modules import fused
from .normed import Normed

__getattr__ = later(__name__)


class LinearBn1d(Normed, Linear):
    """A linear layer and its batch norm, by rounded weights: [n, k] -> [n, o]."""

    _FLOAT_MODULE = fused.LinearBn1d

    def __init__(self, in_features, out_features, bias=True, eps=1e-05, momentum=0.1, freeze_bn=False, qconfig=None):
        super().__init__(in_features, out_features, bias)
        self.add_norm(BatchNorm1d(out_features, eps, momentum), qconfig, freeze_bn)

    def forward(self, input):
        return self.normed(input, F.linear, self.bias)

    @classmethod
    def like(cls, layer, norm, qconfig):
        made = cls(layer.in_features, layer.out_features, layer.bias is not None, norm.eps, norm.momentum, False,
                   qconfig)
        made.weight, made.bias, made.bn = layer.weight, layer.bias, norm
        return made

    def to_float(self):
        """The float layer, with the batch norm in its weight."""
        made = Linear(self.in_features, self.out_features)
        made.weight, made.bias = self.folded()
        return made.train(self.training)
