"""Functions of Triton that kernels call: each is written into a kernel that names it."""

from __future__ import annotations

import functools
import re

from ...core.failures import DIVIDED_BY_ZERO, OUT_OF_RANGE

LIBRARY = f"""
def some(x):
    return tl.max(x.to(tl.int32)) != 0
def to_whole(x):
    inside = (x >= -9223372036854775808.0) & (x < 9223372036854775808.0)
    return tl.where(inside, tl.where(inside, x, 0.0).to(tl.int64), -9223372036854775807 - 1)
def greater(x, y):
    return tl.where((x > y) | (x != x), x, y)
def lesser(x, y):
    return tl.where((x < y) | (x != x), x, y)
def both(x, y):
    return x & y
def either(x, y):
    return x | y
def multiplied(x, y):
    return x * y
def added(x, y):
    return x + y
def first_greatest(x, i, y, j):
    take = (y > x) | ((y != y) & (x == x)) | (((y == x) | ((y != y) & (x != x))) & (j < i))
    return tl.where(take, y, x), tl.where(take, j, i)
def first_least(x, i, y, j):
    take = (y < x) | ((y != y) & (x == x)) | (((y == x) | ((y != y) & (x != x))) & (j < i))
    return tl.where(take, y, x), tl.where(take, j, i)
def with_sign(x, y):
    if x.dtype == tl.float64:
        found = (x.to(tl.int64, bitcast=True) & 0x7fffffffffffffff) | (y.to(tl.int64, bitcast=True) & (-1 << 63))
        return found.to(tl.float64, bitcast=True)
    else:
        found = (x.to(tl.int32, bitcast=True) & 0x7fffffff) | (y.to(tl.int32, bitcast=True) & (-1 << 31))
        return found.to(tl.float32, bitcast=True)
def nearest(x):
    size = tl.abs(x)
    if x.dtype == tl.float64:
        return with_sign(tl.where(size < 4503599627370496.0, (size + 4503599627370496.0) - 4503599627370496.0, size), x)
    else:
        return with_sign(tl.where(size < 8388608.0, (size + 8388608.0) - 8388608.0, size), x)
def toward_zero(x):
    return with_sign(tl.floor(tl.abs(x)), x)
def fmod_float(x, y):
    b = tl.abs(y)
    r = tl.abs(x)
    odd = (x != x) | (y != y) | (b == 0) | (r == float("inf"))
    r = tl.where(odd | (b == float("inf")), 0.0, r)
    b = tl.where(odd, 1.0, b)
    while some(r >= b):
        t = tl.where(r >= b, b, 0.0)
        more = (r >= b) & (t <= r * 0.5)
        while some(more):
            t = tl.where(more, t * 2, t)
            more = (r >= b) & (t <= r * 0.5)
        r = r - t
    found = tl.where(b == float("inf"), x, with_sign(r, x))
    return tl.where(odd, float("nan"), found)
def remainder_float(x, y):
    r = fmod_float(x, y)
    return tl.where((r != 0) & ((r < 0) != (y < 0)), r + y, r)
def floor_divide_float(x, y):
    q = nearest((x - remainder_float(x, y)) / tl.where(y == 0, 1.0, y))
    return tl.where(y == 0, x / y, q)
def remainder_whole(x, y):
    none = (y == 0) | (y == -1)
    d = tl.where(none, 1, y).to(y.dtype)
    r = x % d
    r = tl.where((r != 0) & ((r < 0) != (d < 0)), r + d, r)
    return tl.where(none, 0, r).to(x.dtype)
def floor_divide_whole(x, y):
    none = (y == 0) | (y == -1)
    d = tl.where(none, 1, y).to(y.dtype)
    r = x % d
    q = x // d
    q = tl.where((r != 0) & ((r < 0) != (d < 0)), q - 1, q)
    return tl.where(y == 0, 0, tl.where(y == -1, 0 - x, q)).to(x.dtype)
def fmod_whole(x, y):
    none = (y == 0) | (y == -1)
    return tl.where(none, 0, x % tl.where(none, 1, y).to(y.dtype)).to(x.dtype)
def remainder_unsigned(x, y):
    return tl.where(y == 0, 0, x % tl.where(y == 0, 1, y).to(y.dtype)).to(x.dtype)
def floor_divide_unsigned(x, y):
    return tl.where(y == 0, 0, x // tl.where(y == 0, 1, y).to(y.dtype)).to(x.dtype)
def fmod_unsigned(x, y):
    return tl.where(y == 0, 0, x % tl.where(y == 0, 1, y).to(y.dtype)).to(x.dtype)
def place(x, size, mask, flag):
    wrong = ((x < 0) | (x >= size)) & mask
    tl.store(flag + wrong.to(tl.int32) * 0, {OUT_OF_RANGE}, mask=wrong)
    return tl.minimum(tl.maximum(x, 0), size - 1)
def divisor(x, mask, flag):
    wrong = (x == 0) & mask
    tl.store(flag + wrong.to(tl.int32) * 0, {DIVIDED_BY_ZERO}, mask=wrong)
    return tl.where(x == 0, 1, x).to(x.dtype)
def philox_words(seed, block):
    k0 = (seed & 0xffffffff).to(tl.uint32)
    k1 = (seed >> 32).to(tl.uint32)
    c0 = (block & 0xffffffff).to(tl.uint32)
    c1 = (block >> 32).to(tl.uint32)
    c2 = c0 ^ c0
    c3 = c0 ^ c0
    for _ in tl.static_range(10):
        h0 = tl.umulhi(c0, tl.full([], 0xd2511f53, tl.uint32))
        l0 = c0 * 0xd2511f53
        h1 = tl.umulhi(c2, tl.full([], 0xcd9e8d57, tl.uint32))
        l1 = c2 * 0xcd9e8d57
        c0 = h1 ^ c1 ^ k0
        c1 = l1
        c2 = h0 ^ c3 ^ k1
        c3 = l0
        k0 = k0 + 0x9e3779b9
        k1 = k1 + 0xbb67ae85
    return c0, c1, c2, c3
def philox(seed, offset, at):
    block = ((at >> 2) + offset).to(tl.uint64, bitcast=True)
    c0, c1, c2, c3 = philox_words((seed + at * 0).to(tl.uint64, bitcast=True), block)
    which = at & 3
    found = tl.where(which > 1, tl.where(which == 3, c3, c2), tl.where(which == 1, c1, c0))
    return found.to(tl.int64)
def levels(word, threshold):
    low = ((word & 0xffff).to(tl.int32) >= threshold).to(tl.int8)
    return tl.join(low, ((word >> 16).to(tl.int32) >= threshold).to(tl.int8))
def kept_bits(seed, block, threshold, BM, BN):
    whole = (seed + block * 0).to(tl.uint64, bitcast=True)
    c0, c1, c2, c3 = philox_words(whole, block.to(tl.uint64, bitcast=True))
    first = tl.join(levels(c0, threshold), levels(c1, threshold))
    found = tl.join(first, tl.join(levels(c2, threshold), levels(c3, threshold)))
    return tl.reshape(tl.permute(found, (0, 4, 3, 2, 1)), (BM, BN)) != 0
def turned_bits(seed, block, threshold, BM, BN):
    return tl.trans(kept_bits(seed, block, threshold, BM, BN).to(tl.int8)) != 0
"""


@functools.cache
def library() -> dict:
    """{name: text} of all functions."""
    parts = re.split(r"(?m)^(?=def )", LIBRARY)
    return {re.match(r"def (\w+)", part)[1]: part for part in parts if part.startswith("def ")}


def called_in(text: str) -> str:
    """The functions that a text names, with those that they name."""
    found, waiting = set(), [text]
    while waiting:
        for name in re.findall(r"\b(\w+)\b", waiting.pop()):
            if name in library() and name not in found:
                found.add(name)
                waiting.append(library()[name])
    return "\n\n".join(f"@triton.jit\n{library()[name]}" for name in library() if name in found)
