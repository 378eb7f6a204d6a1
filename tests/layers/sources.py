"""What files of the project import, and their statements."""
from __future__ import annotations

import ast
import functools
import pathlib

BLOCKS = "body", "orelse", "finalbody", "handlers", "cases"


def statements(node: ast.AST):
    """The statements within one.  Most of a tree are expressions, which nobody asks for here."""
    for block in BLOCKS:
        for inner in getattr(node, block, ()):
            yield inner
            yield from statements(inner)


@functools.cache
def imported(path: pathlib.Path) -> tuple:
    """What a file imports: (ast.Import or ast.ImportFrom, whether that is when the file loads)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple((node, node in tree.body) for node in statements(tree)
                 if isinstance(node, (ast.Import, ast.ImportFrom)))
