"""Placements of a tensor along a dimension of a device mesh."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Placement:
    """A placement along one mesh dimension."""

    def is_shard(self, dim: int | None = None) -> bool:
        """True if each process has a part, along ``dim`` if that is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """True if the parts of the processes must still be reduced, by ``reduce_op`` if that is given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each process has a part of the tensor, split along a dimension: all have ``ceil(size / processes)`` rows, the
    last ones fewer, or none.

    >>> Shard(0), Shard(0).is_shard(1), Shard.local_shard_size_and_offset(5, 2, 1)
    (Shard(dim=0), False, (2, 3))
    """

    dim: int

    def __str__(self):
        return f"S({self.dim})"

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """Returns the number of rows of part ``rank``, and its first row."""
        full = -(-curr_local_size // num_chunks)
        start = min(full * rank, curr_local_size)
        return min(full, curr_local_size - start), start

    _local_shard_size_and_offset = local_shard_size_and_offset


@dataclass(frozen=True)
class _StridedShard(Shard):
    """A shard of each of ``split_factor`` shards, into which a mesh dimension further right splits the tensor first."""

    split_factor: int = 1

    def __repr__(self):
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self):
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Each process has the full tensor."""

    def __str__(self):
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """Each process has a term of the tensor: all together, by ``reduce_op`` ("sum", "avg", "product", "max" or "min"),
    are it."""

    reduce_op: str = "sum"

    def __repr__(self):
        return f"Partial({self.reduce_op})"

    def __str__(self):
        return f"P({self.reduce_op})"
