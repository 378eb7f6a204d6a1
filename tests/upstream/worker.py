"""One process: ``python -m tests.upstream.worker SIDE SOURCES FILE RESULTS`` runs tests of one file.

SIDE is "ours" or "judge".  RESULTS holds a JSON line {"id", "start"} before each test and {"id", "outcome", "text",
"seconds"} after it; tests named there are not run again.  Standard input is a JSON object: "ids" (the tests to run),
or "only" (a pattern of them), or "sample" (how many, by the hash of their names; null: all), "seconds" (no test begins
after these), and "limit" (seconds of processor time for a test, which may last five times as long).  A line
{"finished"} ends the results when all have run; {"unloaded"} tells why the file does not load.
"""
from __future__ import annotations

import fnmatch
import hashlib
import importlib.machinery
import json
import os
import pathlib
import signal
import sys
import time

import pytest

OPTIONS = ("-p no:cacheprovider -p no:faulthandler -p no:xdist -p no:hypothesispytest -p no:unraisableexception "
           "-p no:threadexception -p no:timeout --assert=plain -q --no-header --tb=short --noconftest "
           "-c /dev/null -W ignore --capture=fd --show-capture=no --no-summary").split()


def sampled(names: list, count: int | None) -> set:
    """The ``count`` names of the smallest hashes: a larger sample holds a smaller one."""
    return set(sorted(names, key=lambda name: hashlib.md5(name.encode()).hexdigest())[:count])


def name_of(item) -> str:
    """A test's name, the same on both sides: those of test_modules.py have the package of a module's class in them."""
    return item.nodeid.split("::", 1)[1].replace("_rushlight_nn_", "_nn_")


class Recorder:
    """A plugin of pytest that chooses the tests and writes what becomes of them."""

    def __init__(self, asked: dict, results: pathlib.Path, loaded):
        self.asked, self.loaded, self.begun, self.left = asked, loaded, time.monotonic(), None
        lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
        self.done, self.file = {line["id"] for line in lines if "id" in line}, results.open("a", buffering=1)

    def write(self, **row):
        self.file.write(json.dumps(row) + "\n")

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(unloaded=str(report.longrepr)[-3000:])

    def pytest_collection_modifyitems(self, items):
        self.loaded()
        names = {item: name_of(item) for item in items}
        chosen = self.chosen(list(names.values())) - self.done
        items[:] = [item for item in items if names[item] in chosen]
        self.left = len(items)

    def chosen(self, names: list) -> set:
        if self.asked.get("only"):
            return set(fnmatch.filter(names, self.asked["only"]))
        return set(self.asked.get("ids") or sampled(names, self.asked["sample"]))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        name = name_of(item)
        if time.monotonic() - self.begun > self.asked["seconds"]:
            item.session.shouldstop = "the time is over"
        self.outcome, self.text, begun = "passed", "", time.monotonic()
        self.write(id=name, start=True)
        done = yield
        self.left -= 1
        self.write(id=name, outcome=self.outcome, text=self.text[-6000:], seconds=round(time.monotonic() - begun, 2))
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        timers = (signal.ITIMER_PROF, signal.SIGPROF, 1), (signal.ITIMER_REAL, signal.SIGALRM, 5)
        for timer, told, times in timers:
            signal.signal(told, self.over)
            signal.setitimer(timer, self.asked["limit"] * times)
        try:
            return (yield)
        finally:
            for timer, *_ in timers:
                signal.setitimer(timer, 0)

    def over(self, told, frame):
        pytest.fail(f"Failed: over the limit of {self.asked['limit']} s")

    def pytest_sessionfinish(self):
        if self.left == 0:
            self.write(finished=-1 if self.asked.get("only") else self.asked["sample"])
        self.file.flush()

    def pytest_runtest_logreport(self, report):
        if report.outcome == "skipped":
            self.outcome = "xfailed" if hasattr(report, "wasxfail") else "skipped"
        elif report.failed:
            self.outcome = "failed"
        self.text += str(report.longrepr) if report.outcome != "passed" else ""


def main(side, sources, file, results):
    tests = pathlib.Path(sources).resolve() / "test"
    os.environ.update(PYTORCH_PRINT_REPRO_ON_FAILURE="0", OMP_NUM_THREADS="2")
    sys.path[:0] = [str((tests / file).parent), str(tests)]
    sys.path.append(str(tests.parent))  # tools/, which some tests import
    from . import answers, standins
    if side == "ours":
        import rushlight.compat
        rushlight.compat.install()
        if importlib.machinery.PathFinder.find_spec("torchvision") is None:
            sys.modules["torchvision"] = None  # the judge has none either: no stand-in
        os.environ["RUSHLIGHT_AS_TORCH"] = "1"  # for processes that tests start
    loaded = standins.install(tests.parent)
    answers.give(side)
    standins.stand_for_operators()
    recorder = Recorder(json.load(sys.stdin), pathlib.Path(results), loaded)
    pytest.main([str(tests / file), *OPTIONS, "--rootdir", str(tests)], [recorder])
    os._exit(0)  # what tests leave behind must not keep the process


if __name__ == "__main__":
    main(*sys.argv[1:])
