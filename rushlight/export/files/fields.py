"""JSON that may be hostile: each field is taken by its name, and is of the type that it should be."""
from __future__ import annotations

import json
import math

LARGEST = 2 ** 63  # of integers


class SerializeError(RuntimeError):
    """A program that cannot be written as a file, or a file that holds none."""


def field(record, name: str, kind, default=...):
    """One field of a JSON object.  SerializeError where it is missing, or of another type; ``default``: what a missing
    or null field is."""
    if type(record) is not dict:
        raise SerializeError(f"the file has {shown(record)} where an object with the field {name!r} belongs")
    value = record.get(name)
    if value is None and default is not ...:
        return default
    return of_kind(value, kind, name)


def of_kind(value, kind, what: str):
    """A value, which has to be of a type (or one of several).  Bools are no ints; ints have 64 bits."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if type(value) not in kinds:
        raise SerializeError(f"the file has {shown(value)} for {what!r}, where {'/'.join(k.__name__ for k in kinds)} "
                             "belongs")
    if type(value) is int and not -LARGEST <= value < LARGEST:
        raise SerializeError(f"the file has a number of more than 64 bits for {what!r}")
    return value


def entries(record, name: str, kind) -> list:
    """A field that is a list of values of one type."""
    return [of_kind(value, kind, name) for value in field(record, name, list)]


def union(record, what: str) -> tuple:
    """Return (name, value) of a tagged union: an object with one field."""
    if type(record) is not dict or len(record) != 1:
        raise SerializeError(f"the file has {shown(record)} for {what}, where an object with one field belongs")
    return next(iter(record.items()))


def shown(value) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


def parsed(text: bytes, what: str):
    """The JSON of an entry."""
    try:
        return json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise SerializeError(f"the entry {what} of the file is no JSON: {error}") from None


SPECIAL = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def float_text(value: float):
    """A float as JSON has it."""
    return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def float_of(value) -> float:
    """A float that JSON has."""
    if type(value) is str and value in SPECIAL:
        return SPECIAL[value]
    return float(of_kind(value, (float, int), "a float"))
