"""Where a package of PyTorch knows a function by the name of a module in it, it does here, whatever was imported
first."""
import json
import subprocess
import sys

import pytest

from rushlight._src.compat import table
from tests.compat.table import ROOT, pytorch

STANDING = open(table.STANDING, encoding="utf-8").read().split()
ORDERS = {
    "modules first": "[load(p) for p in paths]; see()",
    "names first": "see(); [load(p) for p in paths]; see()",
    "last module first": "[load(p) for p in reversed(paths)]; see()",
    "each": "[(load(p), see([p])) for p in paths]; see()",
}
PROGRAM = """
import importlib, json, sys, types
import {package}
import rushlight._src.compat.finder
if {package!r} == "rushlight" and {as_torch}:
    rushlight._src.compat.finder.install()
paths = json.loads(sys.argv[1])
wrong = set()
def load(path):
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError:
        return
    assert isinstance(module, types.ModuleType) and module is sys.modules[path], path
def see(paths=paths):
    for path in paths:
        package, _, name = path.rpartition(".")
        try:
            found = getattr(__import__(package, fromlist=[name]), name)
        except AttributeError:
            wrong.add(path + " is missing")
        else:
            if isinstance(found, types.ModuleType):
                wrong.add(path)
{order}
print(json.dumps(sorted(wrong)))
"""


def wrong(order, as_torch=False):
    root = "torch" if as_torch else "rushlight"
    paths = [root + path.removeprefix("torch") for path in STANDING if "code_context" not in path]
    done = subprocess.run([sys.executable, "-W", "ignore", "-c",
                           PROGRAM.format(package="rushlight", as_torch=as_torch, order=order), json.dumps(paths)],
                          cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("order", ORDERS)
def test_functions_keep_their_names(order):
    assert wrong(ORDERS[order]) == []


def test_functions_keep_their_names_where_the_package_stands_in_for_pytorch():
    assert wrong(ORDERS["each"], as_torch=True) == []


def test_the_list_has_every_public_name():
    modules = pytorch()["modules"]
    here = {f"{path}.{name}" for path, module in modules.items() for name, entry in module["names"].items()
            if entry["kind"] != "module" and f"{path}.{name}" in modules}
    assert here - set(STANDING) == set()
