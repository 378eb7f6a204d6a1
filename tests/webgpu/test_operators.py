"""A part of the operators' samples (``python -m tests.webgpu.operators`` runs all of them)."""
import pytest

from ..ops.test_samples import SAMPLED
from .operators import compared

ALONE = ("add", "softmax", "cat", "cumsum", "matmul", "nn.functional.gelu", "erf", "sin", "pow", "argmax", "std",
         "roll", "tril", "nn.functional.pad", "digamma")
EACH = 2  # samples of each


@pytest.mark.parametrize("name", ALONE)
def test_by_shaders_alone(name):
    indices = [k for n, k in SAMPLED if n == name][:EACH]
    assert indices
    for index in indices:
        assert not compared(name, index)


def test_with_help_of_the_host():
    assert compared("linalg.inv", 0) or compared("fft.fft", 0)
