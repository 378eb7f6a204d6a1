"""Blocks of weights with the least norms are zero."""
from __future__ import annotations

import operator
from functools import reduce

from ...._src.flat import ones_like, zeros_like
from ....nn import functional as F
from .base_sparsifier import BaseSparsifier

__all__ = ["WeightNormSparsifier"]


class WeightNormSparsifier(BaseSparsifier):
    """Zeroes ``zeros_per_block`` numbers (those of the least norm) in a share ``sparsity_level`` of the blocks of
    ``sparse_block_shape`` (rows, columns), the blocks with the least sums of norms.

    ``norm``: 1 or 2 (the square, which is usual), or a function of a tensor. ValueError for more zeros than a
    block has numbers.
    """

    def __init__(self, sparsity_level: float = 0.5, sparse_block_shape=(1, 4), zeros_per_block=None, norm=None):
        size = reduce(operator.mul, sparse_block_shape)
        norm = 2 if norm is None else norm
        if callable(norm):
            self.norm_fn = norm
        elif norm in (1, 2):
            self.norm_fn = {1: lambda t: t.abs(), 2: lambda t: t * t}[norm]
        else:
            raise NotImplementedError(f"L-{norm} is not yet implemented.")
        super().__init__(defaults={"sparsity_level": sparsity_level, "sparse_block_shape": sparse_block_shape,
                                   "zeros_per_block": size if zeros_per_block is None else zeros_per_block})

    def update_mask(self, module, tensor_name, sparsity_level, sparse_block_shape, zeros_per_block, **kwargs):
        rows, columns = sparse_block_shape
        if zeros_per_block > rows * columns:
            raise ValueError("Number of zeros per block cannot be more than the total number of elements in that "
                             "block.")
        if zeros_per_block < 0:
            raise ValueError("Number of zeros per block should be positive.")
        mask = getattr(module.parametrizations, tensor_name)[0].mask
        if sparsity_level <= 0 or zeros_per_block == 0:
            mask.fill_(1)
        elif sparsity_level >= 1.0 and zeros_per_block == rows * columns:
            mask.zero_()
        else:
            norms = self.norm_fn(getattr(module, tensor_name).detach())
            blocks = in_blocks(norms, rows, columns)  # block, number
            inside = in_blocks(ones_like(norms), rows, columns).sum(1)
            chosen = (blocks.sum(1) / inside).argsort()[:round(sparsity_level * blocks.shape[0])]
            kept = ones_like(blocks)
            least = blocks[chosen].argsort(1)[:, :zeros_per_block]
            kept[chosen] = ones_like(blocks[chosen]).scatter(1, least, zeros_like(least).to(kept.dtype))
            mask.copy_(out_of_blocks(kept, *mask.shape, rows, columns))


def in_blocks(matrix, rows, columns):
    """The blocks of a matrix, a row each; beyond its end there is 0."""
    height, width = matrix.shape
    padded = F.pad(matrix, (0, -width % columns, 0, -height % rows))
    parts = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    return parts.permute(0, 2, 1, 3).reshape(-1, rows * columns)


def out_of_blocks(blocks, height, width, rows, columns):
    """Return the matrix that ``in_blocks`` divided into blocks; its inverse."""
    down, across = -(-height // rows), -(-width // columns)
    parts = blocks.reshape(down, across, rows, columns).permute(0, 2, 1, 3)
    return parts.reshape(down * rows, across * columns)[:height, :width]
