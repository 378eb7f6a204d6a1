"""Activations of quantized tensors."""
from __future__ import annotations

from ..... import nn
from ....._src.core.later import facade, later
from ....._src.ops.quantized_library import LIBRARY
from .utils import Scaled, quantized_name

__getattr__ = later(__name__)


class ReLU6(nn.ReLU):
    """relu6: quantized [*] -> quantized [*], by the same scale."""

    _get_name = quantized_name

    def forward(self, input):
        return LIBRARY["relu6"](input, self.inplace)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(mod.inplace)


class Hardswish(Scaled, nn.Hardswish):
    """hardswish: quantized [*] -> quantized [*]."""

    def __init__(self, scale, zero_point, device=None, dtype=None):
        super().__init__()
        self.set_output(scale, zero_point, device, dtype)

    def forward(self, input):
        return LIBRARY["hardswish"](input, *self.known)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(*mod.activation_post_process.calculate_qparams())


class ELU(nn.ELU):
    """elu: quantized [*] -> quantized [*]."""

    _get_name = quantized_name

    def __init__(self, scale, zero_point, alpha=1.0):
        super().__init__(alpha)
        self.scale, self.zero_point = float(scale), int(zero_point)

    def forward(self, input):
        return LIBRARY["elu"](input, self.scale, self.zero_point, self.alpha)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(*mod.activation_post_process.calculate_qparams(), mod.alpha)


class LeakyReLU(Scaled, nn.LeakyReLU):
    """A leaky relu: quantized [*] -> quantized [*]."""

    def __init__(self, scale, zero_point, negative_slope=0.01, inplace=False, device=None, dtype=None):
        super().__init__(negative_slope, inplace)
        self.set_output(scale, zero_point, device, dtype)

    def forward(self, input):
        return LIBRARY["leaky_relu"](input, self.negative_slope, self.inplace, *self.known)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(*mod.activation_post_process.calculate_qparams(), mod.negative_slope, mod.inplace)


class Sigmoid(nn.Sigmoid):
    """sigmoid: quantized [*] -> quantized [*]."""

    def __init__(self, output_scale, output_zero_point):
        super().__init__()
        self.output_scale, self.output_zero_point = float(output_scale), int(output_zero_point)

    def forward(self, input):
        return LIBRARY["sigmoid"](input, self.output_scale, self.output_zero_point)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(*mod.activation_post_process.calculate_qparams())


class Softmax(nn.Softmax):
    """softmax: quantized [*] -> quantized [*]."""

    _get_name = quantized_name

    def __init__(self, dim=None, scale=1.0, zero_point=0):
        super().__init__(dim)
        self.scale, self.zero_point = float(scale), int(zero_point)

    def forward(self, input):
        dim = self.dim if self.dim is not None else 0 if input.dim() in (0, 1, 3) else 1
        return LIBRARY["softmax"](input, dim, self.scale, self.zero_point)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(mod.dim, *mod.activation_post_process.calculate_qparams())


class PReLU(nn.Module):
    """A leaky relu by quantized slopes: quantized [n, c, *] -> quantized [n, c, *]."""

    _get_name = quantized_name

    def __init__(self, output_scale, output_zero_point, num_parameters=1):
        super().__init__()
        torch = facade()
        self.num_parameters, self.scale, self.zero_point = num_parameters, float(output_scale), int(output_zero_point)
        self.set_weight(torch.quantize_per_tensor(torch.randn(num_parameters), 1.0, 0, torch.quint8))

    def set_weight(self, w):
        self.weight = w

    def forward(self, input):
        return LIBRARY["prelu"](input, self.weight.dequantize(), self.scale, self.zero_point)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        made = cls(*mod.activation_post_process.calculate_qparams(), mod.num_parameters)
        observer, weight = mod.qconfig.weight(), mod.weight.detach()
        observer(weight)
        scale, zero_point = observer.calculate_qparams()
        made.set_weight(facade().quantize_per_tensor(weight, float(scale), int(zero_point), observer.dtype))
        return made
