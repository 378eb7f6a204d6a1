"""What is known of a tensor over several processes."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["DTensorSpec", "TensorMeta"]


class TensorMeta(NamedTuple):
    """The whole tensor's sizes, strides and dtype."""

    shape: Any
    stride: tuple
    dtype: Any


@dataclass(frozen=True)
class DTensorSpec:
    """The grid, how the tensor lies over each of its dimensions, and the whole tensor's metadata."""

    mesh: Any
    placements: tuple
    tensor_meta: TensorMeta | None = None

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
        """For each dimension of the tensor the dimension of the grid that splits it, -1 for none."""
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
