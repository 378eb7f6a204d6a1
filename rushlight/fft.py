"""Fourier transforms under PyTorch's names."""
from __future__ import annotations

from .ops import library
from .core.later import later

globals().update(library.namespace("fft"))
__getattr__ = later(__name__)
