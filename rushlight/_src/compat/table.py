"""PyTorch's paths and names that no package defines.  ``names/*.txt`` give, for each, its location or the kind of
placeholder that represents it until it is used.

    torch.optim.adam
     from torch.optim: Adam, AdamW as Other     the same object as there
     class Name(self, a, b=1)                   refuses to be made
     class Name(self): load, build              and so do functions that need no instance
     def name(a, b=1)                           refuses to be called
     enum Name(IntEnum): A=1, B=2               as it is
     error Name(RuntimeError)                   as it is
     value name = 'text'                        as it is
     type Name                                  a type for annotations
     object name                                refuses every use
     all name, other                            what import * takes, if the module itself does not say so
     settings                                   the values are settings: the module is a Configuration

One file for each package, read at the first lookup of a name that the package lacks; other lookups read no file.
``tests/compat/table.py`` writes the files.
"""
from __future__ import annotations

import functools
import importlib
import importlib.machinery
import os
import re
import sys
import types

from ..core.later import Beyond, loaded

FOLDER = os.path.join(os.path.dirname(__file__), "names")
# modules whose name is another object in their package, as in PyTorch
STANDING = os.path.join(os.path.dirname(__file__), "standing.txt")
OURS, THEIRS = "rushlight", "torch"


@functools.cache
def room(name: str) -> dict[str, list[str]]:
    """Return the lines of each path in the package ``torch.<name>``; the root is the package ``torch``."""
    try:
        with open(os.path.join(FOLDER, f"{name}.txt"), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return {}
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith(" "):
            below.append(line[1:])  # noqa: F821 - a path precedes its names
        elif line:
            below = found[line] = []  # noqa: F841
    return found


def lines_of(path: str) -> list[str] | None:
    """Return the lines of a path of PyTorch, None if the table lacks it."""
    parts = path.split(".", 2)
    return room(parts[1] if len(parts) > 1 else THEIRS).get(path)


@functools.cache
def entries(path: str) -> dict[str, tuple[str, str]]:
    """Name -> (kind, the rest of its line)."""
    found = {}
    for line in lines_of(path) or ():
        kind, _, rest = line.partition(" ")
        if kind == "settings":
            continue
        if kind == "from":
            home, _, names = rest.partition(": ")
            for name in names.split(", "):
                theirs, _, mine = name.partition(" as ")
                found[mine or theirs] = kind, f"{home}:{theirs}"
        elif kind == "all":
            found["__all__"] = kind, rest
        elif kind == "value":
            name, _, text = rest.partition(" = ")
            found[name] = kind, text
        else:
            name = re.match(r"\w+", rest)[0]
            found[name] = kind, rest[len(name):]
    return found


def theirs(path: str) -> str:
    """Return PyTorch's path for a Rushlight module."""
    return THEIRS + path.removeprefix(OURS)


@functools.cache
def below(package: str) -> bool:
    """True if the table has modules below this Rushlight package."""
    path = theirs(package)
    return any(p.startswith(f"{path}.") for p in room(path.split(".")[1]))


def names(package: str) -> list:
    """Public names that the table lists for a Rushlight module."""
    return [name for name in entries(theirs(package)) if not name.startswith("_")]


def listed(package: str) -> list | None:
    """Names that ``import *`` takes from a Rushlight module; None if PyTorch's module has no list."""
    entry = entries(theirs(package)).get("__all__")
    return None if entry is None else entry[1].split(", ") if entry[1] else []


def find(package: str, name: str):
    """Return the object of a name that a Rushlight module does not define.  AttributeError if PyTorch lacks it, too."""
    path = theirs(package)
    entry = entries(path).get(name)
    if entry is None and f"{package}.{name}" not in Beyond.standing and lines_of(f"{path}.{name}") is not None:
        return importlib.import_module(f"{package}.{name}")
    if entry is None:
        raise AttributeError(f"module {path!r} has no attribute {name!r}")
    kind, rest = entry
    if kind == "from":
        home, _, original = rest.partition(":")
        value = getattr(importlib.import_module(OURS + home.removeprefix(THEIRS) if home.startswith(THEIRS) else home),
                        original)
    else:
        from . import absent
        value = absent.KINDS[kind](path, name, rest)
    setattr(sys.modules[package], name, value)
    return value


class Finder:
    """Last finder in ``sys.meta_path``: finds modules of the package that only the table has."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if not fullname.startswith(f"{OURS}.") or lines_of(theirs(fullname)) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, Loader, is_package=True)


class Loader:
    """Make a module whose names come from the table."""

    @staticmethod
    def create_module(spec):
        about = "Names of PyTorch that other modules define, and placeholders that raise an error."
        if "settings" in lines_of(theirs(spec.name)):
            from ..core.configuration import Configuration
            return Configuration(spec.name, about)
        return types.ModuleType(spec.name, about)

    @staticmethod
    def exec_module(module):
        from ..core.later import later

        loaded(module.__name__)
        found = later(module.__name__)
        parent, _, name = module.__name__.rpartition(".")
        standing = vars(sys.modules[parent]).get(name)  # an object that exists already, whose names go first
        if standing is None or isinstance(standing, types.ModuleType):
            module.__getattr__ = found
        else:
            module.__getattr__ = lambda name: getattr(standing, name) if hasattr(standing, name) else found(name)


def stand():
    """Make packages keep an object that they have under the name of one of their modules."""
    with open(STANDING, encoding="utf-8") as file:
        Beyond.standing = frozenset(OURS + line.rstrip("\n").removeprefix(THEIRS) for line in file)


def activate():
    """Look up names and modules that the package does not have in the table."""
    Beyond.ask, Beyond.below = staticmethod(find), staticmethod(below)
    Beyond.names, Beyond.listed = staticmethod(names), staticmethod(listed)
    sys.meta_path.append(Finder)
