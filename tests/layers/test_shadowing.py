"""The variable of a loop has the name of no parameter: what was given would be lost without a word."""
from __future__ import annotations

import ast
import pathlib

from .sources import statements

ROOT = pathlib.Path(__file__).resolve().parents[2]


def shadowing(tree: ast.Module) -> list:
    """(line, function, names) of loops whose variables replace parameters."""
    found = []
    for function in statements(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = {node.arg for node in parameters(function.args)} - {"_"}
            for loop in own_statements(function):
                if isinstance(loop, (ast.For, ast.AsyncFor)):
                    bound = {node.id for node in ast.walk(loop.target)
                             if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
                    if bound & given:
                        found.append((loop.lineno, function.name, sorted(bound & given)))
    return found


def parameters(told: ast.arguments) -> list:
    return [*told.posonlyargs, *told.args, *told.kwonlyargs, *filter(None, (told.vararg, told.kwarg))]


def own_statements(function):
    """The statements of a function that are not those of functions and classes in it."""
    inner = {id(one) for node in statements(function) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef,
                                                                           ast.ClassDef)) for one in statements(node)}
    return [node for node in statements(function) if id(node) not in inner]


def test_no_loop_replaces_a_parameter():
    found = [f"{path.relative_to(ROOT).as_posix()}:{line} {name}: {', '.join(names)}"
             for path in sorted((ROOT / "rushlight").rglob("*.py"))
             for line, name, names in shadowing(ast.parse(path.read_text(encoding="utf-8")))]
    assert not found, "\n".join(found)


def test_such_loops_are_seen():
    tree = ast.parse("def f(a, *b, c=1):\n    for i, (c, b) in x:\n        def g(i):\n            for a in i: pass\n"
                     "def h(_):\n    for _ in x: pass\n")
    assert shadowing(tree) == [(2, "f", ["b", "c"])]
