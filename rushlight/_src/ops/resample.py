"""Resampling of images and signals."""
from __future__ import annotations

import functools
import math

from ..core.advice import deprecated
from ..core.convert import channels_last, channels_last_3d
from ..core.dtypes import float32, float64, int64, uint8
from ..core.expr import Expr
from ..core.shape_env import estimated
from ..core.kinds import P
from ..core.meta import suggests_channels_last
from ..core.op import OPS, op, sample
from .conv import spread
from .promotion import downcast, upcast

F = "nn.functional"


def source_points(size, count, scale, align_corners):
    """Position of each output in the input, in input pixels: [count] float64."""
    k = P.iota(size=count, dtype=float64)
    if align_corners:
        return P.mul(k, (size - 1) / (count - 1) if count > 1 else 0.0)
    return P.sub(P.mul(P.add(k, 0.5), scale), 0.5)


def cubic_weights(t, a=-0.75):
    """Weights of the four nearest pixels of points at distance ``t`` past the second (Keys 1981)."""
    def near(x):
        return P.add(P.mul(P.mul(P.sub(P.mul(x, a + 2), a + 3), x), x), 1.0)

    def far(x):
        return P.sub(P.mul(P.add(P.mul(P.sub(P.mul(x, a), 5 * a), x), 8 * a), x), 4 * a)
    return [far(P.add(t, 1.0)), near(t), near(P.sub(1.0, t)), far(P.sub(2.0, t))]


def whole(points, last, low=0.0):
    """Round points down, clamped to [low, last], to indices."""
    return P.convert(P.minimum(P.maximum(P.floor(points), low), last), dtype=int64)


@op(method=False, name="_taps")
def taps_of(size, count, scale, mode, align_corners):
    """Input positions that each of ``count`` outputs reads along one dimension; if an output reads several, positions
    alternate with weights.

    ``scale``: input pixels for each output pixel (None: what the sizes say).
    """
    last, scale = estimated(size) - 1.0, size / count if scale is None else scale
    if mode == "nearest":
        return (whole(P.mul(P.iota(size=count, dtype=float32), scale), last),)
    if mode == "nearest-exact":
        return (whole(P.mul(P.add(P.iota(size=count, dtype=float64), 0.5), scale), last),)
    points = source_points(size, count, scale, align_corners)
    if mode == "linear":
        points = P.maximum(points, 0.0)
        low = P.minimum(P.floor(points), last)
        t = P.sub(points, low)
        return whole(low, last), P.sub(1.0, t), whole(P.add(low, 1.0), last), t
    low = P.floor(points)
    return tuple(v for k, w in enumerate(cubic_weights(P.sub(points, low)))
                 for v in (whole(P.add(low, k - 1.0), last), w))


def beside(input, taps):
    """Move taps to the device of the input."""
    where = input._rush_meta.device
    return taps if where.provider.on_host else tuple(v.to(where) for v in taps)


@op(method=False, name="_resampled", saves_nothing=True)
def resampled(input, taps, dim):
    """Resample one dimension as a weighted sum of elements: ``taps`` are alternating positions and weights."""
    x = upcast(input)
    if len(taps) == 1:
        return P.take(input, taps[0], dim=dim)
    shape = tuple(taps[0].shape[0] if k == dim else 1 for k in range(len(x.shape)))
    total = None
    for position, weight in zip(taps[::2], taps[1::2]):
        part = P.mul(P.take(x, position, dim=dim), P.reshape(P.convert(weight, dtype=x.dtype), shape=shape))
        total = part if total is None else P.add(total, part)
    return downcast(total, input)


def antialiased(size, count, scale, cubic):
    """Weights of every input pixel for every output pixel of one dimension: [size, count] float64."""
    import numpy as np
    from ..core.exchange import from_array
    stretch = max(scale, 1.0)
    radius = (2.0 if cubic else 1.0) * stretch
    matrix = np.zeros((count, size))
    for k in range(count):
        center = scale * (k + 0.5)
        first, last = max(int(center - radius + 0.5), 0), min(int(center + radius + 0.5), size)
        d = np.abs((np.arange(first, last) - center + 0.5) / stretch)
        if cubic:
            a = -0.5
            w = np.where(d < 1, ((a + 2) * d - (a + 3)) * d * d + 1,
                         np.where(d < 2, (((d - 5) * d + 8) * d - 4) * a, 0))
        else:
            w = np.maximum(0, 1 - d)
        matrix[k, first:last] = w / w.sum()
    return from_array(matrix.T.copy(), float64)


