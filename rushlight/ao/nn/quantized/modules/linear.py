"""Linear layers of quantized tensors."""
from __future__ import annotations

from ....._src.core.later import facade, later
from ....._src.core.quantized import qint8
from ....._src.ops.quantized_library import LIBRARY
from .....nn import Module
from .utils import Prepared, WeightedQuantizedModule, empty_weight, layer_of, quantized_weight

__getattr__ = later(__name__)


class LinearPackedParams(Prepared, Module):
    """The weight, qint8 or rounded to the half, and the float bias of a linear layer, prepared."""

    _version = 3

    def __init__(self, dtype=qint8):
        super().__init__()
        self.dtype = dtype
        self.set_weight_bias(empty_weight(1, 1) if dtype is qint8 else facade().zeros(1, 1), None)

    def set_weight_bias(self, weight, bias):
        quantized = facade().ops.quantized
        prepack = quantized.linear_prepack if self.dtype is qint8 else quantized.linear_prepack_fp16
        self._packed_params = prepack(weight, bias)

    def _weight_bias(self):
        return self._packed_params.unpack()

    def forward(self, x):
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"], destination[prefix + "_packed_params"] = self.dtype, self._weight_bias()

    def _load_from_state_dict(self, state_dict, prefix, *args):
        self.dtype = state_dict.pop(prefix + "dtype")
        self.set_weight_bias(*state_dict.pop(prefix + "_packed_params"))
        super()._load_from_state_dict(state_dict, prefix, args[0], False, *args[2:])

    def __repr__(self):
        return repr(self._weight_bias())


class Linear(WeightedQuantizedModule):
    """A linear layer by a qint8 weight: quantized [*, k] -> quantized [*, n]."""

    _version = 3
    compute = staticmethod(LIBRARY["linear"])

    def __init__(self, in_features, out_features, bias_=True, dtype=qint8):
        super().__init__()
        self.in_features, self.out_features, self.scale, self.zero_point = in_features, out_features, 1.0, 0
        self._packed_params = LinearPackedParams(dtype)
        self._packed_params.set_weight_bias(empty_weight(out_features, in_features) if dtype is qint8
                                            else facade().zeros(out_features, in_features),
                                            facade().zeros(out_features) if bias_ else None)

    def set_weight_bias(self, w, b):
        """Sets the qint8 weight [n, k] and the float bias [n]."""
        self._packed_params.set_weight_bias(w, b)

    def weight(self):
        return self._packed_params._weight_bias()[0]

    def bias(self):
        return self._packed_params._weight_bias()[1]

    def _weight_bias(self):
        return self._packed_params._weight_bias()

    def forward(self, x):
        return self.compute(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def extra_repr(self):
        return (f"in_features={self.in_features}, out_features={self.out_features}, scale={self.scale}, "
                f"zero_point={self.zero_point}, qscheme={self.weight().qscheme()}")

    def __repr__(self):
        return f"{self._get_name()}({self.extra_repr()})"  # without the packed weight

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """From a float layer that has a ``qconfig`` and the observer of its results, ``activation_post_process``."""
        return cls.of(*layer_of(mod), *mod.activation_post_process.calculate_qparams())

    @classmethod
    def of(cls, layer, observer, scale, zero_point):
        """From a float layer, the observer of its weight, and the scale and zero point of its results."""
        made = cls(layer.in_features, layer.out_features, layer.bias is not None)
        made.set_weight_bias(quantized_weight(layer.weight, observer), None if layer.bias is None
                             else layer.bias.detach())
        made.set_output(scale, zero_point)
        return made
