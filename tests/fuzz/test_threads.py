"""A short leg of the hammer of threads, in the native hot path and its plain twin."""
import os
import subprocess
import sys

import pytest

from .threads import run


@pytest.mark.parametrize("interval", [1e-6, 0.005])
def test_every_thread_gets_its_own_results(interval):
    made, wrong = run(threads=64, checks=2000, interval=interval, seed=1, seconds=30)
    assert not wrong, wrong[0][2]
    assert made >= 200


def test_as_plain_python():
    command = [sys.executable, "-m", "tests.fuzz.threads", "--checks", "1000", "--seconds", "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "RUSHLIGHT_NATIVE": "0"})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
