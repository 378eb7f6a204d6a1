"""Conversion to and from quantized values."""
from __future__ import annotations

from ....._src.core.later import facade, later
from .....nn import Module

__getattr__ = later(__name__)


class Quantize(Module):
    """Quantizes: float [*] -> quantized [*].  Buffers: ``scale`` [1], ``zero_point`` [1]."""

    def __init__(self, scale, zero_point, dtype, factory_kwargs=None):
        super().__init__()
        torch = facade()
        factory = torch.nn.factory_kwargs(factory_kwargs)
        self.register_buffer("scale", torch.tensor([float(scale)], **factory))
        self.register_buffer("zero_point", torch.tensor(
            [int(zero_point)], **{name: value for name, value in factory.items() if name != "dtype"}))
        self.dtype, self.known = dtype, (float(self.scale), int(zero_point))

    def forward(self, X):
        return facade().quantize_per_tensor(X, *self.known, self.dtype)

    def _load_from_state_dict(self, state_dict, prefix, *args):
        super()._load_from_state_dict(state_dict, prefix, *args)
        self.known = float(self.scale), int(self.zero_point)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """From a QuantStub with an observer, ``activation_post_process``."""
        observer = mod.activation_post_process
        return cls(*observer.calculate_qparams(), observer.dtype)

    def extra_repr(self):
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """Dequantizes: quantized [*] -> float [*]."""

    def forward(self, Xq):
        return Xq.dequantize()

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls()
