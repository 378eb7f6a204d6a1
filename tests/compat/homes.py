"""Writes ``rushlight/_src/compat/homes.txt``, the classes and functions that PyTorch defines elsewhere:
``python -m tests.compat.homes``."""
from __future__ import annotations

import collections
import sys
from types import FunctionType

from rushlight._src.compat.homes import FILE, THEIRS, is_public
from rushlight._src.core.naming import FRAMEWORK, is_own

from .table import ours, pytorch

KINDS = "class", "enum", "error", "function"


def value_at(place: str):
    """What we have at a path of PyTorch's; None for nothing, and for what needs a device."""
    module, _, name = place.rpartition(".")
    try:
        return getattr(ours(module), name, None)
    except Exception:  # noqa: BLE001 - a lazy name that needs a device
        return None


def is_found(value) -> bool:
    """True for a class or function of ours that its module has by its name."""
    return (isinstance(value, (type, FunctionType)) and is_own(value)
            and getattr(sys.modules[value.__module__], value.__qualname__, None) is value)


def defined_at(modules: dict, same: dict) -> dict[object, set[str]]:
    """Class or function of ours -> the paths at which PyTorch defines what it has in its place."""
    found = collections.defaultdict(set)
    for places in same.values():
        module, _, name = places[0].rpartition(".")
        entry = modules[module]["names"][name]
        theirs = [place for place in places if place.rpartition(".")[0] == entry["home"]] or places
        if entry["kind"] not in KINDS:
            continue
        for kind in {id(value): value for value in map(value_at, places) if is_found(value)}.values():
            found[kind].update(place for place in theirs if value_at(place) is kind)
    return found


def home_of(kind, places: set[str]) -> str | None:
    """The path at which PyTorch defines a class or a function; None where ours has the same path."""
    own = f"{THEIRS}{kind.__module__[len(FRAMEWORK):]}.{kind.__qualname__}" if is_public(kind.__module__) else None
    if not places or own in places:
        return None
    return min(places, key=lambda place: (not place.endswith(f".{kind.__qualname__}"), "._" in place, place.count("."),
                                          place))


def text_of(found: dict[object, set[str]]) -> str:
    """The lines of ``homes.txt``."""
    written = collections.defaultdict(lambda: collections.defaultdict(list))
    for kind, places in found.items():
        if (place := home_of(kind, places)) is not None:
            home, _, name = place.rpartition(".")
            written[home][kind.__module__].append(
                name if name == kind.__qualname__ else f"{kind.__qualname__} as {name}")
    return "".join(f"{home}\n" + "".join(f" from {module}: {', '.join(sorted(names))}\n"
                                         for module, names in sorted(modules.items()))
                   for home, modules in sorted(written.items()))


if __name__ == "__main__":
    known = pytorch("--private")
    with open(FILE, "w", encoding="utf-8") as file:
        file.write(text_of(defined_at(known["modules"], known["same"])))
