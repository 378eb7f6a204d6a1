"""The import rule: rooms import only rooms below them, and no modules import each other in a circle at load time."""
import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2] / "rushlight"
ROOMS = ["core", "graph", "ops", "transforms", "aot", "compiler", "eager", "autograd"]  # from the ground up
ALLOWED = {("core", "compiler"): "the typed subset is compiled by the LLVM layer",
           ("ops", "autograd"): "only inside functions"}


def module_imports(path: pathlib.Path):
    """The modules of the package that a file imports when it loads (not those inside functions)."""
    package = ("rushlight",) + path.relative_to(ROOT).parts[:-1]
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            yield ".".join(base + tuple((node.module or "").split(".")) if node.module else base)


def room(module: str):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else None


def test_no_import_points_upward():
    wrong = []
    for path in ROOT.rglob("*.py"):
        own = path.relative_to(ROOT).parts[0]
        if own not in ROOMS:
            continue
        for module in module_imports(path):
            other = room(module)
            if other and ROOMS.index(other) > ROOMS.index(own) and (own, other) not in ALLOWED:
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("library", ["torch", "scipy"])
def test_never_imported(library):
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not any(n.partition(".")[0] == library for n in names), path
