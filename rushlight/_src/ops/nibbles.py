"""Packed int4 weights, and matmul by them.

A row of a weight matrix belongs to an output.  Blocks of 64 rows are stored one after the other, each along k: 32 bytes
for every k, with row i in the low bits and row i + 32 in the high bits.  If the last block has fewer rows, its bytes
hold row 2 i and row 2 i + 1.  An integer q from 0 to 15 represents (q - 8) * scale + zero; each group of adjacent k
shares a scale and a zero.
"""
from __future__ import annotations

import numpy as np

from ..core.dtypes import float32, int32, uint8
from ..core.kinds import Foreign, P
from ..core.op import op
from .prims.primitive import primitive
from .promotion import upcast

BLOCK, MIDDLE = 64, 8
GROUPS = (32, 64, 128, 256)


def unpacked(weight):
    """Unpack int4 values: bytes [n, k / 2] -> int32 [k, n]."""
    n, depth = weight.shape[0], 2 * weight.shape[1]
    words = P.reshape(P.convert(weight, dtype=int32), shape=(n * depth // 2,))
    parts, blocks, rest = [], n // BLOCK, n % BLOCK
    for start, stop, shape in ((0, n - rest, (blocks, depth, BLOCK // 2)), (n - rest, n, (depth, rest // 2))):
        if start == stop:
            continue
        found = P.reshape(P.slice(words, starts=(start * depth // 2,), steps=(1,),
                                  shape=((stop - start) * depth // 2,)), shape=shape)
        low, high = P.bitwise_and(found, 15), P.right_shift(found, 4)
        if start or not blocks:
            both = P.cat(tuple(P.reshape(x, shape=(*shape, 1)) for x in (low, high)), dim=2)
        else:
            both = P.permute(P.cat((low, high), dim=2), dims=(1, 0, 2))
        parts.append(P.reshape(both, shape=(depth, stop - start)))
    return parts[0] if len(parts) == 1 else P.cat(tuple(parts), dim=1)


def weights(weight, scales):
    """Dequantized weights [k, n] of [n, k / 2] bytes, with [groups, n, 2] scales and zeros."""
    q = P.convert(P.sub(unpacked(weight), MIDDLE), dtype=float32)
    groups, n, depth = scales.shape[0], weight.shape[0], q.shape[0]
    grouped = P.reshape(q, shape=(groups, depth // groups, n))
    scale, zero = (P.reshape(P.slice(upcast(scales), starts=(0, 0, which), steps=(1, 1, 1), shape=(groups, n, 1)),
                             shape=(groups, 1, n)) for which in range(2))
    scale, zero = (P.expand(x, shape=tuple(grouped.shape)) for x in (scale, zero))
    return P.reshape(P.add(P.mul(grouped, scale), zero), shape=(depth, n))


def product_numpy(x, weight, scales):
    n, depth = weight.shape[0], 2 * weight.shape[1]
    q = np.empty((depth, n), np.float32)
    whole, flat = n - n % BLOCK, weight.reshape(-1)
    if whole:
        found = flat[:whole * depth // 2].reshape(whole // BLOCK, depth, BLOCK // 2)
        q[:, :whole] = np.concatenate([found & 15, found >> 4], 2).transpose(1, 0, 2).reshape(depth, whole)
    if n > whole:
        found = flat[whole * depth // 2:].reshape(depth, (n - whole) // 2)
        q[:, whole:] = np.stack([found & 15, found >> 4], 2).reshape(depth, n - whole)
    groups = len(scales)
    scale, zero = (np.repeat(scales[:, :, which].astype(np.float32), depth // max(groups, 1), 0) for which in range(2))
    return x @ ((q - MIDDLE) * scale + zero)


primitive("nibble_matmul",
          Foreign(product_numpy, lambda x, weight, scales: x.like((x.shape[0], weight.shape[0]), None, float32),
                  lambda g, y, x, weight, scales: [P.matmul(g, P.permute(weights(weight, scales), dims=(1, 0))), None,
                                                   None]),
          lambda x, weight, scales: 0, arity=3,
          doc="[m, k] times packed weights of four bits [n, k / 2], with scales and zeros [groups, n, 2] of the same "
              "dtype -> float32 [m, n].")


@op(autocast=None, method=False)
def _convert_weight_to_int4pack_for_cpu(input, innerKTiles):
    """Pack integers from 0 to 15, [n, k] of int32, for `_weight_int4pack_mm_for_cpu`: [n, k / 2] of bytes.
    `innerKTiles` has no effect.

    RuntimeError for another dtype or rank, unless n is a multiple of 16 and k of 2.

    Example:
        >>> import rushlight as torch
        >>> torch._convert_weight_to_int4pack_for_cpu(torch.arange(32, dtype=torch.int32).reshape(16, 2) % 16, 2)[0]
        tensor([32], dtype=torch.uint8)
    """
    name = "_convert_weight_to_int4pack_cpu"
    if input.dtype is not int32:
        raise RuntimeError(f"{name}: expect weight to be kInt, but it is {input.dtype}")
    if len(input.shape) != 2:
        raise RuntimeError(f"{name}: expect weight to be 2D tensor, but its shape is {list(input.shape)}")
    n, depth = input.shape
    if n % 16 or depth % 2:
        raise RuntimeError(f"{name}: expect N to be dividable by 16 and K by 2, but the weight is {n} x {depth}")
    parts, rest = [], n % BLOCK
    for start, stop in ((0, n - rest), (n - rest, n)):
        if start == stop:
            continue
        found = P.slice(input, starts=(start, 0), steps=(1, 1), shape=(stop - start, depth))
        blocks, side = ((stop - start) // BLOCK, BLOCK // 2) if stop - start >= BLOCK else (1, (stop - start) // 2)
        if stop - start < BLOCK:
            found = P.permute(P.reshape(found, shape=(1, side, 2, depth)), dims=(0, 2, 1, 3))
        found = P.reshape(found, shape=(blocks, 2, side, depth))
        low, high = (P.reshape(P.slice(found, starts=(0, which, 0, 0), steps=(1, 1, 1, 1),
                                       shape=(blocks, 1, side, depth)), shape=(blocks, side, depth))
                     for which in range(2))
        both = P.bitwise_and(P.bitwise_or(low, P.left_shift(high, 4)), 255)
        parts.append(P.reshape(P.permute(both, dims=(0, 2, 1)), shape=(stop - start, depth // 2)))
    if not parts:
        return P.full(shape=(n, depth // 2), value=0, dtype=uint8)
    return P.convert(parts[0] if len(parts) == 1 else P.cat(tuple(parts), dim=0), dtype=uint8)


@op(autocast=None, method=False)
def _weight_int4pack_mm_for_cpu(input, mat2, qGroupSize, qScaleAndZeros):
    """input @ w.T with int4 weights: w = (q - 8) * scale + zero, with a scale and a zero for each group of
    `qGroupSize` along k.

    [m, k] of float32 or 16-bit floats, [n, k / 2] of uint8 as `_convert_weight_to_int4pack_for_cpu` packs them, [k /
    qGroupSize, n, 2] of input's dtype -> [m, n].  Sums are float32, rounded once; with more than 16 bfloat16 rows the
    weights may be rounded to bfloat16, too.  RuntimeError for other dtypes, shapes, and groups that are not of 32, 64,
    128 or 256.

    Example:
        >>> import rushlight as torch
        >>> weight = torch._convert_weight_to_int4pack_for_cpu(torch.full((16, 32), 9, dtype=torch.int32), 2)
        >>> torch._weight_int4pack_mm_for_cpu(torch.ones(1, 32), weight, 32, torch.ones(1, 16, 2))[0, :3]
        tensor([64., 64., 64.])
    """
    name = "_weight_int4pack_mm_cpu"
    if input.dtype is not float32 and not input.dtype.is_half:
        raise RuntimeError(f"{name}: expect A to be either 32-bit or 16-bit float tensor, but it is {input.dtype}")
    if mat2.dtype is not uint8:
        raise RuntimeError(f"{name}: expect B to be uint8 tensor, but it is {mat2.dtype}")
    if len(input.shape) != 2 or len(mat2.shape) != 2 or input.shape[1] != 2 * mat2.shape[1]:
        raise RuntimeError(
            f"{name}: expect A [m, k] and B [n, k / 2], but they have the shapes {list(input.shape)} and "
            f"{list(mat2.shape)}")
    if mat2.shape[0] % 16:
        raise RuntimeError(f"{name}: expect B.size(0) to be dividable by 16, but it is {mat2.shape[0]}")
    if qGroupSize not in GROUPS:
        raise RuntimeError(f"{name}: expect qGroupSize to be 32, 64, 128 or 256, got {qGroupSize}")
    if len(qScaleAndZeros.shape) != 3 or tuple(qScaleAndZeros.shape[1:]) != (mat2.shape[0],
                                                                             2) or qScaleAndZeros.shape[
                                                                                 0] * qGroupSize != input.shape[1]:
        raise RuntimeError(
            f"{name}: expect qScaleAndZeros to be 3d tensor with sizes [{input.shape[1] // qGroupSize}, "
            f"{mat2.shape[0]}, 2], "
            f"but its shape is {list(qScaleAndZeros.shape)}")
    if qScaleAndZeros.dtype is not input.dtype:
        raise RuntimeError(f"{name}: expected qScaleAndZeros of {input.dtype}, but they are {qScaleAndZeros.dtype}")
    out = P.nibble_matmul(input, mat2, qScaleAndZeros)
    return out if out.dtype is input.dtype else P.convert(out, dtype=input.dtype)
