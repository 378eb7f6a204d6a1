"""Linear layers that quantize their inputs by their extremes."""
from __future__ import annotations

from ......_src.core.dtypes import float16
from ......_src.core.later import later
from ......_src.core.quantized import qint8
from ......_src.ops.quantized_library import LIBRARY
from ...modules.linear import Linear as Static
from ...modules.utils import quantized_weight

__getattr__ = later(__name__)


class Linear(Static):
    """A linear layer by a qint8 weight whose input is quantized by its own extremes, or by a weight rounded to the half
    (``dtype=torch.float16``): float [*, k] -> float [*, n]."""

    _version = 4

    def __init__(self, in_features, out_features, bias_=True, dtype=qint8):
        super().__init__(in_features, out_features, bias_, dtype)

    def forward(self, x):
        packed = self._packed_params._packed_params
        if self._packed_params.dtype is float16:
            return LIBRARY["linear_dynamic_fp16"](x, packed)
        return LIBRARY["linear_dynamic"](x, packed, reduce_range=True)

    def _get_name(self):
        return "DynamicQuantizedLinear"

    def extra_repr(self):
        text = f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._packed_params.dtype}"
        return f"{text}, qscheme={self.weight().qscheme()}" if self._packed_params.dtype is qint8 else text

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """From a float layer, by the observer that its ``qconfig`` names, if it has one."""
        observer = mod.qconfig.weight() if getattr(mod, "qconfig", None) is not None else None
        return cls.of(mod, observer, 1.0, 0)

    @classmethod
    def of(cls, layer, observer, scale, zero_point):
        from .....quantization.observer import default_weight_observer
        observer = default_weight_observer() if observer is None else observer
        half = observer.dtype is float16
        made = cls(layer.in_features, layer.out_features, layer.bias is not None, float16 if half else qint8)
        weight = layer.weight.detach() if half else quantized_weight(layer.weight, observer)
        made.set_weight_bias(weight, None if layer.bias is None else layer.bias.detach())
        return made
