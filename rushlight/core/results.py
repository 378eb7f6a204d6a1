"""Named results of operators that return several tensors."""
from __future__ import annotations

from collections import namedtuple

_types: dict = {}


def named(name: str, **fields):
    """A named tuple, for example ``named("max", values=v, indices=i)``; one type for each operator."""
    key = (name, *fields)
    if key not in _types:
        _types[key] = namedtuple(name, list(fields))
    return _types[key](**fields)
