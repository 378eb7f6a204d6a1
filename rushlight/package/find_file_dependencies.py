"""Imports of a source file."""

from __future__ import annotations

import ast


def find_files_source_depends_on(src: str, package: str) -> list:
    """Pairs of a module's name and a name imported from it (None: the module itself), of a source in this package."""
    found: dict = {}
    for node in ast.walk(ast.parse(src)):
        if isinstance(node, ast.Import):
            found.update(dict.fromkeys((alias.name, None) for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            owner = package.split(".") if package else []
            base = owner[: len(owner) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found.update(dict.fromkeys((module, None if alias.name == "*" else alias.name) for alias in node.names))
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "__import__"
            and node.args
        ):
            if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                found[node.args[0].value, None] = None
    return list(found)
