"""Sampling at grid points (Jaderberg et al. 2015): grids of affine maps, and interpolation of images."""
from __future__ import annotations

from ..core.advice import warn
from ..core.dtypes import int64
from ..core.kinds import P
from ..core.meta import product
from ..core.op import OPS, op, sample
from .promotion import downcast, upcast

F = "nn.functional"
MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def warn_of_corners(name, align_corners):
    """Warn that the default has changed: what a call without ``align_corners`` means depends on the version."""
    if align_corners is None:
        warn(f"{name}: align_corners=False is the default since PyTorch 1.3. Pass align_corners=True or False.")


@op(composite=True, namespace=F)
def affine_grid(theta, size, align_corners=None):
    """Points (x, y[, z]) in [-1, 1] to which affine maps theta [n, 2, 3] or [n, 3, 4] take an output of ``size``: [n,
    h, w, 2] or [n, d, h, w, 3]."""
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    warn_of_corners("affine_grid", align_corners)
    rank = len(size) - 2
    if rank not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
            f"{tuple(size)}")
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != (rank, rank + 1):
        raise ValueError(
            f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size {tuple(size)}. Got "
            f"{theta.shape}.")
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    axes = []
    for k, count in enumerate(reversed(size[2:])):
        places = OPS["linspace"](-1.0, 1.0, count, dtype=theta.dtype) if count > 1 else theta.new_zeros(1)
        places = places if align_corners else places * ((count - 1) / count)
        axes.append(places.reshape([-1 if j == rank - 1 - k else 1 for j in range(rank)]).expand(tuple(size[2:])))
    points = OPS["stack"]([*axes, theta.new_ones(tuple(size[2:]))], -1).reshape(1, -1, rank + 1)
    return (points.expand((theta.size(0), *points.shape[1:])) @ theta.mT).reshape((size[0], *size[2:], rank))


def folded(x, low, high):
    """Positions reflected at both ends until they lie between them."""
    if low == high:
        return P.mul(x, 0)
    span = high - low
    away = P.abs(P.sub(x, low))
    rest = P.fmod(away, span)
    turns = P.floor(P.div(away, span))
    even = P.eq(P.fmod(turns, 2.0), 0)
    return P.where(even, P.add(rest, low), P.sub(span + low, rest))


def unnormalised(x, size, align_corners):
    """Convert points in [-1, 1] to positions among ``size`` elements."""
    return P.mul(P.div(P.add(x, 1.0), 2.0),
                 size - 1.0) if align_corners else P.div(P.sub(P.mul(P.add(x, 1.0), size * 1.0), 1.0), 2.0)


def inside(x, size, padding, align_corners):
    """Move positions into the image by the padding mode (zeros: unchanged)."""
    if padding == "border":
        return clipped(x, size)
    if padding == "reflection":
        x = folded(x, 0.0, size - 1.0) if align_corners else folded(x, -0.5, size - 0.5)
        return clipped(x, size)
    return x


def clipped(x, size):
    """Clamp to the image, without a gradient outside."""
    return P.where(P.le(x, 0.0), 0.0, P.where(P.ge(x, size - 1.0), size - 1.0, x))


class Image:
    """An image [n, c, *space] read at positions: lists of one integer tensor [n, *out] for each dimension."""

    def __init__(self, x):
        self.shape, self.space = tuple(x.shape), tuple(x.shape[2:])
        self.flat = P.reshape(x, shape=(*x.shape[:2], product(self.space)))

    def at(self, places):
        """The elements, zero outside the image: [n, c, *out]."""
        valid, position = None, None
        for i, size in zip(places, self.space):
            within = P.logical_and(P.ge(i, 0.0), P.le(i, size - 1.0))
            valid = within if valid is None else P.logical_and(valid, within)
            index = P.convert(P.where(within, i, 0.0), dtype=int64)
            position = index if position is None else P.add(P.mul(position, size), index)
        out = tuple(places[0].shape[1:])
        n, c = self.shape[:2]
        position = P.reshape(position, shape=(n, 1, product(out)))
        found = P.gather(self.flat, P.expand(position, shape=(n, c, product(out))), dim=2)
        found = P.reshape(found, shape=(n, c, *out))
        return P.where(P.reshape(valid, shape=(n, 1, *out)), found, 0.0)


def over_channels(weight):
    return P.reshape(weight, shape=(weight.shape[0], 1, *weight.shape[1:]))


