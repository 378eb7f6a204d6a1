"""Quantization: observers, their configuration, and the passes that prepare and convert models."""
from ..._src.core.later import later

__getattr__ = later(__name__)

from .fuse_modules import fuse_modules  # noqa: E402 - a function at the path of its module, as in PyTorch
from .quantize import quantize  # noqa: E402
