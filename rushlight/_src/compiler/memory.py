"""One arena for all temporaries of a program: each has a place while it is alive, and others have it before and
after."""
from __future__ import annotations

import numpy as np

ALIGNMENT = 64
FOREVER = 1 << 60


class Life:
    """``size`` bytes that steps ``first`` to ``last`` (both included) use; they begin at a multiple of
    ``alignment``."""

    __slots__ = ("size", "first", "last", "alignment")

    def __init__(self, size: int, first: int, last: int, alignment=ALIGNMENT):
        self.size, self.first, self.last, self.alignment = size, first, last, alignment

    def meets(self, other: "Life") -> bool:
        """True if both are alive at some step."""
        return self.first <= other.last and other.first <= self.last


def plan(lives: list[Life]) -> tuple[list[int], int]:
    """The offset of each, and the size of the arena: large ones first, each in the tightest gap that those around it
    leave.

    >>> plan([Life(64, 0, 1), Life(64, 1, 2), Life(64, 2, 3)])
    ([0, 64, 0], 128)
    """
    offsets, total, placed = [0] * len(lives), 0, Placed(len(lives))
    for k in by_size(lives):
        size = aligned(lives[k])
        offsets[k] = tightest_gap(*placed.beside(lives[k]), size, lives[k].alignment)
        placed.put(lives[k], offsets[k], size)
        total = max(total, offsets[k] + size)
    return offsets, total


def within(lives: list[Life], donated, room: int) -> dict:
    """Offsets, by number, of those that fit into another block of ``room`` bytes next to its live contents; ``donated``
    are (Life, offset) of these.

    >>> within([Life(64, 2, 3), Life(64, 1, 3)], [(Life(64, 0, 1), 0)], 64)
    {0: 0}
    """
    found, placed = {}, Placed(len(donated) + len(lives) + 1)
    for life, offset in donated:
        placed.put(life, offset, life.size)
    placed.put(Life(0, 0, FOREVER), room, 0)
    for k in by_size(lives):
        size = aligned(lives[k])
        at = tightest_gap(*placed.beside(lives[k]), size, lives[k].alignment)
        if at + size <= room:
            found[k] = at
            placed.put(lives[k], at, size)
    return found


class Placed:
    """Ranges of a block that are taken while lives last, at most ``room`` of them, in the order of where they begin."""

    def __init__(self, room: int):
        self.table, self.count = np.zeros((4, room), np.int64), 0

    def beside(self, life: Life):
        """The begins and ends of the ranges that are taken at some time during a life."""
        begins, ends, firsts, lasts = self.table[:, :self.count]
        meets = (firsts <= life.last) & (lasts >= life.first)
        return begins[meets], ends[meets]

    def put(self, life: Life, begin: int, size: int):
        """Marks ``size`` bytes from ``begin`` on as taken during a life."""
        at = np.searchsorted(self.table[0, :self.count], begin)
        self.table[:, at + 1:self.count + 1] = self.table[:, at:self.count].copy()
        self.table[:, at] = begin, begin + size, life.first, life.last
        self.count += 1


def by_size(lives) -> list:
    """Numbers of lives, large ones first."""
    return sorted(range(len(lives)), key=lambda k: (-lives[k].size, lives[k].first))


def aligned(life: Life) -> int:
    return -(-life.size // ALIGNMENT) * ALIGNMENT


def tightest_gap(begins, ends, size: int, alignment=ALIGNMENT) -> int:
    """The offset of the smallest gap between ranges, ordered by where they begin, that is large enough, else behind
    them all."""
    if not len(begins):
        return 0
    reach = np.maximum.accumulate(ends)
    open_from = -(-np.concatenate(([0], reach)) // alignment) * alignment
    room = begins - open_from[:-1]
    fits = np.flatnonzero(room >= size)
    return int(open_from[fits[room[fits].argmin()]] if len(fits) else open_from[-1])


def verify(lives: list[Life], offsets: list[int]):
    """AssertionError if two that are alive at the same step overlap."""
    order = sorted(range(len(lives)), key=offsets.__getitem__)
    for n, k in enumerate(order):
        for j in order[n + 1:]:
            if offsets[j] >= offsets[k] + lives[k].size:
                break
            assert not lives[k].meets(lives[j]), f"temporaries {k} and {j} overlap at {offsets[j]} while both are alive"
