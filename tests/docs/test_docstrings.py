"""What users call says what it does: every public function has a docstring, and more and more of them an example."""
import doctest
import functools
import importlib
import inspect
import json
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight._src.core.native import Op
from rushlight._src.core.op import OPS, examples
from rushlight._src.core.settings import settings

# module: how many of its public names have an example at least; raise it where there are more
EXAMPLES = {"": 344, "nn.functional": 97, "nn": 63, "nn.init": 0, "optim.lr_scheduler": 0, "autograd": 3,
            "autograd.functional": 6, "func": 12, "compiler": 1, "amp": 2, "utils.data": 1, "utils.checkpoint": 1,
            "export": 4, "profiler": 3, "distributions": 3, "linalg": 28, "fft": 18, "special": 38, "nn.utils": 0,
            "optim": 0, "sparse": 0}
OPERATORS = {operator.name: operator for operator in OPS.values() if ">>>" in (operator.__doc__ or "")}


@functools.cache
def names() -> dict:
    """What modules list and define."""
    code = ("import importlib, json; rooms = {m: importlib.import_module('rushlight' + '.' * bool(m) + m) for m in %r}; "
            "from rushlight._src.core.later import Beyond; "
            "print(json.dumps({m: [n for n in r.__all__ if n not in Beyond.names(r.__name__)] "
            "for m, r in rooms.items()}))")
    return json.loads(subprocess.run([sys.executable, "-c", code % list(EXAMPLES)], capture_output=True, text=True,
                                     check=True).stdout)


def documented(module: str) -> dict:
    """The docstrings of what a module lets its users call, by name."""
    room = importlib.import_module(f"rushlight.{module}" if module else "rushlight")
    found = {}
    for name in names()[module]:
        value = getattr(room, name, None)
        if not name.startswith("_") and callable(value) and not inspect.ismodule(value):
            found[name] = vars(value).get("__doc__") if isinstance(value, type) else value.__doc__
    return found


@pytest.mark.parametrize("module", EXAMPLES)
def test_public_names_have_docstrings(module):
    found = documented(module)
    assert [name for name, doc in found.items() if not doc] == []
    assert sum(">>>" in doc for doc in found.values()) >= EXAMPLES[module]


def test_methods_of_tensors_have_docstrings():
    methods = {name: getattr(torch.Tensor, name, None) for name in dir(torch.Tensor) if not name.startswith("_")}
    assert [name for name, method in methods.items() if callable(method) and not method.__doc__] == []


def test_operators_show_the_docstring_of_their_body():
    assert torch.cat.__doc__.startswith(torch.cat.doc)
    assert torch.relu.__doc__ == torch.ones(1).relu.__doc__
    assert torch.relu.__doc__.startswith("max(x, 0); NaN propagates.\n\n>>> ")
    assert Op.__doc__.startswith("An operator.")


def test_examples_are_of_operators():
    assert examples().keys() <= OPS.keys()


@pytest.mark.parametrize("name", OPERATORS)
def test_examples_of_operators(name):
    test = doctest.DocTestParser().get_doctest(OPERATORS[name].__doc__, {"torch": torch}, name, None, None)
    with settings.set(kernels=False):  # what they mean: kernels are the subject of other tests
        assert not doctest.DocTestRunner().run(test).failed
