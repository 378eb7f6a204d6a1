"""PackageImporter: reads packages; their modules coexist with those of the process, under separate names."""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import io
import itertools
import linecache
import os
import sys
import types
import zipfile

from ..serialization import Storages, Unpickler, entry
from .glob_group import GlobGroup
from .importer import Importer, demangled

_numbers = itertools.count()


class Directory:
    """A directory of a package, or a file in it; ``children`` by name.  Prints as a tree."""

    def __init__(self, name: str, is_dir: bool):
        self.name, self.is_dir, self.children = name, is_dir, {}

    def enter(self, parts):
        """Adds a file below."""
        first, *rest = parts
        child = self.children.setdefault(first, Directory(first, bool(rest)))
        if rest:
            child.enter(rest)

    def has_file(self, filename: str) -> bool:
        """True if there is a file or directory at a path."""
        place = self
        for part in filename.split("/"):
            place = place.children.get(part)
            if place is None:
                return False
        return True

    def lines(self):
        yield self.name
        ordered = sorted(self.children.values(), key=lambda child: (not child.is_dir, child.name))
        for k, child in enumerate(ordered):
            last = k == len(ordered) - 1
            below = child.lines()
            yield f"{'└── ' if last else '├── '}{next(below)}"
            for line in below:
                yield f"{'    ' if last else '│   '}{line}"

    def __str__(self):
        return "─── " + "\n    ".join(self.lines()) + "\n"


class Source:
    """The loader of a package's modules: tools ask it for their text."""

    def __init__(self, importer):
        self.importer = importer

    def get_source(self, fullname):
        return self.importer.get_source(demangled(fullname))

    def get_resource_reader(self, fullname):
        return self.importer.get_resource_reader(demangled(fullname))


class Resources:
    """The files of one package's directory, for ``importlib.resources``."""

    def __init__(self, importer, package):
        self.importer, self.package = importer, package

    def open_resource(self, resource):
        if not self.is_resource(resource):
            raise FileNotFoundError(resource)
        return io.BytesIO(self.importer.load_binary(self.package, resource))

    def resource_path(self, resource):
        raise FileNotFoundError(f"{resource} is in an archive and has no path")

    def is_resource(self, name):
        return self.importer.path_of(self.package, name) in self.importer.files

    def contents(self):
        folder = self.package.replace(".", "/") + "/"
        return sorted(
            {name.removeprefix(folder).partition("/")[0] for name in self.importer.files if name.startswith(folder)}
        )


class CodeUnpickler(Unpickler):
    """Finds classes in the package."""

    def __init__(self, file, storages, importer):
        super().__init__(file, storages)
        self.importer = importer

    def find_class(self, module, name):
        if module.partition(".")[0] in ("torch", "rushlight"):
            return super().find_class(module, name)
        found = self.importer.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found


