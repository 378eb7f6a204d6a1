"""PackageExporter: writes objects with the code of their classes."""

from __future__ import annotations

import enum
import importlib.machinery
import io
import os
import pickle
import sys
import types
import zipfile
from collections import defaultdict, namedtuple

from .._src.core.files import replaced
from ..serialization import Pickler, storage_bytes
from .._src.autograd.hooks import Handle
from .find_file_dependencies import find_files_source_depends_on
from .glob_group import GlobGroup
from .importer import OrderedImporter, sys_importer

IMPLIED = (
    frozenset(("torch", "rushlight", "builtins", "__future__")) | sys.stdlib_module_names
)  # wherever a package is read
Rule = namedtuple("Rule", "action group allow_empty")
MOCK = '''"""What stands for modules that were left out: its names can be imported, not used."""


class MockedObject:
    def __init__(self, name):
        self.__dict__["_name"] = name

    def _refuse(self, *args, **kwargs):
        raise NotImplementedError(f"Object '{self._name}' was mocked out during packaging and it is being used")

    __call__ = __getitem__ = __setitem__ = __iter__ = __len__ = __enter__ = __setattr__ = _refuse

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()

    def __mro_entries__(self, bases):
        self._refuse()
'''
MOCKED = """from {depth}_mock import MockedObject


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return MockedObject(__name__ + "." + name)
"""


class PackagingErrorReason(enum.Enum):
    """Why a module cannot be part of a package."""

    IS_EXTENSION_MODULE = "Module is a C extension module. torch.package supports Python modules only."
    NO_DUNDER_FILE = "Module had no __file__ defined."
    SOURCE_FILE_NOT_FOUND = "Module had a __file__, but we could not find it in your filesystem."
    DEPENDENCY_RESOLUTION_FAILED = "Dependency resolution failed."
    NO_ACTION = "Module did not match against any action pattern. Extern, mock, or intern it."
    DENIED = "Module was denied by a pattern."


LATER = (PackagingErrorReason.NO_ACTION, PackagingErrorReason.DENIED)  # fixed if the source is saved afterwards


class EmptyMatchError(Exception):
    """A pattern that had to match a module matched none."""


class PackagingError(Exception):
    """Modules that cannot be part of the package: reason -> their names, with what needs each."""

    def __init__(self, broken: dict, needed: dict):
        lines = []
        for reason, modules in broken.items():
            lines.append(f"* {reason.value}")
            lines += [
                f"    {m}" + (f", which {', '.join(sorted(needed[m]))} need" if needed.get(m) else "") for m in modules
            ]
        super().__init__("\n" + "\n".join(lines))
        self.broken = broken


class CodePickler(Pickler):
    """Writes classes and functions by the names that importers find them by, and notes their modules."""

    dispatch = dict(Pickler.dispatch)

    def __init__(self, file, importer, keys):
        super().__init__(file)
        self.importer, self.found, self.keys = importer, {}, keys

    def name_in_files(self, obj):
        """Return None: importers say how they find classes and functions."""

    def save_global(self, obj, name=None):
        if obj in (type(None), type(NotImplemented), type(...)):
            return super().save_type(obj)
        module, name = self.importer.get_name(obj, name)
        self.found[module] = None
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    dispatch[type] = dispatch[types.FunctionType] = save_global


