"""Stubs that mark where quantized values begin and end in a model."""
from __future__ import annotations

from ..._src.core.later import later
from ...nn import Module

__getattr__ = later(__name__)


class _Stub(Module):
    """Passes values on, [*] -> [*]; ``convert`` puts another module in its place."""

    def __init__(self, qconfig=None):
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x):
        return x


class QuantStub(_Stub):
    """Passes values on, [*] -> [*]; ``convert`` makes it quantize them."""


class DeQuantStub(_Stub):
    """Passes values on, [*] -> [*]; ``convert`` makes it dequantize them."""


class QuantWrapper(Module):
    """A module between a QuantStub and a DeQuantStub."""

    def __init__(self, module):
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.add_module("quant", QuantStub(qconfig))
        self.add_module("dequant", DeQuantStub(qconfig))
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, X):
        return self.dequant(self.module(self.quant(X)))
