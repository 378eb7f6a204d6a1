"""Fourier transforms of a few complex elements, each a pair of vectors, and interleaving of the results."""

import math


def transform(b, given):
    """sum_j given[j] exp(-2 pi i j k / n) for each k: for even n from the even and odd elements (Cooley & Tukey 1965),
    for odd n from sums and differences."""
    n = len(given)
    if n == 1:
        return given
    if n % 2:
        return _odd(b, given)
    even, odd = transform(b, given[::2]), transform(b, given[1::2])
    odd = [turned(b, v, k, n) for k, v in enumerate(odd)]
    return [plus(b, v, w) for v, w in zip(even, odd)] + [minus(b, v, w) for v, w in zip(even, odd)]


def plus(b, v, w):
    return b.add(v[0], w[0]), b.add(v[1], w[1])


def minus(b, v, w):
    return b.sub(v[0], w[0]), b.sub(v[1], w[1])


def times(b, v, w):
    """The product of complex numbers."""
    return b.fma(v[0], w[0], b.neg(b.mul(v[1], w[1]))), b.fma(v[0], w[1], b.mul(v[1], w[0]))


def turned(b, v, k, n):
    """v exp(-2 pi i k / n) for 2 k < n, in the least number of operations."""
    re, im = v
    if not k:
        return v
    if 4 * k == n:
        return im, b.neg(re)
    if 8 * k in (n, 3 * n):
        total, rest = b.mul(b.add(re, im), math.sqrt(0.5)), b.mul(b.sub(im, re), math.sqrt(0.5))
        return (total, rest) if 8 * k == n else (rest, b.neg(total))
    cos, sin = math.cos(2 * math.pi * k / n), -math.sin(2 * math.pi * k / n)
    return b.sub(b.mul(re, cos), b.mul(im, sin)), b.add(b.mul(re, sin), b.mul(im, cos))


def _odd(b, given):
    n, first = len(given), given[0]
    pairs = [(given[j], given[n - j]) for j in range(1, n // 2 + 1)]
    sums, differences = [plus(b, *p) for p in pairs], [minus(b, *p) for p in pairs]
    out = [first] + [None] * (n - 1)
    for t in sums:
        out[0] = plus(b, out[0], t)
    for k in range(1, n // 2 + 1):
        even, odd = first, None
        for j, (t, u) in enumerate(zip(sums, differences), 1):
            cos, sin = math.cos(2 * math.pi * j * k / n), math.sin(2 * math.pi * j * k / n)
            even = plus(b, even, (b.mul(t[0], cos), b.mul(t[1], cos)))
            part = b.mul(u[0], sin), b.mul(u[1], sin)
            odd = part if odd is None else plus(b, odd, part)
        turn = odd[1], b.neg(odd[0])
        out[k], out[n - k] = plus(b, even, turn), minus(b, even, turn)
    return out


def side_by_side(b, vectors, size):
    """Interleave vectors in chunks of `size` lanes: first chunks of all, then second ones, and so on. The number of
    vectors is a power of two."""
    if len(vectors) == 1:
        return vectors
    even, odd = side_by_side(b, vectors[::2], size), side_by_side(b, vectors[1::2], size)
    return [half for v, w in zip(even, odd) for half in alternating(b, v, w, size)]


def alternating(b, v, w, size):
    """Interleave chunks of two vectors; yield two vectors."""
    lanes = v.type.lanes
    for half in range(2):
        found = []
        for at in range(half * lanes, (half + 1) * lanes):
            chunk, within = divmod(at, size)
            found.append(chunk // 2 * size + within + lanes * (chunk % 2))
        yield b.shuffle(v, w, found)


def parted(b, low, high):
    """Separate the interleaved pairs of two vectors: the first elements, and the second ones."""
    lanes = low.type.lanes
    return b.shuffle(low, high, list(range(0, 2 * lanes, 2))), b.shuffle(low, high, list(range(1, 2 * lanes, 2)))


def reversed_lanes(b, v):
    return b.shuffle(v, None, list(reversed(range(v.type.lanes))))
