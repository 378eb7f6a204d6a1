"""Runs the conformance harness (where it exists); fails if fewer entries pass than ``conformance_floor.json`` records.

The harness starts a process for every 24 entries, each of which would import PyTorch with its databases anew, a third
of the whole time.  Here they are imported once, with the package under test, and the processes are forked; each serves
for several of those that the harness starts, since plans and imports of a first call took half of the rest.  Two runs
go on at the same time, those of most entries first: the processes of one wait for its last entries, and those of the
other do not.  The first run that falls short ends the program.
"""
from __future__ import annotations

import concurrent.futures
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
RUNS_AT_ONCE = 2
SHARES = 8  # that one process does: later ones find its plans, and its memory is bounded
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


class Worker:
    """A forked process that stands in for several of the harness, one after the other: each has a share of entries."""

    idle: list = []
    started = weakref.WeakSet()

    def __init__(self):
        self.verdicts, self.shares_left, self.process = Verdicts(), SHARES, None
        self.receiver, self.sender = multiprocessing.Pipe(duplex=False)
        self.verdicts.worker = self

    @classmethod
    def find_queue(cls) -> Verdicts:
        """Return the queue of an idle process, or of a new one."""
        return (cls.idle.pop() if cls.idle else cls()).verdicts

    @staticmethod
    def find_process(target, args, daemon=True) -> Worker:
        """Return the process that the queue, which is the last argument, belongs to; it shall call ``target``."""
        *given, verdicts = args
        verdicts.worker.target, verdicts.worker.given = target, given
        return verdicts.worker

    def start(self):
        if self.process is None:
            self.process = multiprocessing.get_context("fork").Process(target=self.serve, daemon=True)
            self.started.add(self)
            self.process.start()
        self.shares_left -= 1
        self.sender.send(self.given)

    def serve(self):
        for worker in self.started:
            worker.sender.close()  # of this process: when the harness ends, no copy keeps a pipe open
        with contextlib.suppress(EOFError):
            while True:
                self.target(*self.receiver.recv(), self.verdicts)

    def join(self):
        """Note that a share has ended; the process waits for the next one, or ends."""
        if self.shares_left:
            self.idle.append(self)
        else:
            self.sender.close()
            self.end()

    def kill(self):
        self.process.kill()
        self.end()

    def end(self):
        self.process.join()
        self.verdicts.worker = None  # the queue is forgotten at once, not when cycles are looked for

    def is_alive(self) -> bool:
        return self.process.is_alive()

    @property
    def exitcode(self) -> int | None:
        return self.process.exitcode


def forking(kind: str) -> types.SimpleNamespace:
    """The context of multiprocessing that stands in for the one of this kind: its processes are forked."""
    return types.SimpleNamespace(Process=Worker.find_process, Queue=Worker.find_queue)


def loaded(path: str) -> types.ModuleType:
    """The harness as a module, with its databases imported and its processes forked.

    PyTorch runs on one thread, so that a fork leaves none behind.
    """
    spec = importlib.util.spec_from_file_location("conformance_harness", path)
    harness = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(harness)
    gc.disable()  # what is imported stays
    harness.torch_module()
    drawing = importlib.import_module("tests.drawing")
    drawing.without_test_cases(), drawing.without_other_devices()
    importlib.import_module(PACKAGE)
    importlib.import_module("tests.startup.machine_code").install()
    harness.database = functools.cache(harness.database)
    for kind in ("ops", "modules", "optimizers"):
        harness.database(kind)
    warm_up(importlib.import_module(PACKAGE))
    gc.collect(), gc.freeze()  # what is here stays, in the processes that are forked too
    gc.enable(), gc.set_threshold(7000)
    harness.multiprocessing = types.SimpleNamespace(get_context=forking)
    return harness


def warm_up(package: types.ModuleType):
    """Import what first calls import: the compiler, capture and LLVM, which every forked process would import anew."""
    x = package.ones(3, 3, requires_grad=True)
    for function in (calculate, package.compile(calculate)):
        function(x).backward()


def calculate(x):
    return (x @ x).exp().sum()


def verdicts(harness: types.ModuleType, run: str, *more: str) -> tuple[dict, str]:
    """({entry: (verdict, reason, seconds)}, the last line that the harness prints) of one run."""
    output = io.StringIO()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        with contextlib.redirect_stdout(output):
            harness.main(["--package", PACKAGE, *run.split(), "--timeout", str(LIMIT), "--json", file.name, *more])
        return json.loads(pathlib.Path(file.name).read_text()), output.getvalue().strip().splitlines()[-1]


def report_run(harness: types.ModuleType, run: str, jobs: int) -> tuple[int, str]:
    """Return how many entries of one run pass, and a report that names those that fail, with the reason.

    An entry that took too long is judged once more by itself: the machine may have been busy with something else.
    """
    lines = []
    found, last = verdicts(harness, run, "--jobs", str(jobs))
    late = [name for name, (_, reason, _) in found.items() if reason == "took too long"]
    if late:
        lines.append(f"took too long, and are judged again: {', '.join(late)}")
        found |= verdicts(harness, run, "--jobs", "1", "--only", ",".join(late))[0]
    lines += [f"{verdict:8}{name:48} {reason}" for name, (verdict, reason, _) in found.items()
              if verdict not in ("pass", "skip")]
    lines.append(f"{last} ({sum(seconds for *_, seconds in found.values()):.0f} s)")
    return sum(verdict == "pass" for verdict, *_ in found.values()), "\n".join(lines)


class Runner:
    """A process of the pool: it holds the harness that it was forked with."""

    harness = None

    @classmethod
    def start(cls, harness: types.ModuleType):
        cls.harness = harness

    @classmethod
    def report(cls, run: str, jobs: int) -> tuple[int, str]:
        return report_run(cls.harness, run, jobs)


def main(path: str, *chosen: str) -> int:
    """Hold the chosen runs (all if none is named) to their floors."""
    if not pathlib.Path(path).exists():
        print("no conformance harness here: skipped")
        return 0
    harness, floors = loaded(path), json.loads(FLOORS.read_text())
    runs = sorted(chosen or floors, key=floors.get, reverse=True)
    jobs = max(1, len(os.sched_getaffinity(0)) // RUNS_AT_ONCE)
    with concurrent.futures.ProcessPoolExecutor(RUNS_AT_ONCE, multiprocessing.get_context("fork"), Runner.start,
                                                (harness,)) as pool:
        reports = {pool.submit(Runner.report, run, jobs): run for run in runs}
        for done in concurrent.futures.as_completed(reports):
            (found, text), run = done.result(), reports[done]
            print(text, flush=True)
            if found < floors[run]:
                print(f"conformance fell: {run} passes {found} entries, not {floors[run]}", flush=True)
                pool.shutdown(cancel_futures=True)
                return 1
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the processes share the processors
    sys.path.insert(0, str(ROOT))
    sys.exit(main(*sys.argv[1:]))
