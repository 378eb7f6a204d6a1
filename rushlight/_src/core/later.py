"""Modules that are imported when one of their names is first asked for."""
from __future__ import annotations

import sys
import types
from importlib import import_module
from importlib.machinery import PathFinder, SourceFileLoader

from .epoch import WATCHED, Watched
from .shutdown import allow_imports

ROOT, HIDDEN = __name__.split(".")[:2]


class Beyond:
    """The resolver of names that no package defines, and of modules below one that is a file: ``compat/table.py``,
    which the package's root installs here."""

    standing: frozenset = frozenset()  # modules by whose name their package knows something else

    @staticmethod
    def below(package: str) -> bool:
        return False

    @staticmethod
    def names(package: str) -> list:
        """The names for which there is an answer."""
        return []

    @staticmethod
    def listed(package: str) -> list | None:
        """The names that ``import *`` takes from a module without its own list, None if it takes the module's names."""

    @staticmethod
    def ask(package: str, name: str):
        raise AttributeError(f"module {package!r} has no attribute {name!r}")


class Package(types.ModuleType):
    """A package that knows something else by the name of a module in it.  Imports set a module as an attribute once it
    is loaded; here that leaves the function, or the class, where it is."""

    def __setattr__(self, name, value):
        path = f"{self.__spec__.name}.{name}"
        if not (path in Beyond.standing and value is sys.modules.get(path)):
            super().__setattr__(name, value)


class WatchedPackage(Watched, Package):
    """Such a package whose functions may be replaced."""


WATCHED[Package] = WatchedPackage
KEEPING = {types.ModuleType: Package, Watched: WatchedPackage}


def loaded(path: str):
    """Make the package of a module keep its own attribute of the module's name."""
    if path in Beyond.standing:
        package = sys.modules[path.rpartition(".")[0]]
        package.__class__ = KEEPING.get(type(package), type(package))


def later(package: str, homes: dict | None = None):
    """The ``__getattr__`` of a module: its submodules are its attributes, ``homes`` says which module defines which
    other names, and the table of PyTorch's names has the rest.

    Homes are relative to the package (``".compiling"``: next to it). The function returned raises AttributeError for a
    name that is defined nowhere.

    >>> found = later("rushlight", {"futures": ("Future",)})
    >>> found("Future").__module__, found("linalg").__name__
    ('rushlight.futures', 'rushlight.linalg')
    """
    home_of = {name: home for home, names in (homes or {}).items() for name in names}

    def found(name: str):
        if name == "__path__":  # looked up by each ``from package import name`` of a module that is no package
            if Beyond.below(package):
                return []
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        allow_imports()
        from importlib.util import find_spec

        module = sys.modules[package]
        if name in home_of:
            value = getattr(import_module(f".{home_of[name]}", package), name)
            setattr(module, name, value)  # also where the import has put a module of this name
            return value
        if name == "__all__":
            return everything(module, home_of)
        if ("__path__" in vars(module) and name.isidentifier() and name != "__main__"
                and f"{package}.{name}" not in Beyond.standing and find_spec(f"{package}.{name}")):
            return import_module(f".{name}", package)
        if name.startswith("__") or not name.isidentifier():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return Beyond.ask(package, name)

    return found


def everything(module, lazy) -> list:
    """The names that ``import *`` takes: PyTorch's list, else all public names, also those that are defined in other
    modules."""
    listed = Beyond.listed(module.__name__)
    if listed is None:
        names = dict.fromkeys([*vars(module), *lazy, *Beyond.names(module.__name__)])
        return [name for name in names if not name.startswith("_")]
    module.__all__ = listed
    return listed


def facade():
    """The package as users see it: there whenever anything of it runs.

    >>> facade().__name__
    'rushlight'
    """
    return sys.modules[ROOT]


def room(name: str):
    """Import a subpackage and return it.

    >>> room("futures").__name__
    'rushlight.futures'
    """
    allow_imports()
    return import_module(f"{ROOT}.{name}")


def entered(place: str, name: str):
    """A function of a higher layer, whose module is imported at the first call.

    >>> entered("futures", "collect_all").__name__
    'collect_all'
    """
    def call(*args, **kwargs):
        return getattr(room(place), name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``{name}`` of ``{ROOT}.{place}``, which is imported when this is first called."
    return call


class Public(SourceFileLoader):
    """Loads a module at a path of PyTorch's: a name that its file does not define is looked up in the table."""

    def exec_module(self, module):
        loaded(module.__name__)
        super().exec_module(module)
        vars(module).setdefault("__getattr__", later(module.__name__))


class Paths:
    """Finds the modules at PyTorch's paths (``sys.meta_path``); those of the implementation are found as any module
    is."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if not fullname.startswith(f"{ROOT}.") or fullname.startswith(f"{ROOT}.{HIDDEN}"):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = Public(spec.loader.name, spec.loader.path)
        return spec


def activate():
    """Give every module that is imported afterwards the names of the table."""
    sys.meta_path.insert(0, Paths)
