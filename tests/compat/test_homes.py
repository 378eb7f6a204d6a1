"""Classes have PyTorch's modules and names in files, and everywhere where ``import torch`` means Rushlight."""
import abc
import ctypes
import enum
import importlib
import json
import os
import subprocess
import sys
import typing
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from rushlight._src.compat import homes  # noqa: E402
from rushlight._src.compat.homes import name_in_files, name_in_pytorch  # noqa: E402
from rushlight._src.core.naming import is_own  # noqa: E402
from rushlight._src.core.native import Op  # noqa: E402

from ..startup.machine_code import search_path  # noqa: E402

MODULES = """torch torch.nn torch.nn.parameter torch.nn.utils.rnn torch.nn.init torch.nn.functional torch.optim
torch.optim.lr_scheduler torch.optim.swa_utils torch.utils.data torch.distributions torch.distributions.transforms
torch.autograd torch.autograd.function torch.fx torch.ao.quantization torch.ao.nn.quantized torch.amp torch.storage
torch.distributed.checkpoint.metadata torch.serialization torch.sparse torch.cuda torch.futures torch.func""".split()
ROOT = Path(__file__).parents[2]
# path -> module and name of a class, whether it shows them, and whether pickles and sys.modules find it by them
TELL = """
import importlib, inspect, json, pickle, sys, warnings
import torch
import torch.distributed.announcing  # has structures of C
warnings.simplefilter("ignore")
found = {}
for path, name in json.load(sys.stdin):
    kind = getattr(importlib.import_module(path), name, None)
    if isinstance(kind, type) and kind.__module__.partition(".")[0] in ("torch", "rushlight"):
        is_shown = repr(kind).startswith(("<class 'torch.", "<enum '"))
        found[f"{path}.{name}"] = (kind.__module__, kind.__qualname__, is_shown or repr(kind),
                                   pickle.loads(pickle.dumps(kind)) is kind, kind.__module__ in sys.modules)
x = torch.ones(2)
print(json.dumps([found, [type(v).__module__ for v in (x, x.dtype, x.device, x.shape, torch.max(x, 0))], str(x),
                  torch.typename(torch.nn.Linear(1, 1))]))
"""


def listed() -> list[tuple[str, str]]:
    """PyTorch's public classes and functions, by module and name."""
    return [(path, name) for path in MODULES for name, value in vars(importlib.import_module(path)).items()
            if not name.startswith("_") and callable(value)
            and str(getattr(value, "__module__", "")).partition(".")[0] == "torch"]


def theirs(module: str, name: str):
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def test_pytorch_finds_its_own_by_the_names_in_files():
    places = {}  # ours may stand at paths at which PyTorch has several
    for path, name in listed():
        mine = getattr(importlib.import_module(path.replace("torch", "rushlight", 1)), name, None)
        if callable(mine) and name_in_files(mine) is not None:
            places.setdefault(id(mine), (mine, []))[1].append((path, name))
    for mine, given in places.values():
        module, name = name_in_files(mine)
        assert theirs(module.replace("torch", "rushlight", 1), name) is mine, (module, name)
        found = theirs(module, name)
        # a function of ours may be several of PyTorch's, of which one is its name
        assert any(found is theirs(*one) for one in given) or not isinstance(mine, type) and callable(found), given
    assert len(places) > 500


def test_classes_of_the_stand_in():
    names = [(path, name) for path, name in listed() if isinstance(theirs(path, name), type)]
    done = subprocess.run([sys.executable, "-m", "rushlight", "-c", TELL], input=json.dumps(names), cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, timeout=600, check=True,
                          env={**os.environ, "PYTHONPATH": search_path(ROOT)})
    found, kinds, text, typename = json.loads(done.stdout)
    assert len(found) > 400
    places = {}  # ours may stand at paths at which PyTorch has several
    for path, (*place, is_shown, is_pickled, is_there) in found.items():
        assert [is_shown, is_pickled, is_there] == [True, True, True], path
        places.setdefault(tuple(place), []).append(path.rpartition(".")[::2])
    for place, given in places.items():
        assert any(theirs(*place) is theirs(*one) for one in given), (place, given)
    assert kinds == ["torch"] * 4 + ["torch.return_types"]
    assert (text, typename) == ("tensor([1., 1.])", "torch.nn.modules.linear.Linear")


def test_names_of_what_only_we_have_stay():
    assert name_in_pytorch("rushlight._src.core.expr", "Expr") == ("rushlight._src.core.expr", "Expr")
    assert name_in_pytorch("rushlight.nn.modules.rearrange", "Fold.Inner") == ("torch.nn.modules.fold", "Fold.Inner")
    assert name_in_files(Path) is None and name_in_files(listed) is None and name_in_files(lambda: 1) is None


def test_every_listed_home_is_pytorchs():
    for (module, name), (home, other) in homes.homes().items():
        kind = getattr(importlib.import_module(module), name)
        assert callable(kind) and is_own(kind), (module, name)
        assert getattr(importlib.import_module(home.replace("torch", "rushlight", 1)), other) is kind, (home, other)


class ReadOnly(type):
    def __setattr__(cls, name, value):
        raise AttributeError(f"{cls} is read-only")


@pytest.mark.parametrize("make", [
    lambda: ctypes.Structure.__class__("Seen", (ctypes.Structure,), {"_fields_": [("x", ctypes.c_int)]}),
    lambda: ctypes.Union.__class__("Seen", (ctypes.Union,), {}), lambda: enum.Enum("Seen", "A B"),
    lambda: abc.ABCMeta("Seen", (), {}), lambda: typing.NamedTuple("Seen", [("x", int)]),
    lambda: ReadOnly("Seen", (), {}), lambda: type("Seen", (Exception,), {})],
    ids="structure union enumeration abstract tuple read_only error".split())
def test_classes_of_any_metaclass_are_renamed(make):
    kind = make()
    homes.set_natively(kind, "__module__", "rushlight.nn.modules.linear")
    homes.rename(kind)
    assert kind.__module__ == "torch.nn.modules.linear" and kind.__qualname__ == "Seen"
