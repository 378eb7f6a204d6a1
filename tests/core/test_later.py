"""Packages that are imported at first use."""
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight._src.core.later import later


def in_a_new_process(text):
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.strip()


def test_nothing_is_imported_before():
    assert in_a_new_process(
        "import sys, rushlight; print([m for m in ('rushlight.func', 'rushlight.fx', 'rushlight.nn.utils.fusion') if "
        "m in sys.modules])") == "[]"


def test_a_function_wins_over_the_module_of_its_name():
    text = ("from rushlight.nn import utils; print(callable(utils.weight_norm)); utils.remove_weight_norm; "
            "print(callable(utils.weight_norm))")
    assert in_a_new_process(text).split() == ["True", "True"]


@pytest.mark.parametrize("module, name", [(torch, "nonsense"), (torch.nn, "nonsense"), (torch.nn.utils, "no.name"),
                                          (torch, "__main__"), (torch.jit, "no_mobile")])
def test_other_names_are_no_attributes(module, name):
    with pytest.raises(AttributeError, match=name):
        getattr(module, name)


def test_every_home_has_its_names():
    for room, names in torch.ELSEWHERE.items():
        for name in names:
            assert later("rushlight", {room: (name,)})(name) is not None


def test_what_is_found_stays():
    assert torch.Future is torch.futures.Future and vars(torch)["Future"] is torch.Future
    assert torch.torch is torch and isinstance(torch.ones(1), torch.autograd.Variable)
    assert torch.__config__.show() and torch._foreach_add([torch.ones(2)], 1)[0].tolist() == [2, 2]


IN_TURN = """
import importlib, sys
import rushlight.distributed as dist
from rushlight._src.core import epoch
steps = {"watch": lambda: epoch.watch(dist), "import": lambda: importlib.import_module("rushlight.distributed.rendezvous")}
for name in sys.argv[1:]:
    assert steps[name]()
before = epoch.Epoch.value
dist.something = 1
assert epoch.Epoch.value == before + 1
assert callable(dist.rendezvous) and dist.rendezvous.__name__ == "rendezvous"
"""


@pytest.mark.parametrize("order", [("watch", "import"), ("import", "watch")], ids=lambda order: " ".join(order))
def test_a_package_that_compiled_code_watches_keeps_its_functions(order):
    """Though a module of the same name is imported."""
    done = subprocess.run([sys.executable, "-c", IN_TURN, *order], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
