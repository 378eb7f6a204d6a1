"""Dropout of quantized tensors, which is none."""
from __future__ import annotations

from ..... import nn
from ....._src.core.later import later
from .utils import quantized_name

__getattr__ = later(__name__)


class Dropout(nn.Dropout):
    """Passes values on, [*] -> [*]."""

    _get_name = quantized_name

    def forward(self, input):
        return input

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(mod.p, mod.inplace)
