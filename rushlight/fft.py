"""Fourier transforms under PyTorch's names."""
from __future__ import annotations

from ._src.ops import library

_named = library.namespace("fft")
globals().update(_named)
