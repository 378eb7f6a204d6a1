"""``import *`` takes from a module what PyTorch's takes."""
import functools
import importlib
import pathlib

import pytest

from rushlight._src.compat import table
from tests.compat.table import listed, ours, pytorch

# of the newest PyTorch alone: a tuple of options that only its fused loss reads
NEWER = {"torch.nn.modules": {"LinearCrossEntropyOptions"}}

ROOT = pathlib.Path(__file__).resolve().parents[2]


@functools.cache
def modules() -> dict:
    return pytorch()["modules"]


def taken(path: str) -> dict:
    names = {}
    exec(f"from {path} import *", names)
    return {name: value for name, value in names.items() if name != "__builtins__"}


def test_modules_that_list_their_names():
    differing = {}
    for path in modules():
        room, theirs = ours(path), listed(path, modules())
        if room is None or theirs is None:
            continue
        differing[path] = set(room.__all__) ^ set(theirs) - NEWER.get(path, set())
        differing[path] |= {name for name in room.__all__ if not hasattr(room, name)}
    assert not {path: sorted(names) for path, names in differing.items() if names}


@pytest.mark.parametrize("path", ["torch.distributed", "torch.backends.cudnn", "torch.utils", "torch.utils.benchmark",
                                  "torch.fx.passes.utils", "torch.ao.nn.quantized.dynamic"])
def test_modules_that_do_not(path):
    """All public names are taken, also those that are found when they are first asked for."""
    found = taken(ours(path).__name__)
    wanted = {name for name, entry in modules()[path]["names"].items() if not name.startswith("_")
              and entry["kind"] != "module"}
    assert wanted <= found.keys() and not any(name.startswith("_") for name in found)


def test_names_of_all_of_torch():
    found = taken(table.OURS)
    assert found["matmul"] is ours("torch").matmul and isinstance(found["float32"], ours("torch").dtype)
    assert "absolute_" not in found


def unresolved(module) -> list:
    """The names that a module lists, or is listed with in the table, and that asking it for them does not give."""
    return [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)]


def test_listed_names_are_there():
    """Of every file of the package, also of those that PyTorch does not have."""
    found, count = {}, 0
    for file in sorted((ROOT / "rushlight").rglob("*.py")):
        path = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if file.name == "__main__.py" or path == "rushlight._src.core.platform.windows":  # runs; of Windows alone
            continue
        module = importlib.import_module(path)
        found[path] = unresolved(module)
        count += len(getattr(module, "__all__", ()))
    assert not {path: names for path, names in found.items() if names} and count > 1000


def test_listed_names_that_are_not_there_are_seen(monkeypatch):
    room = importlib.import_module("rushlight.ao.nn.quantized.functional")
    monkeypatch.setattr(room, "__all__", [*room.__all__, "conv7d"])
    assert unresolved(room) == ["conv7d"]
