"""A test suite written for PyTorch's ``common_utils`` has the same outcome here."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITE = """
import sys
if sys.argv.pop() == "ours":
    import rushlight.compat; rushlight.compat.install()
import unittest
import torch, numpy as np
from torch.testing._internal.common_utils import (TestCase, run_tests, parametrize, subtest, instantiate_parametrized_tests, make_tensor, freeze_rng_state, set_default_dtype, slowTest,
    skipIfNoSciPy, TemporaryFileName, IS_LINUX, TEST_NUMPY, gradcheck, decorateIf, skipIfTorchDynamo, DeterministicGuard, noncontiguous_like, torch_to_numpy_dtype_dict)

class TestThings(TestCase):
    @parametrize("n", [1, 2])
    @parametrize("name,flag", [("a", True), subtest(("b", False), name="other")])
    def test_cases(self, n, name, flag):
        self.assertEqual(flag, name == "a")

    @parametrize("dtype", [torch.float32, torch.int64])
    @decorateIf(unittest.expectedFailure, lambda given: False)
    def test_dtypes(self, dtype):
        self.assertEqual(make_tensor(2, 3, dtype=dtype, device="cpu").dtype, dtype)

    def test_close(self):
        self.assertEqual(torch.ones(2), torch.ones(2) + 1e-7)
        self.assertEqual(torch.ones(2), np.ones(2, np.float32))
        self.assertEqual([1.0, torch.zeros(1)], [1.0, torch.zeros(1)])
        self.assertEqual(torch.tensor(3), 3)
        self.assertEqual("a", "a")
        self.assertEqual({"a": torch.ones(1)}, {"a": torch.ones(1)})
        self.assertNotEqual(torch.ones(2), torch.zeros(2))
        self.assertEqual(torch.ones(2), torch.ones(2) * 1.1, atol=0.2, rtol=0)

    def test_differs(self):
        self.assertEqual(torch.ones(2), torch.ones(2) * 2)

    def test_of_another_dtype(self):
        self.assertEqual(torch.ones(2), torch.ones(2).double())

    def test_of_another_length(self):
        self.assertEqual([1, 2], [1, 2, 3])

    def test_blocks(self):
        with freeze_rng_state():
            a = torch.rand(2)
        self.assertEqual(a, torch.rand(2))
        with set_default_dtype(torch.float64):
            self.assertEqual(torch.ones(1).dtype, torch.float64)
        with TemporaryFileName() as name, DeterministicGuard(True):
            torch.save(a, name)
            self.assertTrue(torch.are_deterministic_algorithms_enabled())
        self.assertFalse(noncontiguous_like(torch.ones(2, 3)).is_contiguous())

    def test_gradients(self):
        self.assertTrue(gradcheck(torch.sin, (torch.ones(2, dtype=torch.float64, requires_grad=True),)))

    @slowTest
    def test_slow(self):
        self.fail()

    @skipIfTorchDynamo("never")
    def test_runs(self):
        self.assertNotWarn(lambda: torch.ones(1))
        self.assertTrue(TEST_NUMPY and torch_to_numpy_dtype_dict[torch.float32] is np.float32)

instantiate_parametrized_tests(TestThings)
if __name__ == "__main__":
    sys.argv.append("-v")
    run_tests()
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Test -> outcome, under both libraries."""
    script = tmp_path_factory.mktemp("suite") / "suite.py"
    script.write_text(SUITE)

    alone = {name: value for name, value in os.environ.items() if name != "CI"}  # there PyTorch writes XML reports

    def run(whose):
        done = subprocess.run([sys.executable, script, whose], capture_output=True, text=True, cwd=ROOT, timeout=1500,
                              env=alone)
        lines = [line for line in done.stderr.splitlines() if line.startswith("test_") and " ... " in line]
        return {line.split()[0]: line.rpartition(" ... ")[2].split()[0] for line in lines}, done.stderr
    return run("theirs"), run("ours")


def test_the_same_tests_pass_fail_and_are_left_out(outcomes):
    (theirs, _), (ours, text) = outcomes
    assert len(theirs) > 12 and set(theirs.values()) == {"ok", "FAIL", "skipped"} and ours == theirs, text