def linear_sample(image, places):
    """Linear interpolation: each corner of the cell, weighted by the volume opposite to it."""
    base = [P.floor(x) for x in places]
    rest = [P.sub(x, b) for x, b in zip(places, base)]
    total = None
    for corner in range(1 << len(places)):
        high = [corner >> k & 1 for k in range(len(places))]
        weight = None
        for bit, r in zip(high, rest):
            part = r if bit else P.sub(1.0, r)
            weight = part if weight is None else P.mul(weight, part)
        value = P.mul(image.at([P.add(b, float(bit)) for b, bit in zip(base, high)]), over_channels(weight))
        total = value if total is None else P.add(total, value)
    return total


def cubic_weights(t, a=-0.75):
    """Weights of the four adjacent elements at -1, 0, 1, 2 of a point t in [0, 1) (Keys 1981), in a form whose terms do
    not cancel."""
    def near(s):
        return P.add(P.mul(P.mul(P.sub(P.mul(s, a + 2), a + 3), s), s), 1.0)

    rest = P.sub(1.0, t)
    both = P.mul(P.mul(t, rest), a)
    return P.mul(both, rest), near(t), near(rest), P.mul(both, t)


def cubic_sample(image, places, padding, align_corners):
    """Cubic interpolation of sixteen elements, each moved into the image separately."""
    base = [P.floor(x) for x in places]
    weights = [cubic_weights(P.sub(x, b)) for x, b in zip(places, base)]
    total = None
    for i in range(4):
        row = None
        for j in range(4):
            at = [inside(P.add(b, k - 1.0), size, padding, align_corners)
                  for b, k, size in zip(base, (i, j), image.space)]
            value = P.mul(image.at(at), over_channels(weights[1][j]))
            row = value if row is None else P.add(row, value)
        row = P.mul(row, over_channels(weights[0][i]))
        total = row if total is None else P.add(total, row)
    return total


@op(method=False, name="_grid_sample", samples=(sample((2, 3, 5, 6), (2, 3, 4, 2), "bilinear", "zeros", False),))
def sampled(input, grid, mode, padding_mode, align_corners):
    """Sample input at grid points: [n, c, *space] and [n, *out, dims] -> [n, c, *out]."""
    x, points = upcast(input), upcast(grid)
    rank = len(x.shape) - 2
    coordinates = []
    for k in range(rank):  # the grid's last coordinate belongs to the first dimension of space
        part = P.slice(points, starts=(0,) * (rank + 1) + (rank - 1 - k,), steps=(1,) * (rank + 2),
                       shape=(*points.shape[:-1], 1))
        coordinates.append(P.reshape(part, shape=tuple(points.shape[:-1])))
    places = [unnormalised(v, size, align_corners) for v, size in zip(coordinates, x.shape[2:])]
    image = Image(x)
    if mode == "bicubic":
        return downcast(cubic_sample(image, places, padding_mode, align_corners), input)
    places = [inside(v, size, padding_mode, align_corners) for v, size in zip(places, image.space)]
    if mode == "nearest":
        return downcast(image.at([P.round(v) for v in places]), input)
    return downcast(linear_sample(image, places), input)


@op(composite=True, namespace=F, autocast="float32")
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Sample input [n, c, (d,) h, w] at points of grid [n, (do,) ho, wo, 2 or 3], (x, y[, z]) in [-1, 1], by
    interpolation."""
    if mode not in MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'")
    if padding_mode not in PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'")
    if input.dim() not in (4, 5) or input.dim() != grid.dim():
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with "
            f"sizes {list(input.shape)} and grid with sizes {list(grid.shape)}")
    if input.size(0) != grid.size(0):
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}")
    if grid.size(-1) != input.dim() - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.dim() - 2} in last dimension, but got grid with sizes "
            f"{list(grid.shape)}")
    if input.dtype is not grid.dtype:
        raise RuntimeError(
            f"grid_sampler(): expected input and grid to have the same dtype, but input has {input.dtype} and grid "
            f"has {grid.dtype}")
    if any(size <= 0 for size in input.shape[2:]):
        raise RuntimeError(
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
            f"{list(input.shape)}")
    if input.dim() == 5 and mode == "bicubic":
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    warn_of_corners("grid_sample", align_corners)
    return sampled(input, grid, mode, padding_mode, bool(align_corners))


def by_number(name, rank):
    def body(input, grid, interpolation_mode, padding_mode, align_corners):
        return grid_sample(input, grid, MODES[interpolation_mode], PADDINGS[padding_mode], align_corners)
    body.__name__, body.__doc__ = name, f"nn.functional.grid_sample in {rank} dimensions, its modes as numbers."
    return op(body, composite=True, method=False)


grid_sampler, grid_sampler_2d, grid_sampler_3d = by_number("grid_sampler", "2 or 3"), by_number("grid_sampler_2d",
                                                                                                "2"), by_number(
                                                                                                    "grid_sampler_3d",
                                                                                                    "3")
