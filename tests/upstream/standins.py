"""Lets files of PyTorch's tests load where names that they import are not there: stand-ins take their place until all
tests are collected; a test that then uses one fails with ``AbsentName``.

The testing library (``torch.testing._internal``) is that of an installed torch, or of the tests' sources where there is
none; the names of tests must be the same on both sides.
"""
from __future__ import annotations

import builtins
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import sys
import types

LIBRARY = "torch.testing._internal"
PARTS = LIBRARY, "torch.testing._comparison", "torch.testing._utils", "torch._vendor"
OWN = f"{LIBRARY}.distributed.fake_pg"  # enters a backend that a program finds entered: each side has its own
OLDER = f"{LIBRARY}.common_nn"  # the tests' own version: that of an installed torch has not got all tables
RENAMED = {f"{LIBRARY}.common_methods_invocations.binary_ufuncs_and_refs": "binary_ufuncs"}  # since the tests' version
ARGUMENTS = f"{LIBRARY}.generated.annotated_fn_args"  # a table whose keys are all native functions
ROOTS = "torch", "functorch"
UNASKED = {  # what pytest and the testing library look for in whatever they meet
    "parametrize_fn", "pytestmark", "dtypes", "slow_test", "hypothesis", "side_effect", "get_opoverload", "place_as",
    "obj", "_pytestfixturefunction", "im_func", "_do_cuda_memory_leak_check", "_do_cuda_non_default_stream",
    "_ignore_not_implemented_error", "_wrapped", "skip_if_dynamo", "_mock_methods"}
loading = True


class AbsentName(Exception):
    """A test used a name that its side does not have."""


def only_a_name(value) -> bool:
    """Whether Rushlight has it as a name that refuses to be used."""
    return type(value).__name__ == "AbsentObject" or str(getattr(value, "__doc__", "")).startswith("Not implemented: ")


class Absent:
    """Stands for a name while files load: called, indexed, or asked for an attribute it gives another; as a decorator
    it makes tests that fail, as a base it makes a class without instances."""

    def __init__(self, name):
        object.__setattr__(self, "_name", name)

    def _further(self, what):
        if loading:
            return Absent(self._name + what)
        raise AbsentName(self._name)

    def __getattr__(self, name):
        if name == "__all__":
            return []
        if name.startswith("__") or name in UNASKED:
            raise AttributeError(name)
        return self._further("." + name)

    def __call__(self, *args, **kwargs):
        decorated = args[0] if loading and len(args) == 1 and not kwargs else None
        if isinstance(decorated, type):
            return decorated
        if not isinstance(decorated, types.FunctionType):
            return self._further("()")

        @functools.wraps(decorated)
        def test(*args, **kwargs):
            raise AbsentName(self._name)
        return test

    def __mro_entries__(self, bases):
        def new(cls, *args, **kwargs):
            return self._further("()")
        return (type(self._name.rpartition(".")[2], (), {
            "__new__": new, "__init_subclass__": classmethod(lambda cls, **kwargs: None)}),)

    def __getitem__(self, key):
        return self._further(f"[{key!r}]")

    def __enter__(self):
        return self._further("")

    def __exit__(self, *exception):
        return False

    def __iter__(self):
        return iter((self._further("[0]"),))

    def __bool__(self):
        self._further("")
        return False

    def __or__(self, other):
        return object

    __ror__ = __or__

    def __instancecheck__(self, value):
        return False

    __subclasscheck__ = __instancecheck__

    def __repr__(self):
        return f"<absent {self._name}>"


