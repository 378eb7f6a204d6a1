"""One arena for all temporaries of a program: each has a place while it is alive, and others have it before and after."""
from __future__ import annotations

import numpy as np

ALIGNMENT = 64


class Life:
    """``size`` bytes that steps ``first`` to ``last`` (both included) use."""

    __slots__ = ("size", "first", "last")

    def __init__(self, size: int, first: int, last: int):
        self.size, self.first, self.last = size, first, last

    def meets(self, other: "Life") -> bool:
        """Whether both are alive at some step."""
        return self.first <= other.last and other.first <= self.last


def plan(lives: list[Life]) -> tuple[list[int], int]:
    """The offset of each, and the size of the arena: large ones first, each in the tightest gap that those around it leave.

    >>> plan([Life(64, 0, 1), Life(64, 1, 2), Life(64, 2, 3)])
    ([0, 64, 0], 128)
    """
    offsets, total, count = [0] * len(lives), 0, 0
    begins, ends, firsts, lasts = table = np.zeros((4, len(lives)), np.int64)  # of those placed, by offset
    for k in sorted(range(len(lives)), key=lambda k: (-lives[k].size, lives[k].first)):
        life = lives[k]
        size = -(-life.size // ALIGNMENT) * ALIGNMENT
        meets = (firsts[:count] <= life.last) & (lasts[:count] >= life.first)
        offsets[k] = begin = tightest_gap(begins[:count][meets], ends[:count][meets], size)
        at = np.searchsorted(begins[:count], begin)
        table[:, at + 1:count + 1] = table[:, at:count].copy()
        table[:, at] = begin, begin + size, life.first, life.last
        total, count = max(total, begin + size), count + 1
    return offsets, total


def within(lives: list[Life], spent, room: int) -> dict:
    """Offsets, by number, of those that find a place in another block of ``room`` bytes beside what is alive there; ``spent`` are
    (Life, offset) of that.

    >>> within([Life(64, 2, 3), Life(64, 1, 3)], [(Life(64, 0, 1), 0)], 64)
    {0: 0}
    """
    taken, found = [(life, offset, offset + life.size) for life, offset in spent], {}
    for k in sorted(range(len(lives)), key=lambda k: (-lives[k].size, lives[k].first)):
        size = -(-lives[k].size // ALIGNMENT) * ALIGNMENT
        ranges = sorted((begin, end) for life, begin, end in taken if life.meets(lives[k])) + [(room, room)]
        at = tightest_gap(*np.array(ranges).T, size)
        if at + size <= room:
            found[k] = at
            taken.append((lives[k], at, at + size))
    return found


def tightest_gap(begins, ends, size: int) -> int:
    """The offset of the smallest gap between ranges, ordered by where they begin, that is large enough, else behind them all."""
    if not len(begins):
        return 0
    reach = np.maximum.accumulate(ends)
    open_from = np.concatenate(([0], reach[:-1]))
    room = begins - open_from
    fits = np.flatnonzero(room >= size)
    return int(open_from[fits[room[fits].argmin()]] if len(fits) else reach[-1])


def verify(lives: list[Life], offsets: list[int]):
    """AssertionError if two that are alive at the same step overlap."""
    order = sorted(range(len(lives)), key=offsets.__getitem__)
    for n, k in enumerate(order):
        for j in order[n + 1:]:
            if offsets[j] >= offsets[k] + lives[k].size:
                break
            assert not lives[k].meets(lives[j]), f"temporaries {k} and {j} overlap at {offsets[j]} while both are alive"
