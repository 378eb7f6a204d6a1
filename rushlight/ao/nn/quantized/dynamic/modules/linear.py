"""Linear layers that quantize their inputs by their extremes."""
from __future__ import annotations

from ......_src.core.later import later
from ......_src.core.quantized import qint8
from ......_src.ops.quantized_library import LIBRARY
from ...modules.linear import Linear as Static
from ...modules.utils import quantized_weight

__getattr__ = later(__name__)


class Linear(Static):
    """A linear layer by a qint8 weight whose input is quantized by its own extremes: float [*, k] -> float [*, n]."""

    _version = 4

    def __init__(self, in_features, out_features, bias_=True, dtype=qint8):
        super().__init__(in_features, out_features, bias_, dtype)

    def forward(self, x):
        return LIBRARY["linear_dynamic"](x, self._packed_params._packed_params, reduce_range=True)

    def _get_name(self):
        return "DynamicQuantizedLinear"

    def extra_repr(self):
        return (f"in_features={self.in_features}, out_features={self.out_features}, "
                f"dtype={self._packed_params.dtype}, qscheme={self.weight().qscheme()}")

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """From a float layer, by the observer that its ``qconfig`` names, if it has one."""
        observer = mod.qconfig.weight() if getattr(mod, "qconfig", None) is not None else None
        return cls.of(mod, observer, 1.0, 0)

    @classmethod
    def of(cls, layer, observer, scale, zero_point):
        from .....quantization.observer import default_weight_observer
        made = cls(layer.in_features, layer.out_features, layer.bias is not None)
        weight = quantized_weight(layer.weight, observer if observer is not None else default_weight_observer())
        made.set_weight_bias(weight, None if layer.bias is None else layer.bias.detach())
        return made
