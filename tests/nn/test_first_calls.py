"""First calls of layers in fresh processes under the name ``torch``: compiled whole, exported, written to ONNX."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..startup.machine_code import search_path

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("first_calls.py")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@pytest.mark.parametrize("chosen", [("TransformerEncoderLayer", "MultiheadAttention", "LSTM(", "LazyLinear"),
                                    pytest.param((), marks=pytest.mark.long)], ids=["some", "all"])
def test_first_calls_of_layers(chosen):
    done = subprocess.run([sys.executable, "-m", "rushlight", str(PROGRAM), *chosen], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": search_path(ROOT)}, timeout=3000)
    assert not done.returncode, done.stderr
    tried = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(tried) >= 2 * len(chosen) + 1 and not [case for case in tried if case[2]]
