"""How a tensor lies over a dimension of a grid of processes."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Placement:
    """A way to lie."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each process has a part, along ``dim`` where that is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the parts of the processes are still to be combined, by ``reduce_op`` where that is given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each process has a part of the tensor, split along a dimension.

    >>> Shard(0), Shard(0).is_shard(1)
    (Shard(dim=0), False)
    """

    dim: int


@dataclass(frozen=True)
class _StridedShard(Shard):
    """A part of parts: a tensor that was split ``split_factor`` times before."""

    split_factor: int = 1


@dataclass(frozen=True)
class Replicate(Placement):
    """Each process has the whole tensor."""


@dataclass(frozen=True)
class Partial(Placement):
    """Each process has a term of the tensor."""

    reduce_op: str = "sum"
