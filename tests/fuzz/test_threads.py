"""A short leg of the hammer of threads, in the native hot path and its plain twin."""
import os
import subprocess
import sys

import pytest

from .threads import run


LONG = pytest.mark.long


@pytest.mark.parametrize("interval, checks",
                         [(1e-6, 300), pytest.param(1e-6, 2000, marks=LONG), pytest.param(0.005, 2000, marks=LONG)])
def test_every_thread_gets_its_own_results(interval, checks):
    made, wrong = run(threads=64, checks=checks, interval=interval, seed=1)
    assert not wrong, wrong[0][2]
    assert made >= checks


@LONG
def test_as_plain_python():
    command = [sys.executable, "-m", "tests.fuzz.threads", "--checks", "1000", "--seconds", "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500,
                          env={**os.environ, "RUSHLIGHT_NATIVE": "0"})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
