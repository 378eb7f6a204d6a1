"""The tests that are marked ``processor`` on other CPUs, which this one plays: ``python -m tests.processors
[--minutes N] [--sample N] [--whole PATH] [pytest options]``.

Runs them under each level of ``RUSHLIGHT_CPU`` that this CPU is not by itself; fails if one fails, or if not all have
run after ``--minutes``.  A test that fails runs once more, alone, as in other legs.  With ``--sample N`` a level runs
one in N of them, each level other ones, and all below each ``--whole PATH``.
"""
from __future__ import annotations

import argparse
import collections
import os
import pathlib
import sys
import tempfile
import time
from dataclasses import replace

from rushlight._src.core.llvm.processor import instruction_sets
from rushlight._src.devices.cpu.llvm.features import of_instruction_sets

from . import legs

LEVELS = ("native", "generic", "neon", "avx2", "avx512", "vnni", "amx-model")


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=24 * 60, help="how long all levels may take together")
    parser.add_argument("--sample", type=int, default=1, help="run one in so many tests")
    parser.add_argument("--whole", action="append", default=[], help="below this path, run all")
    options, arguments = parser.parse_known_args()
    ends, failed = time.monotonic() + 60 * options.minutes, []

    def features_of(level):
        return of_instruction_sets(instruction_sets(level))

    with tempfile.TemporaryDirectory() as folder:
        for number, level in enumerate(other_levels(features_of)):
            print(f"{level}: {describe(features_of(level))}", flush=True)
            command = legs.pytest("-m", "processor and not long", *arguments, *marked_files(), RUSHLIGHT_CPU=level,
                                  TEST_SAMPLE=f"{number % options.sample}/{options.sample}",
                                  TEST_WHOLE=" ".join(options.whole))
            leg = legs.Leg(level, max(ends - time.monotonic(), 0) / 60, (command,))
            flaky = legs.run_leg(leg, pathlib.Path(folder, "report"), collections.Counter())
            if flaky is None and time.monotonic() >= ends:
                print(f"FAILED: {options.minutes:g} minutes were over while the level {level} was running")
                return 1
            if flaky is None or len(flaky) > legs.MOST_FLAKY:
                failed.append(level)
    if failed:
        print(f"FAILED under {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
