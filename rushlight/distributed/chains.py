"""Separate memory regions, communicated as if they were concatenated."""
from __future__ import annotations

import bisect
import itertools
from typing import NamedTuple


class Piece(NamedTuple):
    """A contiguous part of a range of a chain: its offset in the range, the address to read, the address for results,
    and its bytes."""

    offset: int
    source: int
    target: int
    nbytes: int


class Chain:
    """Regions of one dtype.  ``targets``: where results go, one for each of the ``sources`` and of its size (default:
    there)."""

    def __init__(self, sources: list, targets: list | None = None):
        self.sources, self.targets = sources, sources if targets is None else targets
        self.name, self.itemsize = sources[0].name, sources[0].itemsize
        self.ends = list(itertools.accumulate(region.nbytes for region in sources))
        self.nbytes = self.ends[-1]

    def pieces(self, begin: int, nbytes: int) -> list[Piece]:
        """Return the contiguous pieces of ``nbytes`` bytes from the byte ``begin`` on, in order."""
        found, end, at = [], begin + nbytes, begin
        k = bisect.bisect_right(self.ends, begin)
        while at < end:
            within, upto = at - (self.ends[k] - self.sources[k].nbytes), min(end, self.ends[k])
            if upto > at:
                found.append(Piece(at - begin, self.sources[k].address + within, self.targets[k].address + within,
                                   upto - at))
            at, k = upto, k + 1
        return found
