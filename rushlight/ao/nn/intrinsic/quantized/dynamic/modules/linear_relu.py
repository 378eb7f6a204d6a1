"""Linear layers with a relu behind them that quantize their inputs by their extremes."""
from __future__ import annotations

from .....quantized.dynamic.modules import linear


class LinearReLU(linear.Linear):
    """A linear layer by a quantized weight, and what is above 0 of its results: float [*, k] -> float [*, n]."""

    def forward(self, x):
        return super().forward(x).relu()

    def _get_name(self):
        return "DynamicQuantizedLinearReLU"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """From a float ``LinearReLU``, by the observer that its ``qconfig`` names, if it has one."""
        observer = mod.qconfig.weight() if getattr(mod, "qconfig", None) is not None else None
        return cls.of(mod[0], observer, 1.0, 0)


__all__ = ["LinearReLU"]
