"""A small folder of tests is run, counted and told by cause, without the judge."""
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
TESTS = """
import os
import torch
from torch._dynamo.absent import count
from torch.nn import Linear, NoSuchLayer
from torch.testing._internal.common_utils import TestCase

class TestSmall(TestCase):
    def test_right(self):
        self.assertEqual(Linear(2, 3)(torch.ones(1, 2)).shape, (1, 3))

    def test_wrong(self):
        self.assertEqual(torch.ones(2), torch.zeros(2))

    def test_private(self):
        count()

    def test_public(self):
        NoSuchLayer(2)

    def test_zdies(self):
        os._exit(3)

    def test_zendless(self):
        while True:
            pass

    def test_zskipped(self):
        self.skipTest("no device")
"""


def test_outcomes_are_counted_by_cause(tmp_path):
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_small.py").write_text(TESTS)
    (tmp_path / "test" / "test_unloaded.py").write_text("import torch\ntorch.ones(2, 3) @ torch.ones(2)\n")
    command = [sys.executable, "-m", "tests.upstream", str(tmp_path), "*", "--judge", "", "--causes", "9",
               "--limit", "5", "--jobs", "2"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1500)
    assert "| test_small.py | 6 | 1 | 16.7% | 5 | 20.0% |" in told.stdout, told
    assert "AbsentName: rushlight.nn.NoSuchLayer" in told.stdout
    assert "Tensor-likes are not close" in told.stdout
    assert "died | TestSmall::test_zdies" in told.stdout
    assert "over the limit of 0 s | TestSmall::test_zendless" in told.stdout
    assert "_dynamo.absent" not in told.stdout
    assert "| test_unloaded.py, does not load: " in told.stdout
