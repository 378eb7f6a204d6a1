"""Linear layers with relu that learn with rounded weights."""
from __future__ import annotations

from ......_src.core.later import later
from ......nn import ReLU
from ......nn import functional as F
from ....qat.modules import linear
from ...modules import fused

__getattr__ = later(__name__)


class LinearReLU(linear.Linear):
    """A linear layer by rounded weights, then relu: [*, k] -> [*, n]."""

    _FLOAT_MODULE = fused.LinearReLU

    def __init__(self, in_features, out_features, bias=True, qconfig=None):
        super().__init__(in_features, out_features, bias, qconfig)

    def forward(self, input):
        return F.relu(super().forward(input))

    def to_float(self):
        """The float layers in a row, with the weight as it is before rounding."""
        return fused.LinearReLU(super().to_float(), ReLU())
