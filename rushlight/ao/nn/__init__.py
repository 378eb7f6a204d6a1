"""Modules of quantized models."""
from ..._src.core.later import later

__getattr__ = later(__name__)
