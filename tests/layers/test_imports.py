"""The import rules: packages of the implementation import only packages below them; cycles have at most three files."""
import ast
import functools
import pathlib

import pytest

from .sources import imported

ROOT = pathlib.Path(__file__).resolve().parents[2] / "rushlight"
HIDDEN = "rushlight._src"
# from the ground up
ROOMS = ["core", "devices", "graph", "ops", "transforms", "aot", "compiler", "machines", "eager", "autograd", "capture"]
# directories of such packages: code for one type of device, or several
MACHINES = "devices.cpu", "devices.shared", "devices.triton", "devices.webgpu"
ALLOWED = {("ops", "autograd"): "only inside functions"}
LARGEST = 3  # files in a cycle


@functools.cache
def modules() -> dict:
    """Path of each module of the package."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def imports(module: str) -> tuple:
    """(modules of the package that a file imports when it loads, those that its functions import)."""
    path = modules()[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    found = [], []
    for node, at_once in imported(path):
        if isinstance(node, ast.Import):
            targets = [a.name for a in node.names]
        else:
            base = ".".join([*package[:len(package) - node.level + 1],
                             *filter(None, [node.module])]) if node.level else node.module
            targets = [f"{base}.{a.name}" if f"{base}.{a.name}" in modules() else base for a in node.names]
        found[not at_once].extend(t for t in targets if t in modules() and t != module)
    return found


def room(module: str):
    parts = module.split(".")
    if any(module.startswith(f"{HIDDEN}.{machine}.") for machine in MACHINES):
        return "machines"
    return parts[2] if module.startswith(f"{HIDDEN}.") and parts[2] in ROOMS else None


def test_there_are_files_in_every_room():
    assert {room(module) for module in modules()} == {None, *ROOMS}


def test_no_import_points_upward():
    wrong = []
    for module in modules():
        own = room(module)
        for target in imports(module)[0] if own else ():
            other = room(target)
            if other and ROOMS.index(other) > ROOMS.index(own) and (own, other) not in ALLOWED:
                wrong.append(f"{module} imports {target}")
    assert not wrong, "\n".join(wrong)


def circles(edges: dict) -> list:
    """Sets of modules that import each other, however far round (Tarjan's strongly connected components)."""
    order, low, stack, found = {}, {}, [], []

    def visit(module):
        order[module] = low[module] = len(order)
        stack.append(module)
        for target in edges[module]:
            if target not in order:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], order[target])
        if low[module] == order[module]:
            place = stack.index(module)
            found.append(set(stack[place:]))
            del stack[place:]

    for module in edges:
        if module not in order:
            visit(module)
    return [circle for circle in found if len(circle) > 1]


def test_circles_are_seen():
    assert circles({"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": []}) == [{"a", "b", "c"}]


def test_no_circle_is_large():
    """Imports inside functions count as any others; names that are found when they are asked for (``core/later.py``) do
    not."""
    found = circles({module: [*imports(module)[0], *imports(module)[1]] for module in modules()})
    assert not [sorted(circle) for circle in found if len(circle) > LARGEST]


@pytest.mark.parametrize("library", ["torch", "scipy"])
def test_never_imported(library):
    for path in modules().values():
        for node, _ in imported(path):
            names = ([a.name for a in node.names] if isinstance(node, ast.Import)
                     else [] if node.level else [node.module or ""])
            assert not any(n.partition(".")[0] == library for n in names), path
