"""Quantization: observers, their configuration, and the passes that prepare and convert models."""
from ..._src.core.later import later

__getattr__ = later(__name__)
