"""Where memory lies on machines of several nodes: the setting reaches the system, which goes by it."""
import os
import subprocess
import sys

import pytest

from rushlight._src.core.platform import here
from rushlight._src.core.platform.base import Platform

PROGRAM = """
import ctypes, platform, threading
import rushlight as rl
number = {"x86_64": 239, "aarch64": 236}[platform.machine()]  # get_mempolicy
def policy():
    found = ctypes.c_int(-1)
    wrong = ctypes.CDLL(None).syscall(number, ctypes.byref(found), None, 0, None, 0)
    return None if wrong else found.value
found = [policy()]
thread = threading.Thread(target=lambda: found.append(policy()))
thread.start(); thread.join()
print(*found, rl.ones(1 << 20).sum().item())
"""


@pytest.mark.skipif(here.name != "linux", reason="only Linux is asked for nodes")
@pytest.mark.parametrize("choice, policy", [("first", "0"), ("interleave", "3")])
def test_the_policy_of_memory_is_that_of_the_setting(choice, policy):
    found = subprocess.run([sys.executable, "-c", PROGRAM], text=True, capture_output=True, timeout=1500,
                           env={**os.environ, "RUSHLIGHT_NODES": choice})
    assert found.returncode == 0, found.stderr
    *policies, total = found.stdout.split()
    if "None" in policies:
        pytest.skip("this system does not tell its policy")
    assert policies == [policy, policy] and float(total) == 1 << 20


def test_nodes_are_numbers():
    assert here.nodes() and all(node >= 0 for node in here.nodes())
    assert Platform().nodes() == (0,) and not Platform().interleave((0,))


def test_another_choice_is_refused():
    found = subprocess.run([sys.executable, "-c", "import rushlight"], text=True, capture_output=True, timeout=1500,
                           env={**os.environ, "RUSHLIGHT_NODES": "somewhere"})
    assert found.returncode and "RUSHLIGHT_NODES is 'somewhere': it must be one of first, interleave" in found.stderr
