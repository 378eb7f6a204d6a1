"""Batch norms of quantized tensors."""
from __future__ import annotations

from ..... import nn
from ....._src.core.later import later
from ....._src.ops.quantized_library import LIBRARY
from .utils import Scaled

__getattr__ = later(__name__)


class _BatchNorm(Scaled):
    """A batch norm by known statistics: quantized [n, c, *] -> quantized [n, c, *]."""

    rank, relu = 2, ""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, device=None, dtype=None):
        super().__init__(num_features, eps=eps, momentum=momentum)
        self.set_output(1.0, 0)
        self.eval()

    def forward(self, input):
        self._check_input_dim(input)
        return LIBRARY[f"batch_norm{self.rank}d{self.relu}"](input, self.weight, self.bias, self.running_mean,
                                                             self.running_var, self.eps, *self.known)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """From a float layer, with relu or not, with an observer of its results."""
        layer = mod[0] if hasattr(mod, "__getitem__") else mod
        made = cls(layer.num_features, layer.eps)
        made.weight, made.bias = layer.weight, layer.bias
        made.running_mean, made.running_var = layer.running_mean, layer.running_var
        made.set_output(*mod.activation_post_process.calculate_qparams())
        return made


class BatchNorm2d(_BatchNorm, nn.BatchNorm2d):
    """A batch norm by known statistics: quantized [n, c, h, w] -> quantized [n, c, h, w]."""


class BatchNorm3d(_BatchNorm, nn.BatchNorm3d):
    """A batch norm by known statistics: quantized [n, c, d, h, w] -> quantized [n, c, d, h, w]."""

    rank = 3
