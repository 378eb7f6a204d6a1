"""A short look at operators on guarded memory; ``python -m tests.fuzz.bounds`` looks at all of them, compiled, too."""
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the system to guard memory")

FAULT = """
import numpy as np
from tests.fuzz.bounds import GuardedArray
import ctypes
held = GuardedArray(np.zeros(3, "float32"), "{at}")
ctypes.memmove(ctypes.create_string_buffer(4), held.array.ctypes.data + {offset}, 1)
"""


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("at, offset, is_within", [("end", 11, True), ("end", 12, False), ("begin", 0, True),
                                                   ("begin", -1, False)])
def test_memory_faults_out_of_bounds(at, offset, is_within):
    assert (run("-c", FAULT.format(at=at, offset=offset)).returncode == 0) == is_within


def test_eager_operators_stay_within_bounds():
    done = run("-m", "tests.fuzz.bounds", "", "eager")
    assert not done.returncode, done.stdout + done.stderr[-300:]


@pytest.mark.long
def test_compiled_operators_stay_within_bounds():
    done = run("-m", "tests.fuzz.bounds", "", "compiled")
    assert not done.returncode, done.stdout + done.stderr[-300:]


@pytest.mark.long
def test_operators_of_the_database_stay_within_bounds():
    pytest.importorskip("expecttest")  # PyTorch's database wants it
    done = run("-m", "tests.fuzz.bounds_database", "--only", "roll,flip", "--most", "1", "--forms", "eager")
    assert not done.returncode and "0 differences" in done.stdout, done.stdout + done.stderr[-300:]
