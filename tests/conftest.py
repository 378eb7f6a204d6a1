"""Tests make plans anew, so that what they test is what runs; those of the store switch it on, and
``RUSHLIGHT_STORE=1 pytest ...`` runs any of them with plans from disk (a second time, when there are some; ``.ci/run``
does so).  Those that need PyTorch are left out where it is not installed."""
import atexit
import gc
import importlib.util
import operator
import os
import random
import re
import shutil
import sys
import tempfile
import zlib

import pytest

from .drawing import without_other_devices
from .startup import machine_code

# NumPy and the judge compute on one thread: threads that wait for each other took most of the time
for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("RUSHLIGHT_STORE", "0")
os.environ.setdefault("RUSHLIGHT_VERIFY", "1")  # what each stage of a compilation leaves is checked
machine_code.install()
os.environ["PYTHONPATH"] = machine_code.search_path(os.environ.get("PYTHONPATH", ""))  # for child processes
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):  # or each process that a test starts compiles the package anew
    os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="bytecode")
    atexit.register(shutil.rmtree, os.environ["PYTHONPYCACHEPREFIX"], ignore_errors=True)
if importlib.util.find_spec("hypothesis") is not None:
    from hypothesis import settings

    settings.load_profile("ci")  # examples follow from the test, and none is late: the machine may be busy
JUDGED = importlib.util.find_spec("torch") is not None
NEEDS_JUDGE = re.compile(r"^(import torch\b|from torch\b|from \.+\w*judge import)", re.M)


def pytest_ignore_collect(collection_path):
    if not JUDGED and collection_path.suffix == ".py" and NEEDS_JUDGE.search(
            collection_path.read_text(encoding="utf-8")):
        return True
    return None


def pytest_sessionstart(session):
    """Collect no garbage until the tests are collected: what is imported stays, and would be looked through often."""
    if not session.config.pluginmanager.hasplugin("dsession"):  # the process that starts others collects no test
        gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Of tests that go over all operators and the like, a third runs by default, always the same; the others are
    long.  With ``TEST_SAMPLE=k/n`` those whose names hash to k modulo n run alone, beside all below
    the paths in ``TEST_WHOLE``."""
    for item in items:
        if " at 0x" in item.nodeid:  # processes that share the tests would not agree on its name
            raise pytest.UsageError(f"{item.nodeid} has an address in its name")
        if item.get_closest_marker("sampled") and zlib.crc32(item.nodeid.encode()) % 3:
            item.add_marker("long")
    if sample := os.environ.get("TEST_SAMPLE"):
        chosen, count = map(int, sample.split("/"))
        parts, whole = [[], []], tuple(os.environ.get("TEST_WHOLE", "").split())
        for item in items:  # a hash of its own, which those that are not long share evenly
            drawn = zlib.crc32(f"sample {item.nodeid}".encode()) % count == chosen
            parts[drawn or item.nodeid.startswith(whole)].append(item)
        config.hook.pytest_deselected(items=parts[False])
        items[:] = parts[True]


def pytest_runtest_setup(item):
    """Random numbers of a test follow from its name: not from the tests before it, nor from the process."""
    seed = zlib.crc32(item.nodeid.encode())
    random.seed(seed)
    for name, place in (("numpy", "random.seed"), ("torch", "manual_seed"), ("rushlight", "manual_seed")):
        if name in sys.modules:
            operator.attrgetter(place)(sys.modules[name])(seed)


def pytest_collection_finish():
    """What is there before the first test stays: a test that calls the collector need not look through all of it."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
        without_other_devices()
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(7000)  # plans and graphs stay, and are many: to look through them as often took a twentieth
