"""The native hot path and its plain twin survive what a program may do to them."""
import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("native", ["1", "0"])
def test_nothing_crashes_or_leaks(native):
    done = subprocess.run([sys.executable, "-m", "tests.fuzz.hazards"], capture_output=True, text=True, timeout=300, env={**os.environ, "RUSHLIGHT_NATIVE": native})
    assert done.returncode == 0 and done.stdout.strip().endswith("done"), done.stdout[-200:] + done.stderr[-3000:]
