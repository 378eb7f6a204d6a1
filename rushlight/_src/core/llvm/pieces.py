"""The pieces of a shared object: bytes that get places."""
from __future__ import annotations


class Piece:
    """Bytes with a place in the file: a section of an object file, or generated data. ``pointers``: {offset: (name,
    addend)} of addresses within it."""

    def __init__(self, data: bytes, alignment=16, writable=False, size=None, pointers=None):
        self.data, self.alignment, self.writable, self.pointers = data, alignment, writable, pointers or {}
        self.size, self.place = len(data) if size is None else size, None


def rounded(number: int, alignment: int) -> int:
    return -(-number // alignment) * alignment


def placed(pieces, at: int) -> int:
    """Gives each piece its place from ``at`` on; where the last one ends."""
    for piece in pieces:
        piece.place = at = rounded(at, piece.alignment)
        at += piece.size
    return at
