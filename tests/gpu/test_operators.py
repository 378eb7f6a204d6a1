"""A part of the operators' samples by Triton's interpreter (``python -m tests.gpu.operators`` runs all of them)."""
import pytest

from ..ops.test_samples import SAMPLED
from .operators import compared

EACH = 40  # of so many samples one


@pytest.mark.parametrize("name,index", SAMPLED[7::EACH])
def test_samples(gpu, name, index):
    compared(gpu[0], name, index)
