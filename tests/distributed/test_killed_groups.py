"""What takes too long is killed with all that it has started."""
import subprocess
import sys
import time

import pytest

from .groups import finished

PARENT = """import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
import time; time.sleep(600)
"""


def test_nobody_is_left():
    """The grandchild held the pipe of the output: with it open, to read to its end would take minutes."""
    start = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        finished([sys.executable, "-c", PARENT], 2)
    assert time.monotonic() - start < 300
    assert finished([sys.executable, "-c", "print(1)"], 300).stdout == "1\n"