@op(method=False, name="_multiply_rows", saves_nothing=True)
def multiply_rows(x, matrix):
    """Multiply the rows of ``x`` by a matrix of constants."""
    return OPS["matmul"].body(x, matrix)


def by_matrix(x, matrix, at):
    """Resample one dimension as a matmul."""
    return multiply_rows(x.movedim(at, -1), matrix.to(x._rush_meta.device).to(x.dtype)).movedim(-1, at)


@op(method=False, name="_merged_taps")
def merged(taps):
    """Merge taps that read the same position: at an edge, several clamp to the last pixel."""
    positions, weights = taps[::2], list(taps[1::2])
    for k in range(1, len(weights)):
        for j in range(k):
            same = P.eq(positions[j], positions[k])
            weights[j], weights[k] = P.where(same, P.add(weights[j], weights[k]),
                                             weights[j]), P.where(same, 0.0, weights[k])
    return tuple(v for pair in zip(positions, weights) for v in pair)


@op(method=False, name="_fixed_point")
def fixed_point(weights):
    """Return the weights as integers of up to 15 bits, as float64, and the integer that represents 1: a power of 2."""
    highest = functools.reduce(P.maximum, [P.amax(w, tuple(range(len(w.shape)))) for w in weights])
    highest = P.reshape(highest, shape=())
    unit = P.exp2(P.sub(P.ceil(P.log2(P.div(2.0 ** 15 - 0.5, highest))), 1.0))
    return *(P.trunc(P.add(P.mul(w, unit), P.copysign(0.5, w))) for w in weights), unit


@op(method=False, name="_bytes_of")
def bytes_of(total, unit):
    """Round fixed-point sums to bytes, ties up."""
    return P.convert(P.minimum(P.maximum(P.floor(P.add(P.div(total, unit), 0.5)), 0.0), 255.0), dtype=uint8)


def of_bytes(x, weights, apply):
    """Return ``apply`` of bytes and weights, bitwise equal to imaging libraries: in integers that float64 represents
    exactly."""
    *fixed, unit = fixed_point(tuple(weights))
    return bytes_of(apply(x.double(), fixed), unit)


def scaled(size, factor):
    """floor(size * factor)."""
    times, parts = factor.as_integer_ratio()
    if isinstance(size, Expr) and parts <= 64:  # then the product is exact
        return size * times // parts
    return int(math.floor(int(size) * factor))