class PackageExporter:
    """Writes a package into a file (a path, or a file object); a context manager that closes it.

    Every module that saved code or pickles need has to match a pattern: ``intern`` (its source goes into the package),
    ``extern`` (it is imported where the package is read), ``mock`` (it exists, and cannot be used) or ``deny``; the
    first that matches counts.  The standard library and the framework are external anyway.  ``importer``: where modules
    are found.
    """

    def __init__(self, f, importer=sys_importer, debug=False):
        self.importer = OrderedImporter(*importer) if isinstance(importer, (list, tuple)) else importer
        path = os.fspath(f) if isinstance(f, (str, os.PathLike)) else None
        self.name = os.path.splitext(os.path.basename(path))[0] if path else "archive"
        self.target, self.path = f, path
        self.entries: dict = {}  # path -> bytes
        self.rules: list[Rule] = []
        self.used: set = set()  # numbers of the rules that matched
        self.actions: dict = {}  # module -> what became of it
        self.needs: dict = defaultdict(dict)  # module or resource -> what it needs, in order
        self.broken: dict = defaultdict(list)
        self.hooks: dict = {"intern": {}, "extern": {}, "mock": {}}
        self.keys: dict = {}  # id of a storage -> its key, over all pickles
        self.storages: dict = {}
        self.count = 0

    # --- what becomes of modules --------------------------------------------------------------------------------------
    def intern(self, include, *, exclude=(), allow_empty=True):
        """The source of these modules goes into the package.  ``allow_empty=False``: EmptyMatchError if there are
        none."""
        self.rules.append(Rule("intern", GlobGroup(include, exclude=exclude), allow_empty))

    def extern(self, include, *, exclude=(), allow_empty=True):
        """These modules are imported where the package is read."""
        self.rules.append(Rule("extern", GlobGroup(include, exclude=exclude), allow_empty))

    def mock(self, include, *, exclude=(), allow_empty=True):
        """These modules can be imported from the package, and raise NotImplementedError where they are used."""
        self.rules.append(Rule("mock", GlobGroup(include, exclude=exclude), allow_empty))

    def deny(self, include, *, exclude=()):
        """These modules must not be needed: PackagingError."""
        self.rules.append(Rule("deny", GlobGroup(include, exclude=exclude), True))

    def register_intern_hook(self, hook):
        """Calls ``hook(exporter, module name)`` for each module whose source is written; a handle that removes it."""
        return self.registered("intern", hook)

    def register_extern_hook(self, hook):
        """The same for external modules."""
        return self.registered("extern", hook)

    def register_mock_hook(self, hook):
        """The same for mocked modules."""
        return self.registered("mock", hook)

    def registered(self, action, hook):
        return Handle(self.hooks[action], hook)

    def add_dependency(self, module_name: str, dependencies=True):
        """Does with a module, and what it needs, what the patterns say."""
        if module_name in self.actions:
            return
        action = "extern" if module_name.partition(".")[0] in IMPLIED else None
        for k, rule in enumerate(self.rules):
            if action is None and rule.group.matches(module_name):
                action = rule.action
                self.used.add(k)
        self.actions[module_name] = action
        for hook in list(self.hooks.get(action, {}).values()):
            hook(self, module_name)
        if action == "intern":
            self.write_module(module_name, dependencies)
        elif action == "mock":
            self.write_mock(module_name)
        elif action is None:
            self.broken[PackagingErrorReason.NO_ACTION].append(module_name)
        elif action == "deny":
            self.broken[PackagingErrorReason.DENIED].append(module_name)

    def need(self, who: str, module: str, dependencies=True):
        self.needs[who][module] = None
        self.add_dependency(module, dependencies)

    # --- code ---------------------------------------------------------------------------------------------------------
    def save_module(self, module_name: str, dependencies=True):
        """Writes the source of a module, and what it needs.  TypeError for what is no name."""
        if not isinstance(module_name, str):
            raise TypeError("save_module() expects a string input, did you perhaps mean to pass `__name__`?")
        self.actions[module_name] = "intern"
        self.write_module(module_name, dependencies)

    def save_source_file(self, module_name: str, file_or_directory: str, dependencies=True):
        """Write a file, or all Python files of a directory, as a module, or a package with its modules."""
        if not os.path.isdir(file_or_directory):
            with open(file_or_directory, encoding="utf-8") as file:
                return self.save_source_string(module_name, file.read(), False, dependencies)
        for folder, _, names in sorted(os.walk(file_or_directory)):
            below = os.path.relpath(folder, file_or_directory)
            parts = [module_name] + ([] if below == "." else below.split(os.sep))
            for name in sorted(n for n in names if n.endswith(".py")):
                inner = parts if name == "__init__.py" else [*parts, name[:-3]]
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    self.save_source_string(".".join(inner), file.read(), name == "__init__.py", dependencies)
        return None

    def save_source_string(self, module_name: str, src: str, is_package=False, dependencies=True):
        """Writes a module's source."""
        self.actions[module_name] = "intern"
        self.write_source(module_name, src, is_package, dependencies)

    def write_module(self, name, dependencies):
        found = self.source_of(name)
        if found is None:
            return
        owner = name.rpartition(".")[0]
        if owner:
            self.need(name, owner, dependencies)
        self.write_source(name, *found, dependencies)

    def source_of(self, name):
        """(source, whether it is a package); None, with the reason noted, where there is none."""
        try:
            module = self.importer.import_module(name)
        except ImportError:
            self.broken[PackagingErrorReason.DEPENDENCY_RESOLUTION_FAILED].append(name)
            return None
        package = hasattr(module, "__path__")
        source = getattr(getattr(module, "__loader__", None), "get_source", None)
        path = getattr(module, "__file__", None)
        if path is not None and path.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
            self.broken[PackagingErrorReason.IS_EXTENSION_MODULE].append(name)
        elif path is None and not package:
            self.broken[PackagingErrorReason.NO_DUNDER_FILE].append(name)
        elif path is None:
            return "", True  # a namespace
        else:
            try:
                text = source(module.__name__) if source is not None else None
            except (ImportError, OSError):
                text = None
            if text is not None:
                return text, package
            self.broken[PackagingErrorReason.SOURCE_FILE_NOT_FOUND].append(name)
        return None

    def write_source(self, name, source, is_package, dependencies):
        path = name.replace(".", "/")
        self.write(f"{path}/__init__.py" if is_package else f"{path}.py", source.encode())
        if not dependencies:
            return
        package = name if is_package else name.rpartition(".")[0]
        for module, inner in find_files_source_depends_on(source, package):
            if inner is not None and self.is_module(f"{module}.{inner}"):
                self.need(name, f"{module}.{inner}")
            if module:
                self.need(name, module)

    def is_module(self, name) -> bool:
        if name.partition(".")[0] in IMPLIED:
            return False
        try:
            self.importer.import_module(name)
        except ImportError:
            return False
        return True

    def write_mock(self, name):
        self.write("_mock.py", MOCK.encode())
        package = self.is_module(name) and hasattr(self.importer.import_module(name), "__path__")
        path = name.replace(".", "/") + ("/__init__.py" if package else ".py")
        self.write(path, MOCKED.format(depth="." * (name.count(".") + 1 + package)).encode())

    # --- data ---------------------------------------------------------------------------------------------------------
    def save_pickle(self, package: str, resource: str, obj, dependencies=True, pickle_protocol: int = 3):
        """Writes an object; the modules of its classes become what the patterns say.  Pickles are of protocol 3;
        AssertionError for a ``pickle_protocol`` other than that and 4."""
        if pickle_protocol not in (3, 4):
            raise AssertionError(f"torch.package only supports pickle protocols 3 and 4, got {pickle_protocol}")
        text = io.BytesIO()
        pickler = CodePickler(text, self.importer, self.keys)
        pickler.dump(obj)
        self.storages.update(pickler.storages)
        path = self.resource(package, resource)
        if dependencies:
            for module in pickler.found:
                self.need(f"<{package}.{resource}>", module)
        self.write(path, text.getvalue())

    def save_text(self, package: str, resource: str, text: str):
        """Writes a text."""
        self.save_binary(package, resource, text.encode())

    def save_binary(self, package, resource, binary: bytes):
        """Writes bytes."""
        self.write(self.resource(package, resource), binary)

    @staticmethod
    def resource(package, resource):
        return f"{package.replace('.', '/')}/{resource}"

    def get_unique_id(self) -> str:
        """A number that this package gives once."""
        self.count += 1
        return str(self.count - 1)

    def write(self, path, data):
        self.entries.setdefault(path, data)

    # --- what came of it ----------------------------------------------------------------------------------------------
    def modules(self, action):
        return [name for name, found in self.actions.items() if found == action]

    def externed_modules(self) -> list:
        """Names of the external modules."""
        return self.modules("extern")

    def interned_modules(self) -> list:
        """Names of the modules whose source is in the package."""
        return self.modules("intern")

    def mocked_modules(self) -> list:
        """Names of the mocked modules."""
        return self.modules("mock")

    def denied_modules(self) -> list:
        """Names of the denied modules that are needed."""
        return self.modules("deny")

    def get_rdeps(self, module_name: str) -> list:
        """Return the dependents of a module."""
        return [who for who, needed in self.needs.items() if module_name in needed]

    def edges(self, pairs):
        return "digraph G {\n" + "".join(f'"{a}" -> "{b}";\n' for a, b in pairs) + "}\n"

    def dependency_graph_string(self) -> str:
        """Return the dependency graph, for Graphviz."""
        return self.edges((who, module) for who, needed in self.needs.items() for module in needed)

    def all_paths(self, src: str, dst: str) -> str:
        """The part of that graph that lies between two modules."""

        def reached(start, following):
            seen, rest = {start}, [start]
            while rest:
                more = [m for m in following(rest.pop()) if m not in seen]
                seen.update(more)
                rest += more
            return seen

        kept = reached(src, lambda m: self.needs.get(m, ())) & reached(dst, self.get_rdeps)
        return self.edges((a, b) for a in self.needs for b in self.needs[a] if a in kept and b in kept)

    def close(self):
        """Writes the file.  PackagingError where modules that are needed cannot be part of it; EmptyMatchError."""
        broken = {
            reason: [m for m in modules if reason not in LATER or self.actions[m] != "intern"]
            for reason, modules in self.broken.items()
        }
        broken = {reason: modules for reason, modules in broken.items() if modules}
        if broken:
            raise PackagingError(broken, {m: self.get_rdeps(m) for modules in broken.values() for m in modules})
        for k, rule in enumerate(self.rules):
            if not rule.allow_empty and k not in self.used:
                raise EmptyMatchError(
                    f"Exporter did not match any modules to {rule.group}, which was marked as allow_empty=False"
                )
        for key, storage in self.storages.items():
            self.write(f".data/{key}.storage", storage_bytes(storage))
        external = sorted({m for m in self.externed_modules() if m.partition(".")[0] != "rushlight"} | {"torch"})
        for name, text in (
            ("extern_modules", "\n".join(external)),
            ("version", "6\n"),
            ("python_version", ".".join(map(str, sys.version_info[:3]))),
        ):
            self.write(f".data/{name}", text.encode())
        if self.path is None:
            self.write_archive(self.target)
        else:
            with replaced(self.path) as file:
                self.write_archive(file)

    def write_archive(self, file):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for path, data in self.entries.items():
                archive.writestr(f"{self.name}/{path}", data)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.close()
