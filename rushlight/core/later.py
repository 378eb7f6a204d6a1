"""Rooms that few programs enter are imported when they are first asked for."""
from __future__ import annotations

import sys
from importlib import import_module


def later(package: str, homes: dict | None = None):
    """The ``__getattr__`` of a package: modules in it are its attributes, and ``homes`` say which module defines which other names.

    Homes are relative to the package (``".compiling"``: beside it).  What it returns raises AttributeError for a name that is neither.

    >>> found = later("rushlight", {"futures": ("Future",)})
    >>> found("Future").__module__, found("linalg").__name__
    ('rushlight.futures', 'rushlight.linalg')
    """
    home_of = {name: home for home, names in (homes or {}).items() for name in names}

    def found(name: str):
        from importlib.util import find_spec

        if name in home_of:
            value = getattr(import_module(f".{home_of[name]}", package), name)
            setattr(sys.modules[package], name, value)  # also where the import has put a module of this name
            return value
        if name.isidentifier() and name != "__main__" and find_spec(f"{package}.{name}"):
            return import_module(f".{name}", package)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return found
