"""Sums, products and joining as modules, which have an observer or a scale of their own."""
from __future__ import annotations

from ....._src.core.later import facade, later
from ....._src.ops.quantized_library import LIBRARY
from .....nn import Identity, Module
from .utils import WeightedQuantizedModule

__getattr__ = later(__name__)


class FXFloatFunctional(Module):
    """Operators by name for traced models: none of them is observed here."""

    def forward(self, x):
        raise RuntimeError("FloatFunctional is not intended to use the forward. Please use the underlying operation")

    def seen(self, x):
        """Return the observer's result for the value."""
        return x

    def add(self, x, y):
        return self.seen(facade().add(x, y))

    def add_scalar(self, x, y):
        return facade().add(x, y)

    def mul(self, x, y):
        return self.seen(facade().mul(x, y))

    def mul_scalar(self, x, y):
        return facade().mul(x, y)

    def cat(self, x, dim=0):
        return self.seen(facade().cat(x, dim))

    def add_relu(self, x, y):
        return self.seen(facade().relu(facade().add(x, y)))

    def matmul(self, x, y):
        return self.seen(facade().matmul(x, y))


class FloatFunctional(FXFloatFunctional):
    """Sums, products and joining, each as a method; their results go through ``activation_post_process``.  One module
    for each place in a model.

    >>> import rushlight as torch
    >>> torch.ao.nn.quantized.FloatFunctional().add(torch.ones(2), 1)
    tensor([2., 2.])
    """

    def __init__(self):
        super().__init__()
        self.activation_post_process = Identity()

    def seen(self, x):
        return self.activation_post_process(x)

    def add_scalar(self, x, y):
        return self.seen(super().add_scalar(x, y))

    def mul_scalar(self, x, y):
        return self.seen(super().mul_scalar(x, y))


class QFunctional(WeightedQuantizedModule):
    """Sums, products and joining of quantized tensors, quantized by one ``scale`` and ``zero_point``."""

    def __init__(self):
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self.activation_post_process = Identity()

    def _get_name(self):
        return "QFunctional"

    def extra_repr(self):
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x):
        raise RuntimeError("Functional is not intended to use the forward. Please use the underlying operation")

    def add(self, x, y):
        return LIBRARY["add"](x, y, self.scale, self.zero_point)

    def add_scalar(self, x, y):
        return LIBRARY["add_scalar"](x, y)

    def mul(self, x, y):
        return LIBRARY["mul"](x, y, self.scale, self.zero_point)

    def mul_scalar(self, x, y):
        return LIBRARY["mul_scalar"](x, y)

    def cat(self, x, dim=0):
        return LIBRARY["cat"](x, dim, self.scale, self.zero_point)

    def add_relu(self, x, y):
        return LIBRARY["add_relu"](x, y, self.scale, self.zero_point)

    def matmul(self, x, y):
        return LIBRARY["matmul"](x, y, self.scale, self.zero_point)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """From a FloatFunctional with an observer."""
        made = cls()
        made.set_output(*mod.activation_post_process.calculate_qparams())
        return made
