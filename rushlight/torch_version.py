"""Versions that compare as numbers do."""
from __future__ import annotations

import re


__all__ = ["TorchVersion"]


def numbers(version) -> tuple:
    """The release numbers of a version, or a tuple as it is."""
    if isinstance(version, (tuple, list)):
        return tuple(version)
    return tuple(int(n) for n in re.match(r"\d+(\.\d+)*", str(version))[0].split("."))


class TorchVersion(str):
    """A version: a string that compares by its numbers with other versions and tuples.

    >>> from rushlight.torch_version import TorchVersion
    >>> TorchVersion("2.13.0+cpu") > "2.9", TorchVersion("2.13.0") >= (2, 6)
    (True, True)
    """

    def __lt__(self, other):
        return numbers(self) < numbers(other)

    def __le__(self, other):
        return numbers(self) <= numbers(other)

    def __gt__(self, other):
        return numbers(self) > numbers(other)

    def __ge__(self, other):
        return numbers(self) >= numbers(other)

    def __eq__(self, other):
        return str.__eq__(self, other) if isinstance(other, str) else numbers(self)[:len(other)] == tuple(
            other) if isinstance(other, (tuple, list)) else NotImplemented

    __hash__ = str.__hash__
