"""Named results of operators that return several tensors."""
from __future__ import annotations

from collections import namedtuple

from .later import facade

_types: dict = {}


def shown(result) -> str:
    """A line a field, as tensors take several."""
    return f"torch.return_types.{type(result).__name__}(\n" + ",\n".join(f"{field}={value!r}"
                                                                         for field, value in zip(result._fields,
                                                                                                 result)) + ")"


def creating(kind):
    """The ``__new__`` of a type of results: of one value a field, or, as PyTorch has it, of one sequence of them."""
    plain, count = kind.__new__, len(kind._fields)

    def create(cls, *values, **fields):
        if len(values) == 1 and not fields and count > 1:
            if not isinstance(values[0], (tuple, list)):
                raise TypeError("constructor requires a sequence")
            values = values[0]
            if len(values) != count:
                raise TypeError(
                    f"torch.return_types.{cls.__name__}() takes a {count}-sequence ({len(values)}-sequence given)")
        return plain(cls, *values, **fields)

    return create


def is_result(cls) -> bool:
    """True if a class is one that ``named`` made."""
    return cls in _types.values()


def named(name: str, **fields):
    """A named tuple, for example ``named("max", values=v, indices=i)``; one type for each operator."""
    key = (name, *fields)
    if key not in _types:
        kind = namedtuple(name, list(fields))
        kind.__repr__, kind.__new__ = shown, creating(kind)
        kind.__module__ = f"{facade().__name__}.return_types"
        _types[key] = kind
    return _types[key]._make(fields.values())
