"""Matrices with elements near the diagonal alone."""
from __future__ import annotations

from ...._src.flat import arange
from .base_sparsifier import BaseSparsifier

__all__ = ["NearlyDiagonalSparsifier"]


class NearlyDiagonalSparsifier(BaseSparsifier):
    """Keeps the diagonal of square weights and ``nearliness // 2`` diagonals on each side.  ValueError for an even
    ``nearliness``."""

    def __init__(self, nearliness: int = 1):
        super().__init__(defaults={"nearliness": nearliness})

    def update_mask(self, module, tensor_name, nearliness, **kwargs):
        mask = getattr(module.parametrizations, tensor_name)[0].mask
        if nearliness <= 0:
            mask.zero_()
            return
        height, width = mask.shape
        if nearliness % 2 == 0:
            raise ValueError("nearliness can only be an odd number")
        if nearliness // 2 >= min(height, width):
            raise ValueError("nearliness cannot be larger than the dimensions of tensor.")
        distance = (arange(height)[:, None] - arange(width)[None]).abs()
        mask.copy_(distance <= nearliness // 2)
