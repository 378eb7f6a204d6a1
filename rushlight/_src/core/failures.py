"""Codes that kernels report through a program's error flag: the kind of the error and its position; 0 is no error."""
from __future__ import annotations

from .errors import ZeroDivisorError

OUT_OF_RANGE = 1
BATCHED = 128  # added to a kind: the matrix is one of several, and its number is included
LAST = 0x7FFFFFFF
_kinds: dict = {}


def declare(number: int, error: type, message: str) -> int:
    """Gives a kind of failure (2 to 127) its error, and its message with ``where`` and ``at`` in it; returns the
    number."""
    if number in _kinds or not OUT_OF_RANGE < number < BATCHED:
        raise ValueError(f"{number} is not free to stand for a failure")
    _kinds[number] = error, message
    return number


def word(kind: int, at: int, matrix: int) -> int:
    """The int64 that a kernel stores in the flag; the largest of several is the first matrix's.

    >>> word(2, 3, 0) > word(2, 3, 1)
    True
    """
    return (LAST - matrix) << 32 | at << 8 | kind


def error(word: int):
    """The error for an int64 of the flag; None for an index out of range, which has no further data."""
    if word == OUT_OF_RANGE:
        return None
    kind, message = _kinds[word & BATCHED - 1]
    where = f"(Batch element {LAST - (word >> 32)}): " if word & BATCHED else ""
    return kind(message.format(where=where, at=word >> 8 & 0xFFFFFF))


DIVIDED_BY_ZERO = declare(16, ZeroDivisorError, "ZeroDivisionError: integers are divided by 0")
