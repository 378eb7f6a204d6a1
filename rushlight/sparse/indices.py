"""Functions of index vectors: none takes memory for positions without elements."""
from __future__ import annotations

from .._src.core.meta import product, row_major
from .._src.core.op import OPS


def ravel(positions, sizes):
    """Positions [dimensions, count] as row-major indices."""
    at = positions.new_zeros(positions.size(1))
    for index, step in zip(positions, row_major(sizes)):
        at = at + index * step
    return at


def unravel(at, sizes):
    """Row-major indices as positions [dimensions, count]."""
    steps = row_major(sizes)
    return OPS["stack"]([at // step % max(size, 1)
                         for size, step in zip(sizes, steps)]) if sizes else at.new_zeros((0, at.size(0)))


def count_starts(run, lead, runs):
    """Return the start of each run, given the run of each element: [*lead, runs + 1]."""
    counts = OPS["bincount"](run, minlength=product(lead) * runs).reshape(*lead, runs)
    return OPS["cat"]([counts.new_zeros((*lead, 1)), counts.cumsum(-1)], -1)


def match_keys(keys, ordered):
    """All pairs of equal keys, as (indices into ``keys``, indices into ``ordered``), which is sorted."""
    keys, ordered = keys.contiguous(), ordered.contiguous()
    first = OPS["searchsorted"](ordered, keys)
    counts = OPS["searchsorted"](ordered, keys, right=True) - first
    left = OPS["arange"](keys.size(0)).repeat_interleave(counts)
    before = counts.cumsum(0) - counts
    return left, OPS["arange"](left.size(0)) + (first - before)[left]
