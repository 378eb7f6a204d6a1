"""Max pooling over windows with pseudo-random starts (Graham 2014)."""
from __future__ import annotations

import math

import numpy as np

from ..core.exchange import computed, values_of
from ..core.op import OPS, op
from .conv import spread
from .pool import precise

F = "nn.functional"


def starts(size, out, kernel, u):
    """Start of each window, for each sample u of [n, c]: [n, c, out]."""
    if out == 1:
        return np.full((*u.shape, 1), size - kernel)
    step = (size - kernel) / (out - 1)
    k = np.arange(out)
    at = ((k + u[..., None]) * step).astype(np.int64) - (u[..., None] * step).astype(np.int64)
    at[..., -1] = size - kernel
    return at


def sizes_wanted(name, x, rank, output_size, output_ratio):
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is not None:
        return spread(output_size, rank, "output_size")
    ratio = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * rank
    if not all(0 < r < 1 for r in ratio):
        raise ValueError(f"{name}: output_ratio must be between 0 and 1, got {output_ratio}")
    return tuple(int(n * r) for n, r in zip(x.shape[2:], ratio))


def check_samples(samples, n, c, rank):
    """RuntimeError unless random samples are [at least n, c, rank]."""
    if samples.dim() != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions; got {samples.dim()}")
    if samples.size(0) < n:
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if samples.size(1) != c:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if samples.size(2) != rank:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {rank}; got {samples.size(2)}.")


def pooling(rank):
    name = f"fractional_max_pool{rank}d"

    def body(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        if input.dim() not in (rank + 1, rank + 2):
            raise RuntimeError(f"{name}: Expected {rank + 1}D or {rank + 2}D tensor, but got: {list(input.shape)}")
        x = input.unsqueeze(0) if input.dim() == rank + 1 else input
        kernel, out = spread(kernel_size, rank, "kernel_size"), sizes_wanted(name, x, rank, output_size, output_ratio)
        for n, k, o in zip(x.shape[2:], kernel, out):
            if o + k - 1 > n or o < 1:
                raise RuntimeError(f"{name}(): pool size {k} with output size {o} too large relative to input size {n}")
        n, c = x.shape[:2]
        if 0 in x.shape[1:]:
            raise RuntimeError(f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got "
                               f"{list(x.shape)}")
        if _random_samples is not None:
            check_samples(_random_samples, n, c, rank)
        given = _random_samples if _random_samples is not None else OPS["rand"](n, c, rank)
        u = np.zeros((n, c, rank)) if x.is_meta else values_of(given.detach())[:n].astype(np.float64)
        u = u[..., ::-1] if rank == 2 else u  # PyTorch draws the width first in two dimensions
        position = np.zeros((n, c) + (1,) * (2 * rank), np.int64)
        for d in range(rank):
            places = starts(x.shape[2 + d], out[d], kernel[d], u[..., d])[..., None] + np.arange(kernel[d])
            shape = [n, c] + [1] * (2 * rank)
            shape[2 + d], shape[2 + rank + d] = out[d], kernel[d]
            position = position * x.shape[2 + d] + places.reshape(shape)
        cells = computed(position.reshape(n, c, math.prod(out) * math.prod(kernel)))
        window = (n, c, *out, math.prod(kernel))
        seen = x.reshape(n, c, math.prod(x.shape[2:])).gather(2, cells).reshape(window)
        values, best = OPS["max"](seen, -1)
        indices = cells.reshape(window).gather(-1, best.unsqueeze(-1)).squeeze(-1)
        if input.dim() == rank + 1:
            values, indices = values.squeeze(0), indices.squeeze(0)
        return (values, indices) if return_indices else values

    body.__name__, body.__doc__ = (
        name, "The largest element of windows that start at pseudo-random places: [n, c, *space] -> [n, c, *out].")
    made = op(body, composite=True, namespace=F, autocast=precise(rank))

    def with_indices(input, kernel_size, output_size=None, output_ratio=None, return_indices=True,
                     _random_samples=None):
        return made(input, kernel_size, output_size, output_ratio, True, _random_samples)

    with_indices.__name__, with_indices.__doc__ = f"{name}_with_indices", "The same, and where each element was found."
    op(with_indices, composite=True, namespace=F)
    return made


fractional_max_pool2d, fractional_max_pool3d = pooling(2), pooling(3)
