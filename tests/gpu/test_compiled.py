"""A part of what ``python -m tests.gpu.compiled`` does: machine code for GPUs that need not be there."""
import importlib.util
import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("targets", ["sm_90,gfx942"])
def test_kernels_compile(targets, tmp_path):
    if importlib.util.find_spec("triton") is None:
        pytest.skip("the package triton is not installed: pip install rushlight[triton]")
    given = {"TRITON_CACHE_DIR": str(tmp_path), **os.environ}  # Triton knows what it compiled by its sources
    given.pop("TRITON_INTERPRET", None)
    done = subprocess.run([sys.executable, "-m", "tests.gpu.compiled", "--targets", targets, "log_softmax"],
                          env=given, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sm_90" in done.stdout and "fail" not in done.stdout
