"""Layers that are fused, as quantization wants them."""
from ....._src.core.later import later

__getattr__ = later(__name__)
