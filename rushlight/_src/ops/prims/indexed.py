"""Primitives that read or write at indices, and those that generate elements: constants, counts, random bits."""
from __future__ import annotations

import numpy as np

from ...core.dtypes import int64
from ...core.kinds import Create, Gather, P, Scatter
from ...core.meta import product
from .primitive import primitive


# --- gather and scatter -----------------------------------------------------------------------------------------------
def checked(index, size):
    if index.size and (index.min() < 0 or index.max() >= size):
        wrong = int(index.min()) if index.min() < 0 else int(index.max())
        raise IndexError(f"index {wrong} is out of bounds for dimension with size {size}")
    return index


def gather_numpy(x, index, dim):
    checked(index, x.shape[dim])
    grid = np.ogrid[tuple(np.s_[:n] for n in index.shape)]
    return x[tuple(index if k == dim else grid[k] for k in range(x.ndim))] if index.ndim else x[index] if x.ndim else x


def zeros_like(x, dtype):
    return P.full(shape=tuple(x.shape), value=0, dtype=dtype)


take = primitive("take", Gather(
    lambda x, index, dim: np.take(x, checked(index, x.shape[dim]), dim), lambda s, i, dim: (*s[:dim], *i, *s[dim + 1:]),
    lambda g, x, index, dim: P.put(zeros_like(x, g.dtype), index, g, dim=dim, combine="add")), lambda x, index, dim: 0)
gather = primitive("gather", Gather(
    gather_numpy, lambda s, i, dim: tuple(i),
    lambda g, x, index, dim: P.scatter(zeros_like(x, g.dtype), index, g, dim=dim, combine="add")),
                   lambda x, index, dim: 0)

COMBINE = {"add": np.add.at, "mul": np.multiply.at, "max": np.maximum.at, "min": np.minimum.at,
           "set": lambda o, k, v: o.__setitem__(k, v)}


def scatter_numpy(x, index, source, dim, combine):
    checked(index, x.shape[dim])
    out = np.array(x)
    grid = np.ogrid[tuple(np.s_[:n] for n in index.shape)]
    key = tuple(index if k == dim else grid[k] for k in range(x.ndim))
    COMBINE[combine](out, key, source[tuple(np.s_[:n] for n in index.shape)])
    return out


def put_numpy(x, index, source, dim, combine):
    checked(index, x.shape[dim])
    out = np.array(x)
    COMBINE[combine](out, (np.s_[:],) * dim + (index,), source)
    return out


scatter = primitive("scatter", Scatter(scatter_numpy, lambda g, index, dim: P.gather(g, index, dim=dim)),
                    lambda x, index, source, dim, combine: 0)
put = primitive("put", Scatter(put_numpy, lambda g, index, dim: P.take(g, index, dim=dim)),
                lambda x, index, source, dim, combine: 0)


# --- creation ---------------------------------------------------------------------------------------------------------
def full_numpy(shape, value, dtype):
    return np.full(shape, value, np.float32 if dtype.is_half else dtype.numpy)


full = primitive("full", Create(full_numpy, lambda shape, value, dtype: (shape, dtype)), lambda shape, value, dtype: 0)
iota = primitive("iota", Create(lambda size, dtype: np.arange(size, dtype=np.float32 if dtype.is_half else dtype.numpy),
                                lambda size, dtype: ((size,), dtype)), lambda size, dtype: 0)


def philox(seed: int, offset: int, count: int) -> np.ndarray:
    """``count`` 32-bit words of the Philox4x32-10 stream (Salmon et al. 2011): word k of block ``offset + k // 4``."""
    blocks = np.arange(offset, offset + (count + 3) // 4, dtype=np.uint64)
    c0, c1 = blocks & 0xFFFFFFFF, blocks >> np.uint64(32)
    c2, c3 = np.zeros_like(c0), np.zeros_like(c0)
    k0, k1 = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32 & 0xFFFFFFFF)
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (p1 >> shift) ^ c1 ^ k0, p1 & low, (p0 >> shift) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return np.stack([c0, c1, c2, c3], -1).reshape(-1)[:count].astype(np.uint32)


random_bits = primitive("random_bits", Create(
    lambda seed, offset, shape: philox(int(seed), int(offset), product(shape)).astype(np.int64).reshape(shape),
    lambda shape: (shape, int64)), lambda seed, offset, shape: 0, arity=2,
    doc="Uniform 32-bit integers, held as int64, from the counter-based stream: element k is word k from block "
        "`offset`.")
