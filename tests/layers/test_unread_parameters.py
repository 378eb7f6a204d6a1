"""A parameter of a public function that nothing reads is an option that does nothing: those that there are stand in a
list, and the list grows no longer."""
from __future__ import annotations

import ast
import collections
import pathlib

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "rushlight"
LISTED = pathlib.Path(__file__).with_name("unread_parameters.txt")
FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef


def is_public(path: pathlib.Path) -> bool:
    return all(part == "__init__.py" or not part.startswith("_") for part in path.relative_to(PACKAGE).parts)


def is_named_publicly(name: str) -> bool:
    return name == "__init__" or not name.startswith("_")


def defined(tree: ast.AST, owner=""):
    """(qualified name, node) of the public functions of a module and the public methods of its classes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, FUNCTIONS) and is_named_publicly(node.name):
            yield owner + node.name, node
        elif isinstance(node, ast.ClassDef) and is_named_publicly(node.name):
            yield from defined(node, f"{owner}{node.name}.")


def is_empty(function) -> bool:
    """Whether a body has statements that raise or pass alone: what others implement, or is refused."""
    return all(isinstance(s, (ast.Pass, ast.Raise)) or isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)
               for s in function.body)


def unread(function) -> list:
    """The parameters that a body does not read."""
    read = {node.id for statement in function.body for node in ast.walk(statement) if isinstance(node, ast.Name)
            and not isinstance(node.ctx, ast.Store)}
    own = function.args
    names = [a.arg for a in (*own.posonlyargs, *own.args, *own.kwonlyargs, own.vararg, own.kwarg) if a is not None]
    return [] if "locals" in read or is_empty(function) else [
        name for name in names if name not in read and name not in ("self", "cls") and not name.startswith("_")]


def found() -> set:
    """"path function: parameter" of each; methods of a name that several classes have answer to one interface, whose
    parameters they need not all read."""
    modules = {path: list(defined(ast.parse(path.read_text(encoding="utf-8")))) for path in sorted(
        PACKAGE.rglob("*.py")) if is_public(path)}
    methods = collections.Counter(name.rpartition(".")[2] for functions in modules.values() for name, _ in functions
                                  if "." in name)
    return {f"{path.relative_to(PACKAGE).as_posix()} {name}: {parameter}" for path, functions in modules.items()
            for name, node in functions if "." not in name or name.endswith(".__init__")
            or methods[name.rpartition(".")[2]] == 1 for parameter in unread(node)}


def test_each_parameter_is_read_or_listed():
    """What is read now leaves the list; what is new is honoured, or refused unless it has its default."""
    listed = {line for line in LISTED.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")}
    seen = found()
    assert not seen - listed, "nothing reads " + ", ".join(sorted(seen - listed))
    assert not listed - seen, "is read, or gone: " + ", ".join(sorted(listed - seen))


def test_unread_parameters_are_seen():
    made = ast.parse("def f(a, b, *c, d=1, _e=2, **g):\n    a = 1\n    return [b for x in g]\n"
                     "def g(a):\n    raise ValueError\ndef _h(a):\n    return 1\n"
                     "class C:\n    def __init__(self, a):\n        self.b = 1")
    assert [(name, unread(node)) for name, node in defined(made)] == [
        ("f", ["a", "d", "c"]), ("g", []), ("C.__init__", ["a"])]
