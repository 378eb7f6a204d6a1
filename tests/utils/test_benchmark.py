"""Timers, tables of their measurements, and what bug reports say."""
import itertools
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight.utils import benchmark


def test_times_are_of_the_statement():
    fast = benchmark.Timer("pass").timeit(1000)
    slow = benchmark.Timer("time.sleep(0.002)", setup="import time").timeit(5)
    assert fast.median < 0.002 <= slow.median and fast.number_per_run == 1000


def test_ranges_and_threads():
    """By a clock of whole seconds, each time it is read a second later: every block takes one."""
    before, clock = torch.get_num_threads(), itertools.count()
    timer = benchmark.Timer("seen.append(torch.get_num_threads())", globals={"seen": (seen := [])}, label="threads",
                            description="one", timer=lambda: next(clock))
    found = timer.blocked_autorange(min_run_time=7)
    assert set(seen) == {1} and torch.get_num_threads() == before
    assert found.raw_times == [1] * 7 and found.iqr == 0 and "Median" in repr(found) and "threads" in repr(found)
    assert len(timer.adaptive_autorange(min_run_time=2, max_run_time=9).times) == 4  # the least for quartiles
    assert len(timer.adaptive_autorange(threshold=0.0, min_run_time=2, max_run_time=9).times) == 9
    with pytest.raises(ValueError, match="statements are Python"):
        benchmark.Timer("1", language="c++")


def test_a_comparison_is_a_table():
    def measured(sub, description, times):
        return benchmark.Measurement(1, times, benchmark.TaskSpec("x", label="sums", sub_label=sub,
                                                                  description=description))

    compare = benchmark.Compare([measured("small", "ours", [1e-3] * 3), measured("small", "theirs", [2e-3] * 3),
                                 measured("large", "ours", [3e-3] * 3)])
    compare.extend_results([measured("large", "theirs", [9e-3] * 2), measured("large", "theirs", [9e-3] * 2)])
    lines = str(compare).splitlines()
    assert "sums" in lines[0] and lines[1].split() == ["|", "ours", "|", "theirs"] and lines[3] == "1 thread:"
    assert lines[4].split() == ["small", "|", "1.0", "|", "2.0"] and lines[5].split() == ["large", "|", "3.0", "|",
                                                                                          "9.0"]
    assert "milliseconds" in lines[-1]
    compare.trim_significant_figures()
    compare.colorize()
    assert "\033[92m" in str(compare) and "\033[31m" in str(compare)


def test_units():
    assert benchmark.select_unit(3) == ("s", 1.0) and benchmark.select_unit(5e-7)[0] == "ns" and benchmark.select_unit(
        1e-12)[0] == "ns"


def test_environment_for_bug_reports():
    done = subprocess.run([sys.executable, "-m", "rushlight.utils.collect_env"], capture_output=True, text=True)
    assert torch.__version__ in done.stdout and "llvmlite" in done.stdout and "CPU" in done.stdout
    assert done.returncode == 0
