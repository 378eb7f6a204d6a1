"""``import *`` takes from a module what PyTorch's takes."""
import functools

import pytest

from rushlight._src.compat import table
from tests.compat.table import listed, ours, pytorch

# of the newest PyTorch alone: a tuple of options that only its fused loss reads
NEWER = {"torch.nn.modules": {"LinearCrossEntropyOptions"}}


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
