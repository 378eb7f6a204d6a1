"""Specs of DTensors: mesh, placements and metadata."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..._src.core.meta import Meta

__all__ = ["DTensorSpec", "TensorMeta"]


class TensorMeta(NamedTuple):
    """The full tensor's sizes, strides and dtype."""

    shape: Any
    stride: tuple
    dtype: Any


@dataclass(frozen=True)
class DTensorSpec:
    """The mesh, the placement for each of its dimensions, and the full tensor's metadata."""

    mesh: Any
    placements: tuple
    tensor_meta: TensorMeta | None = None

    def __hash__(self):
        found = self.__dict__.get("_hash")
        if found is None:
            found = self.__dict__["_hash"] = hash((self.mesh, self.placements, self.tensor_meta))
        return found

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}  # hashes differ by process

    @property
    def device_mesh(self):
        return self.mesh

    @property
    def shape(self):
        return self.tensor_meta.shape

    @property
    def stride(self):
        return self.tensor_meta.stride

    @property
    def ndim(self) -> int:
        return len(self.tensor_meta.shape)

    @property
    def dim_map(self) -> list[int]:
        """For each tensor dimension, the mesh dimension that shards it, -1 for none."""
        return [next((k for k, p in enumerate(self.placements) if p.is_shard(d)), -1) for d in range(self.ndim)]

    @property
    def num_shards(self) -> int:
        count = 1
        for k, placement in enumerate(self.placements):
            count *= self.mesh.size(k) if placement.is_shard() else 1
        return count

    def is_replicated(self) -> bool:
        return all(p.is_replicate() for p in self.placements)

    def is_sharded(self) -> bool:
        return any(p.is_shard() for p in self.placements)


MOST = 4096  # specs that a mesh remembers


def find_spec(mesh, placements: tuple, meta) -> tuple:
    """Return (spec, meta) of a DTensor: one object for equal ones of a mesh, so that they are compared by identity."""
    known = mesh._specs
    found = known.get((placements, meta))
    if found is None:
        if len(known) >= MOST:
            known.clear()
        whole = Meta(tuple(meta.shape), tuple(meta.strides), meta.dtype)
        spec = DTensorSpec(mesh, placements, TensorMeta(whole.shape, whole.strides, whole.dtype))
        found = known.setdefault((placements, meta), (spec, whole))
    return found
