"""The tests that are marked ``processor`` on other CPUs, which this one plays: ``python -m tests.processors
[--minutes N] [--sample N] [--whole PATH] [pytest options]``.

Runs them under each level of ``RUSHLIGHT_CPU`` that this CPU is not by itself, two levels at a time; fails if one
fails, or if not all have run after ``--minutes``.  A test that fails runs once more, alone, as in other legs.  With
``--sample N`` a level runs one in N of them, each level other ones, and all below each ``--whole PATH``.
"""
from __future__ import annotations

import argparse
import collections
import concurrent.futures
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from dataclasses import replace

from rushlight._src.core.llvm.processor import instruction_sets
from rushlight._src.devices.cpu.llvm.features import Features, of_instruction_sets

from . import legs

LEVELS = ("native", "generic", "neon", "avx2", "avx512", "vnni", "amx-model")


def features_of(level: str) -> Features:
    return of_instruction_sets(instruction_sets(level))


def find_other_levels() -> list:
    return other_levels(features_of)


def other_levels(features_of) -> list:
    """The levels under which code differs from that of the CPU itself and of the levels before; ``features_of(level)``
    gives their Features."""
    found: dict = {}
    for level in LEVELS:
        found.setdefault(replace(features_of(level), level="", cpu="", text=""), level)
    return [level for level in found.values() if level != "native"]


def describe(features) -> str:
    return "tile registers by a model" if features.tiles == "model" else "native instructions, restricted"


def marked_files() -> list:
    """The test files that mark tests ``processor``, by their paths in the project: others need not be imported."""
    folder = pathlib.Path(__file__).parent
    return sorted(os.path.relpath(path, folder.parent) for path in folder.rglob("test_*.py")
                  if "mark.processor" in path.read_text(encoding="utf-8"))


def run_level(level: str, options: argparse.Namespace, arguments: list) -> int:
    """Run the tests under one level; return 1 if one fails, or if not all have run in time."""
    print(f"{level}: {describe(features_of(level))}", flush=True)
    number = find_other_levels().index(level)
    command = legs.pytest("-m", "processor and not long", *arguments, *marked_files(), RUSHLIGHT_CPU=level,
                          TEST_SAMPLE=f"{number % options.sample}/{options.sample}",
                          TEST_WHOLE=" ".join(options.whole))
    ends = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as folder:
        flaky = legs.run_leg(legs.Leg(level, options.minutes, (command,)), pathlib.Path(folder, "report"),
                             collections.Counter())
    if flaky is None and time.monotonic() >= ends:
        print(f"FAILED: {options.minutes:g} minutes were over while the level {level} was running", flush=True)
    return int(flaky is None or len(flaky) > legs.MOST_FLAKY)


def run_alone(level: str, ends: float) -> tuple:
    """Run this program for one level in a process of its own; return its exit status and what it printed."""
    if time.monotonic() >= ends:
        return 1, f"FAILED: the time was over before the level {level} began\n"
    minutes = (ends - time.monotonic()) / 60
    done = subprocess.run([sys.executable, "-m", "tests.processors", *sys.argv[1:], "--level", level, "--minutes",
                           f"{minutes:g}"], cwd=legs.PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    return done.returncode, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=24 * 60, help="how long all levels may take together")
    parser.add_argument("--sample", type=int, default=1, help="run one in so many tests")
    parser.add_argument("--whole", action="append", default=[], help="below this path, run all")
    parser.add_argument("--level", choices=find_other_levels(), help="run this level alone")
    options, arguments = parser.parse_known_args()
    if options.level:
        return run_level(options.level, options, arguments)
    ends, failed = time.monotonic() + 60 * options.minutes, []
    with concurrent.futures.ThreadPoolExecutor(legs.LEVELS_AT_ONCE) as threads:
        done = threads.map(run_alone, find_other_levels(), itertools.repeat(ends))
        for level, (code, output) in zip(find_other_levels(), done, strict=True):
            print(output, end="", flush=True)
            if code:
                failed.append(level)
    if failed:
        print(f"FAILED under {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
