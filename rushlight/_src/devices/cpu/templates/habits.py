"""What suits the processor at hand: figures that were measured on one kind of it, which planners ask for instead of
writing them down.

`max_autotune` (tune.py) measures other choices; these are the first guesses. A kind that nobody measured gets figures
that did well on AMD's Zen 5 and Zen 4.
"""

import functools
from dataclasses import dataclass

from ....core.llvm import processor


@dataclass(frozen=True)
class Habits:
    """Figures of blocked products.

    `ahead`: tiles ask for the next panel of B and the next block of A while they compute. `second_rate`: bytes a cycle
      that a tile may
    want of the second cache before it waits (0: it never does). `whole`: the part of the second cache that A may fill
    to be one block.
    `block_rows`: rows of a block where A is more; 0: as many as half a small second cache holds, which is then `whole`,
      too.
    `streams`: how many streams of memory one row reads weights of four bits in, each asked for `far` bytes early: the
      processor reads ahead in each, by which two of them replace what asking for more would bring.
    """

    ahead: bool = False
    second_rate: int = 0
    whole: float = 0.0
    block_rows: int = 0
    streams: int = 1
    far: int = 8192


# measured on Sapphire Rapids: 2 MB of second cache; MKL near the peak beside it
KINDS = {"GenuineIntel": Habits(ahead=True, second_rate=30, whole=0.4, block_rows=96, streams=2, far=2048)}


@functools.cache
def habits():
    """The Habits of the real CPU's vendor: caches stay the same whatever instruction sets `RUSHLIGHT_CPU` leaves.

    Example:
        >>> habits().block_rows in (0, 96)
        True
    """
    return KINDS.get(processor.vendor(), Habits())
