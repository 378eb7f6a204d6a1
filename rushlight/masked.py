"""Reductions under a mask, by PyTorch's names."""
from __future__ import annotations

from .ops import library

globals().update(library.namespace("masked"))
