"""Modules that compute with quantized tensors."""
from ....._src.core.later import later

__getattr__ = later(__name__, {"stubs": ("Quantize", "DeQuantize")})
