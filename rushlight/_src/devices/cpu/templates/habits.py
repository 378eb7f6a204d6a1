"""Blocking parameters and prefetch distances that were measured for each CPU vendor.

They are the planners' first choices; `max_autotune` (tune.py) measures others.  A CPU whose vendor is not listed gets
the defaults, which did well on AMD's Zen 5 and Zen 4.
"""

import functools
from dataclasses import dataclass

from ....core.llvm import processor


@dataclass(frozen=True)
class Habits:
    """Parameters of blocked GEMMs and of int4 GEMVs.

    `ahead`: micro-kernels prefetch the next panel of B and the next block of A while they compute.
    `second_rate`: bytes a cycle that a register tile can read from the L2 cache; larger tiles are costed as waiting for
      it (0: no tile waits).
    `whole`: the fraction of the L2 cache up to which all of A is one block.  It counts only if `block_rows` is not 0.
    `block_rows`: rows of a block of A where A is larger; 0: as many as fit three eighths of the L2 cache, or all but
      1 MB of it.
    `streams`: blocks of int4 weights that one work unit reads at once if there is one row of A; with more rows,
      proportionally fewer.  The CPU prefetches each of them.
    `far`: bytes by which int4 weights are prefetched.
    """

    ahead: bool = False
    second_rate: int = 0
    whole: float = 0.0
    block_rows: int = 0
    streams: int = 1
    far: int = 8192


# measured on Sapphire Rapids, with 2 MB of L2 cache
KINDS = {"GenuineIntel": Habits(ahead=True, second_rate=30, whole=0.4, block_rows=96, streams=2, far=2048)}


@functools.cache
def habits():
    """Return the parameters for the real CPU's vendor: its caches are the same whatever `RUSHLIGHT_CPU` says.

    Example:
        >>> habits().block_rows in (0, 96)
        True
    """
    return KINDS.get(processor.vendor(), Habits())
