"""PyTorch's testing library imports under Rushlight as it is: no name that it reads then is stood in for."""
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
PROGRAM = """
import importlib, pathlib, sys
import rushlight, rushlight.compat
from tests.upstream.standins import Finder, LIBRARY
rushlight.compat.install()
finder = Finder(pathlib.Path())
finder.sources = finder.library  # the installed torch alone
sys.meta_path.insert(0, finder)
import torch
assert torch is rushlight
for name in sys.argv[1:]:
    module = importlib.import_module(f"{LIBRARY}.{name}")
    assert module.__file__.startswith(str(finder.library)), module.__file__


class TestSmall(module.TestCase):
    def test_small(self):
        self.assertEqual(torch.ones(2), torch.ones(2))
        with self.assertRaisesRegex(AssertionError, "not close"):
            self.assertEqual(torch.ones(2), torch.zeros(2))


result = module.unittest.TextTestRunner().run(TestSmall("test_small"))
assert result.testsRun == 1 and result.wasSuccessful()
assert torch._C.__name__ == "rushlight._C"  # nothing native of the installed torch
"""
MODULES = "common_dtype", "common_cuda", "common_device_type", "common_nn", "common_quantized", "common_utils"


def test_the_testing_library_imports_and_compares():
    done = subprocess.run([sys.executable, "-c", PROGRAM, *MODULES], cwd=ROOT, capture_output=True, text=True,
                          timeout=1500)
    assert done.returncode == 0, done.stderr[-3000:]
