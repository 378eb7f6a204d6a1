"""Dropout of attention weights: the counter-based RNG stream determines which are kept, so that no mask is stored.

A probability is a ``level`` here, an int: 16-bit numbers below it drop their weight. It may be a symbol, so that one
plan serves all probabilities.

A tile of 8 queries and 16 keys takes 16 blocks of the stream, one a key; each of the eight 16-bit numbers of a block
belongs to a query. A head has its tiles row by row, then come those of the next head.
"""
from __future__ import annotations

import numpy as np

from ..core.kinds import P
from .prims.indexed import philox

QUERIES, KEYS = 8, 16  # of a tile
LEVELS = 1 << 16  # numbers that a probability is rounded to


def level_of(p: float) -> int:
    """Return the level below which a 16-bit random number drops its weight, for a probability."""
    return round(p * LEVELS)


def larger(level):
    """Factor of the kept weights."""
    left = LEVELS - level
    return LEVELS / left if left else 0.0


def tiles(queries, keys):
    """(tiles over the queries, tiles over the keys) of a head."""
    return -(-queries // QUERIES), -(-keys // KEYS)


def blocks_drawn(heads, queries, keys):
    """Number of RNG stream blocks that ``heads`` heads of all examples draw."""
    tall, wide = tiles(queries, keys)
    return heads * tall * wide * KEYS


def within(queries, keys, row, column):
    """Position of a part of a head that begins at a row and a column of ``queries`` by ``keys`` weights: ((the head's
    tiles over the queries, over the keys, rows of the part's first tile above it, columns left of it), blocks of the
    RNG stream before that tile).

    >>> within(64, 64, 8, 16), within(64, 64, 12, 20)
    (((8, 4, 0, 0), 80), ((8, 4, 4, 4), 80))
    """
    tall, wide = tiles(queries, keys)
    (down, above), (across, left) = divmod(row, QUERIES), divmod(column, KEYS)
    return (tall, wide, above, left), (down * wide + across) * KEYS


def factors_numpy(shape, keys, seed, place, level, part=()):
    """Factors by which dropout multiplies weights [n, h, l, s], for the shape (n, h, l); 1 without dropout.  ``part``:
    their position in larger heads, from ``within``."""
    if not level:
        return np.float32(1)
    n, h, queries = shape
    tall, wide, above, left = part or (*tiles(queries, keys), 0, 0)
    words = philox(int(seed), int(place), 4 * n * h * tall * wide * KEYS)
    levels = np.stack([words & 0xFFFF, words >> 16], -1).reshape(n, h, tall, wide, KEYS, QUERIES)
    levels = levels.transpose(0, 1, 2, 5, 3, 4).reshape(n, h, tall * QUERIES, wide * KEYS)
    levels = levels[:, :, above:above + queries, left:left + keys]
    return np.where(levels < level, np.float32(0), np.float32(larger(level)))


def dropper(shape, keys, seed, place, level, part=()):
    """Return a function that multiplies weights [n, h, l, s] by those factors, in primitives."""
    if not level:
        return lambda x: x
    n, h, queries = shape
    tall, wide, above, left = part or (*tiles(queries, keys), 0, 0)
    words = P.random_bits(seed, place, shape=(n, h, tall, wide, KEYS, QUERIES // 2, 1))
    levels = P.cat((P.bitwise_and(words, LEVELS - 1), P.right_shift(words, 16)), dim=6)
    levels = P.permute(P.reshape(levels, shape=(n, h, tall, wide, KEYS, QUERIES)), dims=(0, 1, 2, 5, 3, 4))
    levels = P.reshape(levels, shape=(n, h, tall * QUERIES, wide * KEYS))
    levels = P.slice(levels, starts=(0, 0, above, left), steps=(1, 1, 1, 1), shape=(n, h, queries, keys))
    kept = P.ge(levels, level)
    return lambda x: P.where(kept, P.mul(x, larger(level)), 0.0)
