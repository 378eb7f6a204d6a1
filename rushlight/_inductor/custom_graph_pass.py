"""Passes of users over graphs: a class for those that programs can be known by."""
from __future__ import annotations

import abc
import functools
import hashlib


class CustomGraphPass(abc.ABC):
    """A pass over a graph: called with it, it changes it; ``uuid()`` says what it is, and None that it is not known by
    anything."""

    @abc.abstractmethod
    def __call__(self, graph) -> None:
        """Changes the graph."""

    @abc.abstractmethod
    def uuid(self):
        """Return the identity of the pass in the cache keys of programs that it changed."""


@functools.lru_cache(1)
def get_hash_for_files(paths: tuple, extra: str = "") -> bytes:
    """A hash of what files contain, for ``uuid``."""
    found = hashlib.sha256(extra.encode())
    for path in paths:
        with open(path, "rb") as file:
            found.update(file.read())
    return found.digest()
