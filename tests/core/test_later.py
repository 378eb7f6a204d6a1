"""Rooms that are imported when they are first asked for."""
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
