"""Lines have 120 characters at most, functions 80 lines, files 600: ``not_yet.txt`` lists what is still longer.

A line of the list is ``lines PATH`` (of a file, or a folder and all that it holds), ``file PATH`` or ``function PATH
NAME``.  ``python -m tests.layers.test_lines`` takes off what is no longer too long.
"""
from __future__ import annotations

import ast
import pathlib

import pytest

from .sources import statements

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = pathlib.Path(__file__).with_name("not_yet.txt")
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


def too_long(path: pathlib.Path) -> list:
    """What of a file is too long, as lines of the list.  Lines of tables, examples and ``noqa`` may be longer."""
    source, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
    lines = source.splitlines()
    found = [f"file {name}"] if len(lines) > FILE else []
    wide = {k for k, line in enumerate(lines, 1)
            if len(line) > WIDTH and "# noqa" not in line and ">>> " not in line and "   " not in line.strip()}
    if wide or len(lines) > FUNCTION:
        tree = ast.parse(source)
        found += [f"lines {name}"] if wide - texts(tree) else []
        found += [f"function {name} {node.name}" for node in statements(tree)
                  if isinstance(node, DOCUMENTED[2:]) and node.end_lineno - node.lineno >= FUNCTION]
    return found


def listed(entry: str, known: set) -> bool:
    """Whether an entry, or a folder that its file lies in, is on the list."""
    kind, _, path = entry.partition(" ")
    folders = [f"{kind} {parent.as_posix()}/" for parent in pathlib.PurePosixPath(path).parents]
    return entry in known or not known.isdisjoint(folders)


def not_yet() -> set:
    return set(LIST.read_text(encoding="utf-8").split("\n"))


def room(path: pathlib.Path) -> str:
    """The folder below the top, or the first below ``_src``: a test each."""
    parts = path.relative_to(ROOT).parts[:-1]
    return "/".join(parts[:3] if "_src" in parts else parts[:2])


@pytest.mark.parametrize("name", sorted({room(path) for path in FILES}))
def test_nothing_new_is_too_long(name):
    known = not_yet()
    found = [entry for path in FILES if room(path) == name for entry in too_long(path) if not listed(entry, known)]
    assert not found, "too long (see this file's first lines):\n" + "\n".join(found)


def shortened() -> str:
    """The list without what is no longer too long."""
    found = {entry for path in FILES for entry in too_long(path)}
    folders = {f"lines {parent.as_posix()}/" for entry in found if entry.startswith("lines ")
               for parent in pathlib.PurePosixPath(entry.partition(" ")[2]).parents}
    return "\n".join(sorted(entry for entry in not_yet() & (found | folders) if entry)) + "\n"


if __name__ == "__main__":
    LIST.write_text(shortened(), encoding="utf-8")
