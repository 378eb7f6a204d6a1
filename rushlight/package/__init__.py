"""Objects with the code of their classes in one file: ``PackageExporter`` writes it, ``PackageImporter`` reads it.

    patterns that say what becomes of a module       glob_group.py
    who imports modules, and finds names of objects  importer.py
    what a source file imports                       find_file_dependencies.py
    writing and reading                              package_exporter.py, package_importer.py

Reading a package runs the code in it: read only what you trust.
"""

from __future__ import annotations

from .glob_group import GlobGroup
from .importer import Importer, ObjMismatchError, ObjNotFoundError, OrderedImporter, is_from_package, sys_importer
from .package_exporter import EmptyMatchError, PackageExporter, PackagingError
from .package_importer import Directory, PackageImporter

__all__ = [
    "Directory",
    "EmptyMatchError",
    "GlobGroup",
    "Importer",
    "ObjMismatchError",
    "ObjNotFoundError",
    "OrderedImporter",
    "PackageExporter",
    "PackageImporter",
    "PackagingError",
    "is_from_package",
    "sys_importer",
]
