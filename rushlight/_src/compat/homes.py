"""PyTorch's modules and names of Rushlight's classes and functions.  Files use them and, if ``import torch`` imports
Rushlight, so do the classes' own ``__module__`` and ``__qualname__``.

A module at a path of PyTorch's (``rushlight.nn.modules.linear``) has the same path there.  ``homes.txt`` lists the
classes and functions that PyTorch defines elsewhere:

    torch.nn.modules.padding
     from rushlight.nn.modules.rearrange: ZeroPad1d, Other as NameInPyTorch

``python -m tests.compat.homes`` writes it.
"""
from __future__ import annotations

import functools
import os
import sys
from types import FunctionType

from ..core.later import facade
from ..core.naming import DEFINED, FRAMEWORK, defining_module, is_own
from ..core.native import Op, Tensor

FILE = os.path.join(os.path.dirname(__file__), "homes.txt")
THEIRS = "torch"
HIDDEN = f"{FRAMEWORK}._src"
HEAP = 1 << 9  # ``Py_TPFLAGS_HEAPTYPE``: the attributes of other classes cannot be set


@functools.cache
def homes() -> dict[tuple[str, str], tuple[str, str]]:
    """(module, name) of Rushlight's classes and functions -> those in PyTorch, if it defines them elsewhere."""
    found = {}
    with open(FILE, encoding="utf-8") as file:
        for line in file.read().splitlines():
            if not line.startswith(" "):
                home = line
                continue
            module, _, names = line.removeprefix(" from ").partition(": ")
            for name in names.split(", "):
                ours, _, theirs = name.partition(" as ")
                found[module, ours] = home, theirs or ours
    return found


def is_public(module: str) -> bool:
    """True if a Rushlight module has a path of PyTorch."""
    return module == FRAMEWORK or module.startswith(f"{FRAMEWORK}.") and not module.startswith(f"{HIDDEN}.")


def name_in_pytorch(module: str, name: str) -> tuple[str, str]:
    """PyTorch's module and qualified name for an object defined in a Rushlight module; unchanged for objects that
    PyTorch lacks.

    >>> name_in_pytorch("rushlight.nn.modules.rearrange", "Fold"), name_in_pytorch("rushlight.nn.init", "ones_")
    (('torch.nn.modules.fold', 'Fold'), ('torch.nn.init', 'ones_'))
    """
    outer, _, inner = name.partition(".")
    home = homes().get((module, outer))
    if home is not None:
        return home[0], f"{home[1]}.{inner}" if inner else home[1]
    return (f"{THEIRS}{module[len(FRAMEWORK):]}" if is_public(module) else module), name


def public_path(op: Op) -> str | None:
    """Public path of an operator: ``torch.nn.functional.gelu``; None if it has none."""
    where = facade()
    for part in op.name.split("."):
        where = getattr(where, part, None)
    if where is op:
        return f"{THEIRS}.{op.name}"
    return f"{THEIRS}.Tensor.{op.name}" if getattr(Tensor, op.name, None) is op else None


def name_in_files(obj) -> tuple[str, str] | None:
    """PyTorch's module and name of a Rushlight class or function; None for others, and for those that PyTorch lacks.

    >>> from rushlight import nn
    >>> name_in_files(nn.Linear), name_in_files(nn.functional.relu), name_in_files(dict)
    (('torch.nn.modules.linear', 'Linear'), ('torch.nn.functional', 'relu'), None)
    """
    if isinstance(obj, Op):
        name = obj.name.rpartition(".")[2]
        if getattr(facade(), name, None) is obj:
            return THEIRS, name
        home = (public_path(obj) or "").rpartition(".")[0]
        return (home, name) if home not in ("", f"{THEIRS}.Tensor") else None
    if not isinstance(obj, (type, FunctionType)) or "<" in obj.__qualname__:
        return None
    module = defining_module(obj)
    if not isinstance(module, str) or not is_own(obj):
        return None
    if obj in DEFINED:
        return obj.__module__, obj.__qualname__
    found = name_in_pytorch(module, obj.__qualname__)
    if found[0] != module:
        return found
    return (THEIRS, obj.__name__) if getattr(facade(), obj.__name__, None) is obj else None


def setter_of(kind: type):
    """Return a function that sets an attribute of a class without the ``__setattr__`` that a metaclass defines in
    Python: that of ``type``, or of the metaclass's base in C, as ctypes has for structures."""
    return next(found for base in type(kind).__mro__
                if (found := vars(base).get("__setattr__")) is not None and not isinstance(found, FunctionType))


def rename(kind: type):
    """Give a class, and the classes in it, PyTorch's module and name."""
    if kind in DEFINED or not kind.__flags__ & HEAP or not isinstance(kind.__module__, str) or not is_own(kind):
        return
    module, name = name_in_pytorch(kind.__module__, kind.__qualname__)
    if module == kind.__module__:
        return
    DEFINED[kind] = kind.__module__
    assign = setter_of(kind)
    if name != kind.__qualname__:
        assign(kind, "__qualname__", name)
        assign(kind, "__name__", name.rpartition(".")[2])
    assign(kind, "__module__", module)
    for inner in list(vars(kind).values()):
        if isinstance(inner, type):
            rename(inner)


def name_classes(path: str, module):
    """Give the classes of a module PyTorch's names; ``pickle``, ``inspect`` and ``typing`` look up the module by them,
    too."""
    if is_public(path):
        sys.modules.setdefault(THEIRS + path[len(FRAMEWORK):], module)
    for value in list(vars(module).values()):
        if isinstance(value, type):
            rename(value)


class NamingLoader:
    """Load a module with another loader, and rename its classes."""

    def __init__(self, loader):
        self.loader = loader

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        name_classes(module.__spec__.name, module)


class NamingFinder:
    """Find the package's modules with the later finders in ``sys.meta_path``, and wrap their loaders in
    NamingLoader."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if not fullname.startswith(f"{FRAMEWORK}."):
            return None
        for finder in sys.meta_path[sys.meta_path.index(NamingFinder) + 1:]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = NamingLoader(spec.loader)
                return spec
        return None


def activate():
    """Rename the classes of all modules of the package, imported already or later."""
    sys.meta_path.insert(0, NamingFinder)
    for name, module in list(sys.modules.items()):
        if name == FRAMEWORK or name.startswith(f"{FRAMEWORK}."):
            name_classes(name, module)
