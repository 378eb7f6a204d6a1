"""The legs of continuous integration: ``python -m tests.legs`` runs all, ``python -m tests.legs layers conformance``
those that are named.

Each leg has a time limit; when it ends, every process of the leg prints its stacks.  A test that fails is run once
more, alone, at the end of its leg.  If it passes then, it is listed as FLAKY with both outputs and does not fail the
leg; more than ``MOST_FLAKY`` of these fail the run.  The first leg that fails ends the run.
"""
from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from pytest import hookimpl as pytest_hook

from .startup.machine_code import search_path

MOST_FLAKY = 5
CRASHED = 3  # the exit status of pytest where a worker has ended by itself
MOST_FAILURES = 20  # a leg with as many is stopped
PROJECT = pathlib.Path(__file__).resolve().parent.parent
HARNESS = os.path.join("..", "shared", "conformance", "conformance.py")
STORED = ("tests/autograd", "tests/aot", "tests/fuzz/test_writes.py")  # also run with plans from disk


class Command(NamedTuple):
    """A module or script that a leg runs, and the variables it runs with."""

    arguments: tuple
    variables: dict = {}

    @property
    def is_pytest(self) -> bool:
        return self.arguments[:2] == ("-m", "pytest")


class Leg(NamedTuple):
    """Commands in order; ``minutes`` is the time limit of all of them, some five times what they take."""

    name: str
    minutes: float
    commands: tuple
    requires: str = ""  # a variable of the environment without which the leg is skipped


class Outcome(NamedTuple):
    """How a command ended: its exit status, the first report of each test that failed, the seconds of each file."""

    code: int
    failures: dict
    durations: dict


def pytest(*arguments, **variables) -> Command:
    return Command(("-m", "pytest", *arguments), variables)


def module(*arguments, **variables) -> Command:
    return Command(("-m", *arguments), variables)


TRITON = {"PYTHONPATH": os.environ.get("TRITON_SITE", "")}
PLAIN = ("tests/autograd", "tests/core/test_tensor.py", "tests/core/native/test_views.py",
         "tests/core/native/test_search.py")
