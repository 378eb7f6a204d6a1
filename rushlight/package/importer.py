"""Importers: where modules come from, and under which names the objects in them are found again."""

from __future__ import annotations

import importlib
import pickle
import re
import sys


MANGLED = re.compile(r"<torch_package_\d+>")


class ObjNotFoundError(Exception):
    """A module does not have what it should."""


class ObjMismatchError(Exception):
    """A module has another object under the name."""


def demangled(name: str) -> str:
    """A module's name as the package knows it."""
    return name.partition(">.")[2] if MANGLED.match(name) else name


def is_from_package(obj) -> bool:
    """Whether a module, class or object comes from a package that was read."""
    name = obj.__name__ if isinstance(obj, type(sys)) else (obj if isinstance(obj, type) else type(obj)).__module__
    return MANGLED.match(name) is not None


class Importer:
    """Base of module sources: ``import_module(name)``."""

    modules: dict

    def import_module(self, module_name: str):
        raise NotImplementedError

    def whichmodule(self, obj, name: str) -> str:
        """The name of the module that defines an object."""
        return getattr(obj, "__module__", None) or pickle.whichmodule(obj, name)

    def get_name(self, obj, name=None) -> tuple:
        """(module, name) by which this importer gives the very object.  ObjNotFoundError, ObjMismatchError where it
        does not."""
        name = name or getattr(obj, "__qualname__", None) or obj.__name__
        module = self.whichmodule(obj, name)
        plain = demangled(module)
        try:
            found = self.import_module(plain)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError, KeyError) as error:
            raise ObjNotFoundError(f"{obj!r} was not found as {plain}.{name}: {error}") from None
        if found is not obj:
            raise ObjMismatchError(
                f"{obj!r} is another object than the {plain}.{name} of this importer. An object from a package is "
                "saved with that "
                "package's importer among those of the exporter."
            )
        return plain, name


class SystemImporter(Importer):
    """Modules as ``import`` gives them."""

    modules = sys.modules

    def import_module(self, module_name):
        return importlib.import_module(module_name)


sys_importer = SystemImporter()


class OrderedImporter(Importer):
    """The first of several importers that has a module."""

    def __init__(self, *args):
        self.importers = list(args)

    def import_module(self, module_name):
        last = None
        for importer in self.importers:
            try:
                return importer.import_module(module_name)
            except ModuleNotFoundError as error:
                last = error
        raise last or ModuleNotFoundError(module_name)

    def whichmodule(self, obj, name):
        for importer in self.importers:
            found = importer.whichmodule(obj, name)
            if found != "__main__":
                return found
        return "__main__"

    def get_name(self, obj, name=None):
        """As any of the importers has it."""
        wrong = None
        for importer in self.importers:
            try:
                return importer.get_name(obj, name)
            except (ObjNotFoundError, ObjMismatchError) as error:
                wrong = wrong or error
        raise wrong
