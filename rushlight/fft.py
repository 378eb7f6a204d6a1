"""Fourier transforms under PyTorch's names."""
from __future__ import annotations

from ._src.ops import library

globals().update(library.namespace("fft"))
