"""Numbers and units as text, for tables of measurements."""
from __future__ import annotations

import contextlib
import math

from .._src.switches import get_num_threads, set_num_threads

UNITS = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}


def unit_to_english(u: str) -> str:
    """The word of a unit of time.

    >>> unit_to_english("us")
    'microsecond'
    """
    return UNITS[u]


def trim_sigfig(x: float, n: int) -> float:
    """Return a number rounded to this number of significant digits.

    >>> trim_sigfig(1234.5678, 3)
    1230.0
    """
    if n != int(n):
        raise AssertionError("Number of significant figures must be an integer")
    scale = 10.0 ** (n - math.ceil(math.log10(abs(x))) if x else 0)
    return float(round(x * scale) / scale)


def ordered_unique(elements) -> list:
    """Each element once, where it is first.

    >>> ordered_unique([2, 1, 2])
    [2, 1]
    """
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n: int):
    """A block that computes with this number of threads."""
    before = get_num_threads()
    try:
        set_num_threads(n)
        yield
    finally:
        set_num_threads(before)
