"""The native hot path and its plain twin survive what a program may do to them."""
import os
import subprocess
import sys

import pytest

from .hazards import HAZARDS


# as plain Python the hot path is for one thread, and may be interrupted between any two lines
ONLY_COMPILED = ("threads", "interrupted_calls")


@pytest.mark.parametrize("native", ["1", pytest.param("0", marks=pytest.mark.long)])
def test_nothing_crashes_or_leaks(native):
    names = [n for n in HAZARDS if native == "1" or n not in ONLY_COMPILED]
    done = subprocess.run([sys.executable, "-m", "tests.fuzz.hazards", *names], capture_output=True, text=True,
                          timeout=1500, env={**os.environ, "RUSHLIGHT_NATIVE": native})
    assert done.returncode == 0 and done.stdout.strip().endswith("done"), done.stdout[-200:] + done.stderr[-3000:]
