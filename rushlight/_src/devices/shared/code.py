"""Encoded programs, int64 arrays that a device's own loop walks."""

from __future__ import annotations

import ctypes

from ...compiler.launch import HEAD

MOST = 4096  # programs that are kept


def words_at(code: int) -> bytes:
    """Return the encoded program at an address."""
    at = 1
    for _ in range((ctypes.c_int64 * 1).from_address(code)[0]):
        at += HEAD + 2 * (ctypes.c_int64 * 1).from_address(code + 8 * (at + 3))[0]
    return ctypes.string_at(code, 8 * at)


def taken_apart(known: dict, code: int, make):
    """Return the decoded program at an address, decoded once by ``make(words)``; it keeps its ``words``, since
    addresses are reused."""
    found = known.get(code)
    if found is not None and ctypes.string_at(code, len(found.words)) == found.words:
        return found
    if len(known) >= MOST:
        known.clear()
    found = known[code] = make(words_at(code))
    return found