CPUS = os.cpu_count() or 1
LEVELS_AT_ONCE = 2  # of tests.processors: two processes that collect the tests, not four
ALL = ("-m", "", "--durations=30")
LEGS = (
    Leg("layers", 5, (pytest("-n", "auto", "-m", "", "tests/layers"),)),
    Leg("tests", 40, (pytest("-n", str(CPUS + 1), *ALL,  # some tests wait for other processes
                               *(f"--ignore={path}" for path in ("tests/layers", *STORED))),)),
    Leg("stored plans", 10, 2 * (pytest("-n", "auto", *ALL, *STORED, RUSHLIGHT_STORE="1"),)),
    Leg("hot path in plain Python", 5, (pytest("-n", "auto", *PLAIN, RUSHLIGHT_NATIVE="0"),)),
    Leg("GPU kernels", 20, (
        pytest("-n", "auto", "--durations=30", "tests/gpu", **TRITON),
        module("tests.gpu.compiled", "--part", "1/40", "--workers", "2", "--minutes", "5", **TRITON),
        module("tests.gpu.templates", "--few", "--targets", "sm_90,gfx942", **TRITON)), requires="TRITON_SITE"),
    Leg("conformance", 30, (Command(("tests/conformance.py", HARNESS), {"RUSHLIGHT_STORE": "0"}),)),
    Leg("other instruction sets", 20, (
        module("tests.processors", "--minutes", "18", "--sample", "4", "--whole", "tests/compiler", "-n",
               str(CPUS // LEVELS_AT_ONCE if CPUS >= 2 * LEVELS_AT_ONCE else 0)),)),
    Leg("emulated processor", 6, (module("tests.emulated.database", HARNESS, "--cpu", "sve", "--every", "8",
                                         "--minutes", "3"),)),
    Leg("another Python", 6, (module("tests.pythons", "3.14", "--minutes", "3", "-n", "auto", "-x",
                                     "tests/capture/test_features.py", "tests/capture/test_protocols.py",
                                     "tests/capture/test_models.py", "tests/core/native"),)),
    Leg("Python of Windows", 8, (module("tests.windows", "--minutes", "6"),)),
)


class Reports:
    """A pytest plugin that writes the tests that fail and the seconds of each file to the file ``LEG_REPORT``."""

    def __init__(self, path, root):
        self.path, self.root, self.failures, self.durations = path, root, {}, collections.Counter()
        self.has_crashed = False

    def pytest_runtest_logreport(self, report):
        self.durations[report.nodeid.partition("::")[0]] += report.duration
        self.pytest_collectreport(report)

    def pytest_collectreport(self, report):
        if report.failed:  # identifiers of tests are relative to the root, arguments to the working directory
            self.failures.setdefault(os.path.relpath(self.root / report.nodeid), report.longreprtext)
            self.write()  # a run that is stopped has no end

    def write(self):
        self.path.write_text(json.dumps([self.failures, self.durations]))

    @pytest_hook(optionalhook=True)
    def pytest_testnodedown(self, error):
        self.has_crashed |= bool(error)

    def pytest_sessionfinish(self, session):
        self.write()
        if self.has_crashed:  # and other tests may not have run
            session.exitstatus = CRASHED


def pytest_configure(config):
    """Register the reports in the process that collects them."""
    if (path := os.environ.get("LEG_REPORT")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reports(pathlib.Path(path), config.rootpath))


def run(command: Command, deadline: float, report: pathlib.Path) -> Outcome:
    """Run a command until ``deadline``, on the clock of ``time.monotonic``."""
    report.unlink(missing_ok=True)
    arguments = command.arguments + (("-p", "tests.legs", f"--maxfail={MOST_FAILURES}",
                                     "--max-worker-restart=0") if command.is_pytest else ())
    environment = {**os.environ, **command.variables, "LEG_REPORT": str(report), "PYTHONFAULTHANDLER": "1"}
    environment["PYTHONPATH"] = search_path(environment.get("PYTHONPATH", ""))
    process = subprocess.Popen([sys.executable, *arguments], cwd=PROJECT, env=environment, start_new_session=True)
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        print(f"time limit reached by: python {' '.join(arguments)}\nstacks of its processes:", flush=True)
        code = stop(process)
    failures, durations = json.loads(report.read_text()) if report.exists() else ({}, {})
    return Outcome(code, failures, durations)


def stop(process: subprocess.Popen) -> int:
    """Let a process and its descendants print their stacks, one after the other, then kill them; return an exit status
    that is not 0."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = {int(pid): (int(parent), command) for pid, parent, command in (
        line.split(None, 2) for line in listed.splitlines())}
    family = [process.pid]
    for pid in family:  # which grows
        family += [child for child, (parent, _) in rows.items() if parent == pid]
    for pid in family:
        print(f"process {pid}: {rows[pid][1][:150] if pid in rows else 'has ended'}", flush=True)
        send(pid, signal.SIGABRT)
        ends = time.monotonic() + 10  # one that a signal cannot reach is killed without a stack
        while not has_ended(pid) and time.monotonic() < ends:
            time.sleep(0.1)
    for pid in family:
        send(pid, signal.SIGKILL)
    return process.wait() or 1


def send(pid: int, number: signal.Signals):
    """Send a signal to a process that may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def has_ended(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    state = state.strip()
    return not state or state.startswith("Z")


def find_flaky(command: Command, failures: dict, deadline: float, report: pathlib.Path) -> dict | None:
    """Run each test that failed alone; return the first reports of those that pass now, None if one fails again."""
    flaky = {}
    for name, first in failures.items():
        again = run(Command(("-m", "pytest", "-rA", "-m", "", name), command.variables), deadline, report)
        if again.code:
            print(f"FAILED twice: {name}", flush=True)
            return None
        print(f"FLAKY: {name}, which failed with\n{first}\nand passed alone, as printed above", flush=True)
        flaky[name] = first
    return flaky


def run_leg(leg: Leg, report: pathlib.Path, seconds: collections.Counter) -> dict | None:
    """Run a leg; return the first reports of its flaky tests, None if it fails.  ``seconds`` counts by directory."""
    deadline, flaky = time.monotonic() + 60 * leg.minutes, {}
    for command in leg.commands:
        code, failures, durations = run(command, deadline, report)
        for path, spent in durations.items():
            seconds["/".join(path.split("/")[:2])] += spent
        if not code:
            continue
        if code != 1 or not 0 < len(failures) < MOST_FAILURES:
            for name, text in failures.items() if code != 1 else ():  # pytest was stopped before it printed them
                print(f"FAILED: {name}\n{text}", flush=True)
            return None
        found = find_flaky(command, failures, deadline, report)
        if found is None:
            return None
        flaky |= found
    return flaky


def main(*names: str) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help=", ".join(leg.name for leg in LEGS))
    names, began, flaky = parser.parse_args(names).names, time.monotonic(), {}
    if unknown := set(names) - {leg.name for leg in LEGS}:
        parser.error(f"no leg is called {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as folder:
        for leg in LEGS:
            if names and leg.name not in names:
                continue
            print(f"--- {leg.name} ({time.monotonic() - began:.0f} s)", flush=True)
            if leg.requires and not os.environ.get(leg.requires):
                print(f"SKIPPED: {leg.requires} is not set", flush=True)
                continue
            seconds = collections.Counter()
            found = run_leg(leg, pathlib.Path(folder, "report"), seconds)
            print("seconds:", ", ".join(f"{path} {spent:.0f}" for path, spent in seconds.most_common()), flush=True)
            if found is None:
                print(f"--- failed: {leg.name} ({time.monotonic() - began:.0f} s)", flush=True)
                return 1
            flaky |= found
    if flaky:
        print(f"{len(flaky)} FLAKY: {', '.join(flaky)}", flush=True)
    print(f"--- done ({time.monotonic() - began:.0f} s)", flush=True)
    return int(len(flaky) > MOST_FLAKY)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