@op(composite=True, namespace=F)
def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False):
    """Resample to a size or by a factor: nearest, nearest-exact, linear, bilinear, bicubic, trilinear or area.
    Channels-last images stay channels-last."""
    out = of_another_size(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    if suggests_channels_last(input._rush_meta):
        return out.contiguous(memory_format=channels_last if input.dim() == 4 else channels_last_3d)
    return out.contiguous()  # a matmul may leave rows and columns in another order


def name_sizes(sizes) -> str:
    """Spatial sizes with their letters: "H: 4, W: 3"."""
    return ", ".join(f"{letter}: {size}" for letter, size in zip("DHW"[-len(sizes):], sizes))


def refuse_dtype(mode, input):
    """NotImplementedError for a dtype that a mode does not support."""
    raise NotImplementedError(
        f"interpolate in mode {mode} is not implemented for {input.dtype}: convert the input with .float()")


def of_another_size(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias):
    """Compute ``interpolate``."""
    rank = input.dim() - 2
    if align_corners is not None and mode in ("nearest", "area", "nearest-exact"):
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
            "trilinear")
    if (size is None) == (scale_factor is None):
        raise ValueError("only one of size or scale_factor should be defined" if size is not None
                         else "either size or scale_factor should be defined")
    for given in (size, scale_factor):
        if isinstance(given, (list, tuple)) and len(given) != rank:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {list(input.shape[2:])} and output size of {given}.")
    wanted = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}.get(mode)
    if mode not in ("nearest", "nearest-exact", "area", "linear", "bilinear", "bicubic",
                    "trilinear") or rank not in (1, 2, 3) or (wanted and wanted != rank):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.dim()}D) for the modes: nearest | "
            f"linear | bilinear | bicubic | trilinear | area | nearest-exact (got {mode})")
    if antialias and not (mode in ("bilinear", "bicubic") and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input")
    if mode.startswith("nearest") and not input.dtype.is_inexact and input.dtype is not uint8:
        refuse_dtype(mode, input)
    space = tuple(input.shape[2:])
    factors = None if scale_factor is None else tuple(scale_factor) if isinstance(scale_factor,
                                                                                  (list, tuple)) else (scale_factor,
                                                                                                       ) * rank
    if size is None:
        sizes = tuple(map(scaled, space, factors))
    else:
        sizes = tuple(s if isinstance(s, Expr) else int(s)
                      for s in (spread(size, rank, "size") if isinstance(size, (int, Expr)) else size))
    if any(s <= 0 for s in (*space, *sizes)):
        raise RuntimeError("Input and output sizes should be greater than 0, but got input "
                           f"({name_sizes(space)}){' and' if rank == 1 else ''} output ({name_sizes(sizes)})")
    # PyTorch takes as many pixels, or twice as many, whatever the factor
    if mode == "nearest" and rank == 2 and factors is not None:
        factors = tuple(count // n if count == n or count == 2 * n else f for n, count, f in zip(space, sizes, factors))
    if mode == "area":
        return OPS[f"{F}.adaptive_avg_pool{rank}d"](input, sizes)
    if mode.startswith("nearest") and all(count % n == 0 for n, count in zip(space, sizes)):
        times = tuple(count // n for n, count in zip(space, sizes))
        if factors is None or recompute_scale_factor or times == factors:
            return repeated(input, times)
    scales = (None,) * rank if factors is None or recompute_scale_factor else tuple(1.0 / f for f in factors)
    if not mode.startswith("nearest"):
        return weighted(input, sizes, scales, mode, bool(align_corners), antialias)
    out = input
    for k in range(rank):
        out = resampled(out, beside(out, taps_of(space[k], sizes[k], scales[k], mode, False)), 2 + k)
    return out


def weighted(input, sizes, scales, mode, align_corners, antialias):
    """Resample images to ``sizes``, one dimension after the other, the last one first; bytes are rounded after each."""
    stored = input.dtype is uint8 and mode in ("bilinear", "bicubic")
    if not stored and not input.dtype.is_inexact:
        refuse_dtype(mode, input)
    out, kind = input.float() if input.dtype.is_half else input, "cubic" if mode == "bicubic" else "linear"
    for at in reversed(range(2, input.dim())):
        size, count, scale = input.shape[at], sizes[at - 2], scales[at - 2]
        if stored and size == count:
            continue
        if antialias:
            weights = (antialiased(int(size), int(count), size / count if scale is None else scale, mode == "bicubic"),)
            apply = lambda x, weights: by_matrix(x, *weights, at)
        else:
            taps = beside(out, taps_of(size, count, scale, kind, align_corners))
            taps = merged(taps) if stored else taps
            positions, weights = taps[::2], taps[1::2]
            apply = lambda x, weights: resampled(x, tuple(v for pair in zip(positions, weights) for v in pair), at)
        out = of_bytes(out, weights, apply) if stored else apply(out, weights)
    return out.to(input.dtype)


@op(samples=(sample((2, 3, 2, 2), (2, 3)),), method=False, name="_repeated")
def repeated(input, times):
    """Repeat every element of the last dimensions ``times`` times, in adjacent positions."""
    rank = len(times)
    lead, space = tuple(input.shape[:-rank]), tuple(input.shape[-rank:])
    apart = P.reshape(input, shape=(*lead, *(n for size in space for n in (size, 1))))
    spread_out = P.expand(apart, shape=(*lead, *(n for pair in zip(space, times) for n in pair)))
    return P.reshape(spread_out, shape=(*lead, *(size * count for size, count in zip(space, times))))


@op(composite=True, namespace=F)
def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """``interpolate`` by its old name."""
    deprecated("nn.functional.upsample", "nn.functional.interpolate")
    return interpolate(input, size, scale_factor, mode, align_corners)


@op(composite=True, namespace=F)
def upsample_nearest(input, size=None, scale_factor=None):
    """``interpolate`` with the nearest element."""
    deprecated("nn.functional.upsample_nearest", "nn.functional.interpolate")
    return interpolate(input, size, scale_factor, "nearest")


@op(composite=True, namespace=F)
def upsample_bilinear(input, size=None, scale_factor=None):
    """``interpolate``, linear between corners."""
    deprecated("nn.functional.upsample_bilinear", "nn.functional.interpolate")
    return interpolate(input, size, scale_factor, "bilinear" if input.dim() == 4 else "trilinear", True)
