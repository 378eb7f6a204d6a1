"""Runs the conformance harness (where it exists); fails if fewer entries pass than ``conformance_floor.json`` records.

The harness starts a process for every 24 entries, each of which would import PyTorch with its databases anew, a third
of the whole time.  Here they are imported once, with the package under test, and the processes are forked.  The runs
come in the order of the floors; the first one that falls short ends the whole.
"""
from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import importlib.util
import io
import json
import multiprocessing
import multiprocessing.connection
import multiprocessing.queues
import os
import pathlib
import sys
import tempfile
import types
import weakref

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = "rushlight"
LIMIT = 120  # seconds for one entry
FLOORS = pathlib.Path(__file__).with_name("conformance_floor.json")


class Verdicts(multiprocessing.queues.Queue):
    """The queue of one process of the harness, which asks the queues in turn and waits at each: here a wait ends when
    any process has sent something.  While it waited for one, it did not see that another had ended, and a CPU was idle.
    """

    queues = weakref.WeakSet()  # of this process's harness

    def __init__(self):
        super().__init__(ctx=multiprocessing.get_context("fork"))
        self.queues.add(self)

    def get(self, timeout):
        multiprocessing.connection.wait([queue._reader for queue in self.queues], timeout)
        return super().get(block=False)


def forking(kind: str) -> types.SimpleNamespace:
    """The context of multiprocessing that stands in for the one of this kind: its processes are forked."""
    return types.SimpleNamespace(Process=multiprocessing.get_context("fork").Process, Queue=Verdicts)


def loaded(path: str) -> types.ModuleType:
    """The harness as a module, with its databases imported and its processes forked.

    PyTorch runs on one thread, so that a fork leaves none behind.
    """
    spec = importlib.util.spec_from_file_location("conformance_harness", path)
    harness = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(harness)
    harness.torch_module()
    drawing = importlib.import_module("tests.drawing")
    drawing.without_test_cases(), drawing.without_other_devices()
    importlib.import_module(PACKAGE)
    importlib.import_module("tests.startup.machine_code").install()
    harness.database = functools.cache(harness.database)
    for kind in ("ops", "modules", "optimizers"):
        harness.database(kind)
    warm_up(importlib.import_module(PACKAGE))
    gc.collect(), gc.freeze(), gc.set_threshold(7000)  # what is here stays, in the processes that are forked too
    harness.multiprocessing = types.SimpleNamespace(get_context=forking)
    return harness


def warm_up(package: types.ModuleType):
    """Import what first calls import: the compiler, capture and LLVM, which every forked process would import anew."""
    x = package.ones(3, 3, requires_grad=True)
    for function in (calculate, package.compile(calculate)):
        function(x).backward()


def calculate(x):
    return (x @ x).exp().sum()


def spent() -> float:
    """Processor time of this process and of those that it waited for, in seconds."""
    return sum(os.times()[:4])


def verdicts(harness: types.ModuleType, run: str, *more: str) -> tuple[dict, str]:
    """({entry: (verdict, reason, seconds)}, the last line that the harness prints) of one run."""
    output = io.StringIO()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        with contextlib.redirect_stdout(output):
            harness.main(["--package", PACKAGE, *run.split(), "--timeout", str(LIMIT), "--json", file.name, *more])
        return json.loads(pathlib.Path(file.name).read_text()), output.getvalue().strip().splitlines()[-1]


def passed(harness: types.ModuleType, run: str, jobs: int) -> int:
    """How many entries of one run pass; those that fail are named, with the reason.

    An entry that took too long is judged once more by itself: the machine may have been busy with something else.
    """
    started = spent()
    found, last = verdicts(harness, run, "--jobs", str(jobs))
    late = [name for name, (_, reason, _) in found.items() if reason == "took too long"]
    if late:
        print(f"took too long, and are judged again: {', '.join(late)}")
        found |= verdicts(harness, run, "--jobs", "1", "--only", ",".join(late))[0]
    for name, (verdict, reason, _) in found.items():
        if verdict not in ("pass", "skip"):
            print(f"{verdict:8}{name:48} {reason}")
    print(f"{last} ({spent() - started:.0f} s of processor time)", flush=True)
    return sum(verdict == "pass" for verdict, *_ in found.values())


def main(path: str, *chosen: str) -> int:
    """Holds the chosen runs (all, where none is named) to their floors."""
    if not pathlib.Path(path).exists():
        print("no conformance harness here: skipped")
        return 0
    harness, floors = loaded(path), json.loads(FLOORS.read_text())
    jobs = max(2, len(os.sched_getaffinity(0)))
    for run in chosen or floors:
        if (found := passed(harness, run, jobs)) < floors[run]:
            print(f"conformance fell: {run} passes {found} entries, not {floors[run]}")
            return 1
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the processes share the processors
    sys.path.insert(0, str(ROOT))
    sys.exit(main(*sys.argv[1:]))
