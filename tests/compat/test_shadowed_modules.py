"""Where a package of PyTorch knows a function by the name of a module in it, it does here, whatever was imported
first."""
import importlib
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
    module = importlib.import_module(path)
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


def test_what_has_the_name_of_a_module_is_in_that_module():
    name = "inline_asm_elementwise"
    module = importlib.import_module(f"rushlight._higher_order_ops.{name}")
    assert getattr(module, name) is getattr(importlib.import_module("rushlight._higher_order_ops"), name)
    assert importlib.import_module("rushlight._dynamo.code_context")


def test_the_list_has_every_public_name():
    modules = pytorch()["modules"]
    here = {f"{path}.{name}" for path, module in modules.items() for name, entry in module["names"].items()
            if entry["kind"] != "module" and f"{path}.{name}" in modules}
    assert here - set(STANDING) == set()
