"""Named results of operators that return several tensors."""
from __future__ import annotations

from collections import namedtuple

_types: dict = {}


def shown(result) -> str:
    """A line a field, as tensors take several."""
    return f"torch.return_types.{type(result).__name__}(\n" + ",\n".join(f"{field}={value!r}" for field, value in zip(result._fields, result)) + ")"


def taking_one(new):
    """How a result is made by users: of its fields, or of one sequence of them, as PyTorch's are."""
    def made(kind, *fields, **more):
        return new(kind, *(fields[0] if len(fields) == 1 and not more and len(kind._fields) > 1 else fields), **more)
    return made


def named(name: str, **fields):
    """A named tuple, for example ``named("max", values=v, indices=i)``; one type for each operator."""
    key = (name, *fields)
    if key not in _types:
        _types[key] = made = namedtuple(name, list(fields))
        made.__repr__, made.__new__ = shown, taking_one(made.__new__)
    return _types[key]._make(fields.values())
