"""How long exchanges between devices take: links within a machine and between machines, each with a latency and a
bandwidth, and collectives over groups of devices at equal distances."""
from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """``latency`` in seconds a message, ``bandwidth`` in bytes a second of one device."""

    latency: float
    bandwidth: float

    def ring(self, steps: float, nbytes: float, members: int) -> float:
        """``steps`` passes around a ring of members, each of a share of the bytes."""
        return steps * (members - 1) * self.latency + steps * (members - 1) / members * nbytes / self.bandwidth

    def tree(self, nbytes: float, members: int) -> float:
        """Up a tree and down again, in pieces that follow one another."""
        return 2 * math.ceil(math.log2(members)) * self.latency + 2 * nbytes / self.bandwidth


@dataclass(frozen=True)
class Topology:
    """``node`` devices a machine, joined by ``within``; machines are joined by ``between``."""

    node: int = 8
    within: Link = Link(3e-6, 450e9)
    between: Link = Link(8e-6, 50e9)

    def near(self, members: int, stride: int) -> int:
        """Return how many members of a group with a stride of ``stride`` devices share a host."""
        return max(min(members, self.node // stride), 1)

    def message(self, nbytes: float, stride: int) -> float:
        """A message to the device ``stride`` further on."""
        link = self.within if stride < self.node else self.between
        return link.latency + nbytes / link.bandwidth

    def all_reduce(self, nbytes: float, members: int, stride: int = 1) -> float:
        """A sum over a group: around a ring, or up and down a tree where that is sooner; between machines of the
        shares that the devices of each have reduced."""
        near = self.near(members, stride)
        far = members // near
        inside = self.within.ring(2, nbytes, near) if near > 1 else 0.0
        if far == 1:
            return min(inside, self.within.tree(nbytes, near)) if near > 1 else 0.0
        share = nbytes / near
        return inside + min(self.between.ring(2, share, far), self.between.tree(share, far))

    def all_gather(self, nbytes: float, members: int, stride: int = 1) -> float:
        """``nbytes`` in all, a part of them on each member; a reduce_scatter takes the same time."""
        near = self.near(members, stride)
        far = members // near
        inside = self.within.ring(1, nbytes, near) if near > 1 else 0.0
        return inside + (self.between.ring(1, nbytes / near, far) if far > 1 else 0.0)
