"""The hot path as plain Python passes the tests of what runs on it."""

import os
import pathlib
import subprocess
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_the_suite_passes_uncompiled():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS / "autograd",
               TESTS / "core" / "test_tensor.py", TESTS / "core" / "native" / "test_views.py",
               TESTS / "core" / "native" / "test_search.py"]
    done = subprocess.run(command, cwd=TESTS.parent, env={**os.environ, "RUSHLIGHT_NATIVE": "0"}, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout[-4000:]
