"""Lines have 120 characters at most, functions 80 lines, files 600.

``EXCEPTED`` says which lines may be longer, and why; functions and files have no exceptions.
"""
from __future__ import annotations

import ast
import pathlib

import pytest

from .sources import statements

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTH, FUNCTION, FILE = 120, 80, 600
FILES = sorted(path for folder in ("rushlight", "tests", "benchmarks", "examples", "building")
               for path in (ROOT / folder).rglob("*.py"))
DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef


def texts(tree: ast.Module) -> set:
    """Numbers of the lines inside strings of several lines that are no docstrings: tables of names, programs."""
    told = {id(node.body[0].value) for node in ast.walk(tree)
            if isinstance(node, DOCUMENTED) and node.body and isinstance(node.body[0], ast.Expr)}
    return {line for node in ast.walk(tree)
            if isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in told and node.end_lineno
            > node.lineno
            for line in range(node.lineno, node.end_lineno + 1)}


EXCEPTED = {
    "tables": lambda line: "   " in line.strip(),  # columns that are aligned by spaces
    "examples": lambda line: ">>> " in line,  # one line is one statement, which is run
    "directives": lambda line: "# noqa" in line,  # must stand on the line that they are about
}


def too_long(path: pathlib.Path) -> list:
    """What of a file is too long.  Lines of strings of several lines count as tables."""
    source, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
    lines = source.splitlines()
    found = [f"{name} has {len(lines)} lines"] if len(lines) > FILE else []
    wide = {k for k, line in enumerate(lines, 1)
            if len(line) > WIDTH and not any(excepted(line) for excepted in EXCEPTED.values())}
    if wide or len(lines) > FUNCTION:
        tree = ast.parse(source)
        found += [f"{name}:{k} has {len(lines[k - 1])} characters" for k in sorted(wide - texts(tree) if wide else ())]
        found += [f"{name}:{node.lineno} {node.name}() is long" for node in statements(tree)
                  if isinstance(node, DOCUMENTED[2:]) and node.end_lineno - node.lineno >= FUNCTION]
    return found


def room(path: pathlib.Path) -> str:
    """The folder below the top, or the first below ``_src``: a test each."""
    parts = path.relative_to(ROOT).parts[:-1]
    return "/".join(parts[:3] if "_src" in parts else parts[:2])


@pytest.mark.parametrize("name", sorted({room(path) for path in FILES}))
def test_nothing_is_too_long(name):
    found = [entry for path in FILES if room(path) == name for entry in too_long(path)]
    assert not found, "\n".join(found)


def test_what_is_too_long_is_seen(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "file.py"
    long = "x = 1\n" * (FUNCTION + 1)
    path.write_text("def f():\n" + long.replace("x", "    x") + "y = " + "'" + "a" * WIDTH + "'\n" + long * 7)
    assert [entry.split(" ", 1)[1] for entry in too_long(path)] == [
        f"has {8 * FUNCTION + 10} lines", f"has {WIDTH + 6} characters", "f() is long"]
