"""The box of a tensor's elements that a process has."""
from __future__ import annotations

import functools
import itertools

from .placement_types import Partial, Placement, Replicate, Shard, _StridedShard


def order(placements) -> list[int]:
    """Return the mesh dimensions in the order in which they shard: from left to right, strided shards last."""
    plain = [k for k, p in enumerate(placements) if type(p) is Shard]
    return plain + [k for k, p in enumerate(placements) if type(p) is _StridedShard]


@functools.lru_cache(maxsize=65536)
def box(shape, placements, sizes, coordinate) -> tuple:
    """Return (sizes, offsets) of the part of a tensor of this shape in the process at ``coordinate`` of a mesh of these
    ``sizes``.

    >>> box((5, 4), (Shard(0), Shard(1)), (2, 2), (1, 0))
    ((2, 2), (3, 0))
    """
    local, offsets = list(shape), [0] * len(shape)
    for k in order(placements):
        dim = placements[k].dim
        local[dim], start = Shard.local_shard_size_and_offset(local[dim], sizes[k], coordinate[k])
        offsets[dim] += start
    return tuple(local), tuple(offsets)


@functools.lru_cache(maxsize=4096)
def coordinates(sizes) -> tuple:
    """Return all coordinates of a mesh."""
    return tuple(itertools.product(*(range(n) for n in sizes)))


def boxes(shape, placements, sizes) -> list:
    """The boxes of all processes."""
    return [box(shape, placements, sizes, c) for c in coordinates(sizes)]


def compute_local_shape_and_global_offset(global_shape, mesh, placements, skip_offset=False) -> tuple:
    """Return (sizes, offsets) of this process's part of a tensor; offsets are () with ``skip_offset``.  Outside the
    mesh the part is empty."""
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return (0,), ()
    placements = checked(placements, mesh, len(global_shape))
    local, offsets = box(tuple(global_shape), placements, tuple(mesh.shape), tuple(coordinate))
    return local, () if skip_offset else offsets


def checked(placements, mesh, rank: int | None) -> tuple:
    """Return placements in normal form, with dimensions counted from the front.  RuntimeError if they are not as many
    as mesh dimensions; IndexError for a dimension that the tensor lacks."""
    if placements is None:
        return (Replicate(),) * mesh.ndim
    placements = tuple(placements)
    if len(placements) != mesh.ndim:
        raise RuntimeError(
            "`placements` must have the same length as `device_mesh.ndim`! Found placements length: "
            f"{len(placements)}, and device_mesh.ndim: {mesh.ndim}.")
    return tuple(one_checked(p, rank) for p in placements)


def one_checked(placement, rank):
    if not isinstance(placement, Placement):
        raise TypeError(f"a placement is Shard, Replicate or Partial, not {type(placement).__name__}")
    if isinstance(placement, Partial) and placement.reduce_op not in ("sum", "avg", "product", "max", "min"):
        raise ValueError(f"Partial({placement.reduce_op!r}): parts are combined by sum, avg, product, max or min")
    if not isinstance(placement, Shard) or rank is None:
        return placement
    if not -rank <= placement.dim < rank:
        raise IndexError(f"{placement}: the tensor has {rank} dimensions")
    if placement.dim >= 0:
        return placement
    return _StridedShard(placement.dim + rank,
                         placement.split_factor) if isinstance(placement, _StridedShard) else Shard(placement.dim
                                                                                                    + rank)
