"""The measurements of a GPU run on the library that stands in for a driver."""
import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_it_runs_dry(tmp_path):
    out = tmp_path / "gpu.json"
    done = subprocess.run([sys.executable, "-m", "benchmarks.gpu", "--dry", "--parts", "kernels,calls,models",
                           "--cases",
                           "nanogpt", "--precisions", "bfloat16", "--modes", "training", "--out", str(out)], cwd=ROOT,
                          capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())
    assert rows["device"]["name"] == "a stub" and rows["call add, us"]["rushlight"] > 0
    found = rows["nanogpt training bfloat16, ms"]
    assert all(isinstance(found[system], float) for system in ("rushlight", "rushlight.compile", "rushlight.graphs"))
