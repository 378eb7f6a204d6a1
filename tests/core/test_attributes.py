"""Attributes that the package reads are defined: a rename leaves no reader of the old name behind.

The class of a value is known for ``self``, for parameters annotated with a class of the package, and for variables
that are bound once, to a call of such a class.  Instances without ``__dict__``, such as those of native classes, have
what their classes declare and nothing else.  Others also have what is set from outside, by name or by ``setattr``: for
them any name counts that some file of the package stores, passes as a keyword or holds in a string.
"""
from __future__ import annotations

import ast
import collections
import importlib
import pathlib
import re
import types

import pytest

import rushlight  # noqa: F401
from rushlight._src.core.native.objects import GradNode, Plan

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef
DYNAMIC = "__getattr__", "__getattribute__"


class Source:
    """A file: its tree, its module, the attributes that each of its classes stores, and the names it sets."""

    def __init__(self, path: pathlib.Path):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        self.path, self.tree = path, ast.parse(path.read_text(encoding="utf-8"))
        try:
            self.module = None if name.endswith("__main__") else importlib.import_module(name)
        except ModuleNotFoundError:  # of another operating system
            self.module = None
        self.stored, self.names, strings = collections.defaultdict(set), set(), []
        self.collect(self.tree, (), strings)
        self.names.update(re.findall(r"\w+", "\n".join(strings)))

    def collect(self, node, classes, strings):
        for child in ast.iter_child_nodes(node):
            name = None
            if isinstance(child, ast.Attribute) and not isinstance(child.ctx, ast.Load):
                name = child.attr
            elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
                name = child.target.id
            elif isinstance(child, ast.keyword):
                self.names.add(child.arg)
            elif isinstance(child, ast.Constant) and isinstance(child.value, str) and not isinstance(node, ast.Expr):
                strings.append(child.value)
            if name is not None:
                self.names.add(name)
                for owner in classes:
                    self.stored[owner].add(name)
            self.collect(child, (*classes, child.name) if isinstance(child, ast.ClassDef) else classes, strings)


class Package:
    """The files of the package, and what its classes define."""

    def __init__(self, paths):
        self.sources = [Source(path) for path in paths]
        self.stored = {(source.module.__name__, name): names for source in self.sources if source.module is not None
                       for name, names in source.stored.items()}
        self.names = set().union(*(source.names for source in self.sources))
        self.defined = {}

    def attributes(self, cls: type) -> tuple:
        """Sets that together hold the attributes that instances of a class may have; none of them if nothing tells."""
        if cls not in self.defined:
            self.defined[cls] = self.find_attributes(cls)
        return self.defined[cls]

    def find_attributes(self, cls: type) -> tuple:
        bases = [base for base in cls.__mro__ if base.__module__.startswith("rushlight")]
        if len(bases) + 1 < len(cls.__mro__) or any(name in vars(base) for base in bases for name in DYNAMIC):
            return ()
        found = set()
        for one in (*bases, *subclasses(cls)):
            found.update(dir(one), self.stored.get((one.__module__, one.__name__), ()))
        return (found, self.names) if cls.__dictoffset__ else (found,)  # the names of all files are one set, not copied


def subclasses(cls: type):
    for one in type.__subclasses__(cls):
        yield one
        yield from subclasses(one)


def dotted(node) -> str | None:
    """A name, or an attribute of one, as text; None for another expression, or for none."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else None


class Reader:
    """Lists reads of attributes that the classes of their values lack, in one file."""

    def __init__(self, package: Package, tree: ast.Module, names: dict):
        self.package, self.names, self.count, self.missing = package, names, [0, 0], []
        self.visit(tree, {}, names)

    def visit(self, node, known: dict, owner):
        """``known``: the classes of variables; ``owner``: the class or namespace that defines the functions here."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FUNCTIONS):
                self.visit(child, {**known, **self.known_variables(child, owner)}, None)
            elif isinstance(child, ast.ClassDef):
                cls = owner.get(child.name) if isinstance(owner, dict) else None
                self.visit(child, known, cls if isinstance(cls, type) and cls.__name__ == child.name else None)
            else:
                self.check(child, known)
                self.visit(child, known, owner)

    def check(self, node, known):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
            cls = known.get(node.value.id)
            attributes = () if cls is None else self.package.attributes(cls)
            if attributes:
                self.count[cls.__dictoffset__ == 0] += 1
                if not any(node.attr in names for names in attributes):
                    self.missing.append((node.lineno, f"{node.value.id}.{node.attr}", cls.__name__))

    def known_variables(self, function, owner) -> dict:
        """Variable -> class, or None for one whose class is unknown."""
        told = function.args
        known = {one.arg: self.resolve(one.annotation) for one in (*told.posonlyargs, *told.args, *told.kwonlyargs)}
        known.update({one.arg: None for one in (told.vararg, told.kwarg) if one is not None})
        if isinstance(owner, type) and "self" in known and not function.decorator_list:
            known["self"] = owner
        bound, made = collections.Counter(), {}
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound[node.id] += 1
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value,
                                                                                                       ast.Call):
                made[node.targets[0].id] = self.resolve_call(node.value)
        known.update({name: made.get(name) if times == 1 and name not in known else None
                      for name, times in bound.items()})
        return known

    def resolve(self, node):
        """The class of the package that an annotation or a called expression names."""
        text = node.value if isinstance(node, ast.Constant) else dotted(node)
        if not isinstance(text, str) or not re.fullmatch(r"\w+(\.\w+)?", text):
            return None
        first, _, rest = text.partition(".")
        found = self.names.get(first)
        if rest:
            found = vars(found).get(rest) if isinstance(found, types.ModuleType) else None
        return found if isinstance(found, type) and found.__module__.startswith("rushlight") else None

    def resolve_call(self, node: ast.Call):
        """The class of what a call makes; None where ``__new__`` may return anything."""
        cls = self.resolve(node.func)
        return cls if cls is not None and ("__new__" not in vars(cls) or cls.__dictoffset__ == 0) else None


@pytest.fixture(scope="module")
def package():
    return Package(sorted((ROOT / "rushlight").rglob("*.py")))


def test_attributes_that_are_read_are_defined(package):
    found, counts = [], []
    for source in package.sources:
        if source.module is not None:
            reader = Reader(package, source.tree, vars(source.module))
            counts.append(reader.count)
            found += [f"{source.path.relative_to(ROOT).as_posix()}:{line}: {text}, of {name}"
                      for line, text, name in reader.missing]
    assert not found, "\n".join(found)
    others, declared = map(sum, zip(*counts))
    assert others > 10000 and declared > 1000


class Sized:
    """A class of this test's own, as if it were the package's."""

    def __init__(self):
        self.rows = 1


def test_such_reads_are_found(package, monkeypatch):
    monkeypatch.setattr(Sized, "__module__", "rushlight.sized")
    monkeypatch.setitem(package.stored, ("rushlight.sized", "Sized"), {"rows"})
    tree = ast.parse("def f(node: GradNode, plan: 'Plan'):\n    node.step, node.kind, plan.spending, plan.op.step\n"
                     "def g(node: GradNode):\n    for node in node.edges:\n        node.step\n"
                     "def h():\n    sized = Sized()\n    sized.rows, sized.rows_of_old\n    return lambda: sized.old_rows\n")
    reader = Reader(package, tree, {"GradNode": GradNode, "Plan": Plan, "Sized": Sized})
    assert [text for _, text, _ in reader.missing] == ["node.step", "plan.spending", "sized.rows_of_old",
                                                       "sized.old_rows"]
