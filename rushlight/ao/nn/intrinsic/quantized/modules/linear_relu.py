"""Linear layers of quantized tensors, then relu."""
from __future__ import annotations

from ......_src.core.later import later
from ......_src.ops.quantized_library import LIBRARY
from ....quantized.modules.linear import Linear

__getattr__ = later(__name__)


class LinearReLU(Linear):
    """A linear layer, then relu: quantized [*, k] -> quantized [*, n]."""

    compute = staticmethod(LIBRARY["linear_relu"])
