"""Named results of operators that return several tensors."""
from __future__ import annotations

from collections import namedtuple

_types: dict = {}


def shown(result) -> str:
    """A line a field, as tensors take several."""
    return f"torch.return_types.{type(result).__name__}(\n" + ",\n".join(f"{field}={value!r}" for field, value in zip(result._fields, result)) + ")"


def named(name: str, **fields):
    """A named tuple, for example ``named("max", values=v, indices=i)``; one type for each operator."""
    key = (name, *fields)
    if key not in _types:
        _types[key] = namedtuple(name, list(fields))
        _types[key].__repr__ = shown
    return _types[key](**fields)
