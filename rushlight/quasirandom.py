"""Quasirandom points: Sobol sequences, by Joe and Kuo's direction numbers (``new-joe-kuo-6.21201``, 2008)."""
from __future__ import annotations

import functools
import pathlib
import zlib

import numpy as np

from ._src.api import get_default_dtype
from ._src.core.exchange import from_numpy
from ._src.core.random import Generator
from ._src.ops.random import randint

__all__ = ["SobolEngine"]

BITS = 30  # of a point's coordinate
MAXDIM = 21201


@functools.cache
def numbers():
    """The primitive polynomials of dimensions 1 and up, as bits, and the first direction numbers of all of them, end to
    end.

    The file holds halved differences of the polynomials, a byte each, then the direction numbers: of the k-th of a
    dimension, which is odd and has k bits at most, the k - 1 bits above the lowest.
    """
    data = zlib.decompress(pathlib.Path(__file__).with_suffix(".bin").read_bytes())
    steps = np.frombuffer(data, np.uint8, MAXDIM - 1).astype(np.int64)
    return np.cumsum(2 * steps) + 1, np.unpackbits(np.frombuffer(data, np.uint8, offset=MAXDIM - 1))


@functools.lru_cache(maxsize=4)
def directions(dimension: int) -> np.ndarray:
    """int64 [dimension, BITS]: what flips where a bit of a point's Gray code does, the highest bit first."""
    polynomials, bits = numbers()
    table = np.ones((dimension, BITS), np.int64)
    at = 0
    for k in range(1, dimension):
        polynomial = int(polynomials[k - 1])
        degree = polynomial.bit_length() - 1
        row = []
        for width in range(min(degree, BITS)):
            row.append(1 + 2 * int.from_bytes(np.packbits(bits[at:at + width][::-1], bitorder="little").tobytes(),
                                              "little"))
            at += width
        for j in range(degree, BITS):
            value = row[j - degree] ^ (row[j - degree] << degree)
            for i in range(1, degree):
                if polynomial >> (degree - i) & 1:
                    value ^= row[j - i] << i
            row.append(value)
        table[k] = row
    return table << np.arange(BITS - 1, -1, -1)


class SobolEngine:
    """Points of a Sobol sequence in the unit cube, which fill it more evenly than random ones.

    ``dimension``: 1 to 21201; ``scramble``: random lower-triangular matrices and a random shift of the bits, from
      ``seed``
    (None: from the default generator).  ValueError for other dimensions.

    >>> import rushlight as torch
    >>> torch.quasirandom.SobolEngine(2).draw(4)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500],
            [0.2500, 0.7500]])
    """

    MAXBIT, MAXDIM = BITS, MAXDIM

    def __init__(self, dimension, scramble=False, seed=None):
        if not 1 <= dimension <= MAXDIM:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {MAXDIM}]")
        self.dimension, self.scramble, self.seed = int(dimension), scramble, seed
        state, shift = directions(self.dimension), np.zeros(self.dimension, np.int64)
        if scramble:
            state, shift = self.scrambled(state)
        self.sobolstate, self.shift = from_numpy(state), from_numpy(shift)
        self.reset()

    def scrambled(self, state):
        """The direction numbers times random matrices of bits, and a random shift."""
        generator = None if self.seed is None else Generator().manual_seed(self.seed)
        draw = lambda *shape: randint(2, shape, generator=generator).numpy()  # noqa: E731
        powers = 1 << np.arange(BITS, dtype=np.int64)
        shift = draw(self.dimension, BITS) @ powers
        lower = np.tril(draw(self.dimension, BITS, BITS), -1) + np.eye(BITS, dtype=np.int64)
        # [dimension, bit from the highest, direction]
        columns = state[:, None, :] >> np.arange(BITS - 1, -1, -1)[:, None] & 1
        mixed = lower @ columns & 1
        return (mixed * powers[::-1][:, None]).sum(1), shift

    def reset(self):
        """Restart the sequence."""
        self.quasi, self.num_generated = self.shift.clone(), 0
        return self

    def advanced(self, n: int) -> np.ndarray:
        """int64 [n + 1, dimension]: the point that is next, and the n after it."""
        at = np.arange(self.num_generated, self.num_generated + n, dtype=np.int64)
        lowest = np.frexp(~at & (at + 1))[1] - 1  # the bit of the Gray code that flips
        flips = self.sobolstate.numpy().T[lowest]
        return np.bitwise_xor.accumulate(np.concatenate([self.quasi.numpy()[None], flips]), 0)

    def fast_forward(self, n):
        """Skips n points."""
        self.quasi = from_numpy(self.advanced(n)[-1].copy())
        self.num_generated += n
        return self

    def draw(self, n=1, out=None, dtype=None):
        """Return the next n points, [n, dimension], in the default dtype unless given; written into ``out`` if given.
        """
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}, {self.dimension}]")
        points = self.advanced(n)
        self.quasi = from_numpy(points[-1].copy())
        self.num_generated += n
        made = from_numpy(points[:-1] * 2.0 ** -BITS).to(dtype or get_default_dtype())
        return made if out is None else out.resize_(made.shape).copy_(made)

    def draw_base2(self, m, out=None, dtype=None):
        """The next 2**m points.  ValueError where all that were drawn are not a power of two then, which balance
        needs."""
        n = 1 << m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"Sobol' points are balanced where their number is a power of 2: {self.num_generated} + 2**{m} = "
                f"{total} is none. Use draw() to draw them all the same.")
        return self.draw(n, out, dtype)

    def __repr__(self):
        told = [f"dimension={self.dimension}"] + ["scramble=True"] * bool(self.scramble)
        return f"SobolEngine({', '.join(told + [f'seed={self.seed}'] * (self.seed is not None))})"