class PackageImporter(Importer):
    """Reads a package from a file (a path, or a file object).

    Code in it runs when its modules are imported: read only what you trust.  Its modules are apart from those of the
    process and of other packages; ``module_allowed`` says of an external module whether it may be imported (ImportError
    if not).
    """

    def __init__(self, file_or_buffer, module_allowed=lambda module_name: True):
        path = os.fspath(file_or_buffer) if isinstance(file_or_buffer, (str, os.PathLike)) else None
        self.filename = path or "<binary>"
        self.archive = zipfile.ZipFile(path or file_or_buffer)
        names = self.archive.namelist()
        if not names:
            raise RuntimeError(f"{self.filename} is an empty archive, not a package")
        self.prefix = names[0].partition("/")[0] + "/"
        self.files = {name.removeprefix(self.prefix) for name in names}
        if ".data/extern_modules" not in self.files:
            raise RuntimeError(f"{self.filename} is not a package: it has no list of external modules")
        self.external = set(self.read(".data/extern_modules").decode().split())
        for name in self.external:
            if not module_allowed(name):
                raise ImportError(
                    f"package '{self.filename}' needs the external module '{name}' but that module has been disallowed"
                )
        self.own = f"<torch_package_{next(_numbers)}>"
        self.modules, self.loaders = {}, {}
        self.builtins = {**vars(builtins), "__import__": self.imported}
        self.source = Source(self)

    # --- files --------------------------------------------------------------------------------------------------------
    def read(self, path) -> bytes:
        return bytes(entry(self.archive, self.prefix + path))

    @staticmethod
    def path_of(package, resource):
        return f"{package.replace('.', '/')}/{resource}" if package else resource

    def load_binary(self, package: str, resource: str) -> bytes:
        """The bytes of a file.  FileNotFoundError where there is none."""
        path = self.path_of(package, resource)
        if path not in self.files:
            raise FileNotFoundError(f"the package {self.filename} has no {path}")
        return self.read(path)

    def load_text(self, package: str, resource: str, encoding="utf-8", errors="strict") -> str:
        """A text."""
        return self.load_binary(package, resource).decode(encoding, errors)

    def load_pickle(self, package: str, resource: str, map_location=None):
        """An object, its classes those of the package."""
        from ..serialization import place_of

        where = place_of(map_location)
        storages = self.loaders.setdefault(str(where), PackageStorages(self.archive, f"{self.prefix}.data/", where))
        return CodeUnpickler(io.BytesIO(self.load_binary(package, resource)), storages, self).load()

    def id(self) -> str:
        """Prefix of this package's module names."""
        return self.own

    def python_version(self):
        """The version of Python that wrote the package, None where it does not say."""
        return self.read(".data/python_version").decode().strip() if ".data/python_version" in self.files else None

    def file_structure(self, *, include="**", exclude=()) -> Directory:
        """The files of the package as a tree."""
        group = GlobGroup(include, exclude=exclude, separator="/")
        root = Directory(self.filename, True)
        for name in sorted(self.files):
            if group.matches(name):
                root.enter(name.split("/"))
        return root

    def get_source(self, module_name: str) -> str:
        """The text of a module."""
        return self.read(self.file_of(module_name)).decode()

    def get_resource_reader(self, fullname):
        return Resources(self, fullname)

    def file_of(self, name):
        path = name.replace(".", "/")
        return next((p for p in (f"{path}/__init__.py", f"{path}.py") if p in self.files), None)

    # --- modules ------------------------------------------------------------------------------------------------------
    def import_module(self, name: str, package=None):
        """A module of the package, or an external one."""
        if package is not None:
            name = importlib.util.resolve_name(name, package)
        return self.load(demangled(name))

    def load(self, name):
        if name in self.modules:
            return self.modules[name]
        owner, _, last = name.rpartition(".")
        parent = self.load(owner) if owner else None
        if name in self.modules:
            return self.modules[name]
        path = self.file_of(name)
        if path is None and not any(f.startswith(name.replace(".", "/") + "/") for f in self.files):
            return self.outside(name)
        module = self.modules[name] = self.new_module(name, path)
        try:
            if path is not None:
                text = self.get_source(name)
                linecache.cache[module.__file__] = len(text), None, text.splitlines(keepends=True), module.__file__
                exec(compile(text, module.__file__, "exec", dont_inherit=True), vars(module))
        except BaseException:
            del self.modules[name]
            raise
        if parent is not None:
            setattr(parent, last, module)
        return self.modules[name]

    def new_module(self, name, path):
        module = types.ModuleType(f"{self.own}.{name}")
        is_package = path is None or path.endswith("/__init__.py")
        module.__file__ = f"{self.own}.{path or name}"
        module.__package__ = module.__name__ if is_package else module.__name__.rpartition(".")[0]
        module.__loader__, module.__dict__["__builtins__"] = self.source, self.builtins
        module.__dict__["__torch_package__"] = True
        if is_package:
            module.__path__ = [f"{self.own}.{name.replace('.', '/')}"]
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, self.source, is_package=is_package)
        return module

    def outside(self, name):
        """A module of the process: one that the package names as external, or of the standard library."""
        parts = name.split(".")
        within = any(".".join(parts[:k]) in self.external for k in range(1, len(parts) + 1))
        listed = within or any(e.startswith(name + ".") for e in self.external)
        if not listed and parts[0] not in sys.stdlib_module_names and parts[0] not in ("torch", "rushlight"):
            raise ModuleNotFoundError(
                f"No module named '{name}' in self-contained archive '{self.filename}', and the module is also not "
                f"in the list of allowed external modules: {sorted(self.external)}",
                name=name,
            )
        if parts[0] == "torch" and "torch" not in sys.modules:
            name = "rushlight" + name[5:]
        return importlib.import_module(name)

    def imported(self, name, globals=None, locals=None, fromlist=(), level=0):
        """What ``import`` does in the package's modules."""
        if level:
            base = demangled((globals or {})["__package__"]).split(".")
            base = base[: len(base) - level + 1]
            name = ".".join([*base, *([name] if name else [])])
        module = self.load(name)
        if not fromlist:
            return module if level else self.load(name.partition(".")[0])
        for item in fromlist:
            if item != "*" and not hasattr(module, item) and hasattr(module, "__path__"):
                try:
                    self.load(f"{name}.{item}")
                except ModuleNotFoundError as error:
                    if error.name != f"{name}.{item}":
                        raise
        return module

    def whichmodule(self, obj, name):
        module = getattr(obj, "__module__", None)
        if module is not None:
            return module
        return next((n for n, m in self.modules.items() if getattr(m, name, None) is obj), "__main__")

    def get_name(self, obj, name=None):
        module = self.whichmodule(obj, name or getattr(obj, "__qualname__", ""))
        if module.startswith("<torch_package_") and not module.startswith(self.own + "."):
            from .importer import ObjMismatchError

            raise ObjMismatchError(f"{obj!r} comes from another package, {module.partition('>')[0]}>")
        return super().get_name(obj, name)

    def __repr__(self):
        return f"PackageImporter({self.filename!r})"


class PackageStorages(Storages):
    """Storages named as packages name them."""

    ending = ".storage"
