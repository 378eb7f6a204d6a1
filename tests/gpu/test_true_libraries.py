"""The true libraries accept what ours asks for; skipped where they are not installed."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

from rushlight._src.devices.triton.vendor.dialects import NVIDIA
from rushlight._src.devices.triton.vendor.dnn import FILES
from rushlight._src.devices.triton.vendor.finding import candidates

THERE = all(any(os.path.isabs(path) for path in candidates(files)) for files in (NVIDIA.files, FILES))


@pytest.mark.long
@pytest.mark.skipif(not THERE, reason="cuBLASLt and cuDNN are not installed (RUSHLIGHT_VENDOR_PATH names folders)")
def test_true_libraries():
    root = pathlib.Path(__file__).resolve().parents[2]
    made = subprocess.run([sys.executable, "-m", "tests.gpu.true_libraries"], cwd=root, capture_output=True, text=True,
                          timeout=1200)
    assert made.returncode == 0, made.stderr
    found = json.loads(made.stdout)
    assert found["unlike the stand-in's"] == [{}, {}, {}] and found["products"] == 56
    judged = {name: one for name, one in found.items() if name.endswith(("forward", "backward", "input", "weight"))}
    assert len(judged) == 23 and all("workspace" in one for one in judged.values()), judged
