"""One arena for all temporaries of a program: each has a place while it is alive, and others have it before and after."""
from __future__ import annotations

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
    offsets, placed, total = [0] * len(lives), [], 0
    for k in sorted(range(len(lives)), key=lambda k: (-lives[k].size, lives[k].first)):
        life = lives[k]
        size = -(-life.size // ALIGNMENT) * ALIGNMENT
        offsets[k] = tightest_gap(sorted((offsets[j], end) for j, end in placed if life.meets(lives[j])), size)
        placed.append((k, offsets[k] + size))
        total = max(total, offsets[k] + size)
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
        at = tightest_gap(sorted((begin, end) for life, begin, end in taken if life.meets(lives[k])) + [(room, room)], size)
        if at + size <= room:
            found[k] = at
            taken.append((lives[k], at, at + size))
    return found


def tightest_gap(taken, size: int) -> int:
    """The offset of the smallest gap between ``taken`` ranges that is large enough, else behind them all."""
    best, room, at = None, None, 0
    for begin, end in taken:
        if begin - at >= size and (room is None or begin - at < room):
            best, room = at, begin - at
        at = max(at, end)
    return at if best is None else best


def verify(lives: list[Life], offsets: list[int]):
    """AssertionError if two that are alive at the same step overlap."""
    order = sorted(range(len(lives)), key=offsets.__getitem__)
    for n, k in enumerate(order):
        for j in order[n + 1:]:
            if offsets[j] >= offsets[k] + lives[k].size:
                break
            assert not lives[k].meets(lives[j]), f"temporaries {k} and {j} overlap at {offsets[j]} while both are alive"
