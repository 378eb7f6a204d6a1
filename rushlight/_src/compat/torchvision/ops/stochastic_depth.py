"""Dropout of entire branches and blocks."""
from __future__ import annotations

import math

import rushlight as torch
from rushlight import nn

__all__ = ["DropBlock2d", "StochasticDepth", "drop_block2d", "stochastic_depth"]


def stochastic_depth(input, p, mode, training=True):
    """Zeros with probability p, for each row ("row") or the whole batch ("batch"); the rest scaled up (Huang et al.
    2016)."""
    if not 0 <= p <= 1:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}")
    if mode not in ("batch", "row"):
        raise ValueError(f"mode has to be either 'batch' or 'row', but got {mode}")
    if not training or p == 0:
        return input
    size = [input.shape[0] if mode == "row" else 1] + [1] * (input.ndim - 1)
    noise = torch.bernoulli(torch.full(size, 1.0 - p, dtype=input.dtype))
    return input * (noise / (1 - p) if p < 1 else noise)


def dropped(input, p, block_size, inplace, eps, training, dims):
    """Zeros in blocks of ``dims`` dimensions."""
    if not training or p == 0:
        return input
    sizes = input.shape[-dims:]
    block = min(block_size, *sizes)
    starts = [size - block + 1 for size in sizes]
    gamma = p * math.prod(sizes) / (block ** dims * math.prod(starts))
    noise = torch.bernoulli(torch.full((*input.shape[:2], *starts), gamma, dtype=input.dtype))
    noise = nn.functional.pad(noise, [block // 2] * 2 * dims, value=0)
    keep = 1 - getattr(nn.functional, f"max_pool{dims}d")(noise, stride=1, kernel_size=block, padding=block // 2)
    keep = keep[(..., *(slice(size) for size in sizes))]
    scale = keep.numel() / (eps + keep.sum())
    return input.mul_(keep).mul_(scale) if inplace else input * keep * scale


def drop_block2d(input, p, block_size, inplace=False, eps=1e-6, training=True):
    """Zeros in square blocks of [n, c, h, w] (Ghiasi, Lin and Le 2018)."""
    return dropped(input, p, block_size, inplace, eps, training, 2)


def drop_block3d(input, p, block_size, inplace=False, eps=1e-6, training=True):
    """Zeros in cubes of [n, c, d, h, w]."""
    return dropped(input, p, block_size, inplace, eps, training, 3)


class StochasticDepth(nn.Module):
    """``stochastic_depth`` as a module."""

    def __init__(self, p, mode):
        super().__init__()
        self.p, self.mode = p, mode

    def forward(self, input):
        return stochastic_depth(input, self.p, self.mode, self.training)

    def __repr__(self):
        return f"{type(self).__name__}(p={self.p}, mode={self.mode})"


class DropBlock2d(nn.Module):
    """``drop_block2d`` as a module."""

    def __init__(self, p, block_size, inplace=False, eps=1e-6):
        super().__init__()
        self.options = p, block_size, inplace, eps

    def forward(self, input):
        return drop_block2d(input, *self.options, training=self.training)


class DropBlock3d(DropBlock2d):
    """``drop_block3d`` as a module."""

    def forward(self, input):
        return drop_block3d(input, *self.options, training=self.training)