class AbsentModule(types.ModuleType):
    """A module that is not there."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(self.__name__)._further("." + name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """First of all: the testing library from its folder."""

    def __init__(self, sources: pathlib.Path):
        installed = importlib.machinery.PathFinder.find_spec("torch")
        self.sources, self.library = sources, sources
        if installed is not None:
            self.library = pathlib.Path(installed.origin).parents[1]

    def find_spec(self, fullname, path=None, target=None):
        if fullname != OWN and any(f"{fullname}.".startswith(f"{part}.") for part in PARTS):
            base = (self.sources if fullname == OLDER else self.library).joinpath(*fullname.split("."))
            for file, inside in ((base / "__init__.py", [str(base)]), (base.with_suffix(".py"), None)):
                if file.exists():
                    return importlib.util.spec_from_file_location(fullname, file, submodule_search_locations=inside)
        return None


class Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Last of all: modules of PyTorch that are not there, while files load."""

    def __init__(self, asked_by_tests):
        self.asked_by_tests, self.hidden = asked_by_tests, []

    def find_spec(self, fullname, path=None, target=None):
        if not loading or fullname.partition(".")[0] not in ROOTS or not self.asked_by_tests(sys._getframe(1)):
            return None
        parent, _, child = fullname.rpartition(".")
        held = vars(sys.modules[parent]).get(child)
        if held is not None:  # a function may be called as the module is: autograd.gradcheck
            self.hidden.append((sys.modules[parent], child, held))
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        return AbsentModule(spec.name)

    def exec_module(self, module):
        pass

    def restore(self):
        for parent, child, held in self.hidden:
            setattr(parent, child, held)


def stand_for_missing(kind: type, inside: str):
    """Lets objects of a class answer with a stand-in for attributes that they lack, but to files ``inside``."""
    plain = kind.__getattr__

    def found(self, name):
        try:
            return plain(self, name)
        except AttributeError:
            if loading and name[:2] != "__" and not sys._getframe(1).f_code.co_filename.startswith(inside):
                return Absent(f"torch.ops.{self.__name__}.{name}")
            raise
    kind.__getattr__ = found


def stand_for_operators():
    """Tables of the testing library, and of tests, name operators and overloads that are not there: while they load,
    each has a stand-in."""
    torch = importlib.import_module("torch")
    inside = str(pathlib.Path(torch.__file__).parent)
    for kind in (type(torch.ops.aten), type(torch.ops.aten.add)):
        stand_for_missing(kind, inside)

    core = importlib.import_module(f"{LIBRARY}.opinfo.core")
    asked = core._getattr_qual

    def named(owner, name, *default):
        try:
            return asked(owner, name, *default)
        except AttributeError:
            if loading:
                return Absent(f"{owner.__name__}.{name}")
            raise
    core._getattr_qual = named


class Named:
    """What ``from module import ...`` in a test's file looks into: the module, with stand-ins for what it lacks."""

    def __init__(self, module):
        self.module = module

    def __getattr__(self, name):
        full = f"{self.module.__name__}.{name}"
        value = getattr(self.module, name, None)
        if value is None and full in RENAMED:
            return getattr(self.module, RENAMED[full])
        if value is None and not hasattr(self.module, name) or only_a_name(value):
            return sys.modules.get(full) or Absent(full)
        return value


class Listing:
    """A module of theirs that the table of native functions reads, with a stand-in for each missing name."""

    def __init__(self, room, name):
        self.room, self.name = room, name

    def __getattr__(self, name):
        value, full = getattr(self.room, name, None), f"{self.name}.{name}"
        if isinstance(value, (type, types.ModuleType)) or name[:1] == "_" and name in vars(self.room):
            return Listing(value, full)
        return Absent(full) if value is None or only_a_name(value) else value


def install(sources: pathlib.Path):
    """Puts the stand-ins up, and returns the function that ends them when all tests are collected."""
    finder = Finder(sources)
    folders = str(sources), *(str(finder.library.joinpath(*part.split("."))) for part in PARTS)
    plain = builtins.__import__

    def asked_by_tests(frame):
        while frame is not None:
            file = frame.f_code.co_filename
            if file != __file__ and not file.startswith("<frozen") and "importlib" not in file:
                return file.startswith(folders)
            frame = frame.f_back
        return False

    def imported(name, globals=None, locals=None, fromlist=(), level=0):
        module = plain(name, globals, locals, fromlist, level)
        missing.restore()
        if name == "torch" and (globals or {}).get("__name__") == ARGUMENTS:
            return Listing(module, name)
        if fromlist and not level and name.partition(".")[0] in ROOTS and "*" not in fromlist and \
                str((globals or {}).get("__file__")).startswith(folders):
            return Named(module)
        return module

    def loaded():
        global loading
        loading = False
        builtins.__import__ = plain
        missing.restore()

    missing = Missing(asked_by_tests)
    sys.meta_path.insert(0, finder)
    importlib.import_module("torch.testing._utils")  # now the library's, also where it is asked for as an attribute
    sys.meta_path.append(missing)
    builtins.__import__ = imported
    return loaded
