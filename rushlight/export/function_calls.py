"""Calls of our operators that PyTorch exports as an overload which the values of their arguments choose."""
from __future__ import annotations

from .._ops import ops
from .._src.core.native import Tensor
from .._src.ops.resample import scaled

MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")  # by PyTorch's numbers


def shape_of(value) -> tuple:
    """The shape of a tensor, or of a node of a captured program."""
    return (value._rush_meta if isinstance(value, Tensor) else value.meta).shape


def spread(value, count: int) -> list:
    """One value, or a sequence of them, for each of ``count`` dimensions."""
    return list(value) if isinstance(value, (list, tuple)) else [value] * count


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False):
    """An ``upsample_*`` overload; None for a call that is written as its body, or that its body refuses."""
    rank = len(shape_of(input)) - 2
    name = f"{'_' if mode == 'nearest-exact' else ''}upsample_{mode.replace('-', '_')}{rank}d"
    packet = getattr(ops.aten, name, None)
    if packet is None or antialias or (size is None) == (scale_factor is None) or (
            align_corners is not None and "nearest" in mode):
        return None
    corners = () if "nearest" in mode else (bool(align_corners),)
    sizes = None if size is None else spread(size, rank)
    factors = None if scale_factor is None else [float(one) for one in spread(scale_factor, rank)]
    if recompute_scale_factor and factors is not None:
        sizes, factors = list(map(scaled, shape_of(input)[2:], factors)), None
    return packet.vec, [input, sizes, *corners, factors], {}


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    return ops.aten.grid_sampler.default, [input, grid, MODES.index(mode), PADDINGS.index(padding_mode),
                                           bool(align_corners)], {}


def nonzero(input, *, as_tuple=False):
    return (ops.aten.nonzero_numpy.default, [input], {}) if as_tuple else None


def index_put(input, indices, values, accumulate=False):
    return ops.aten.index_put.default, [input, list(indices), values, *([True] if accumulate else [])], {}


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """(overload, its arguments, the numbers of our results among its three)"""
    asked = [0, *([1] if return_inverse else []), *([2] if return_counts else [])]
    flags = [sorted, return_inverse, return_counts]
    if dim is None:
        return ops.aten._unique2.default, [input, *flags], asked
    return ops.aten.unique_dim.default, [input, dim, *flags], asked


CALLS = {"nn.functional.interpolate": interpolate, "nn.functional.grid_sample": grid_sample, "nonzero": nonzero,
         "_index_put": index_put}
"""{name of an operator: the function that gives (overload, args, kwargs) of a call, or None}"""
WHOLE = ("nn.functional.interpolate", "nn.functional.grid_sample")  # composites whose bodies are not recorded
