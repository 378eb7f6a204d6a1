"""A sample of the programs whose arguments share memory; ``python -m tests.fuzz.aliased`` runs more."""
import random

import pytest

import rushlight as rl
from rushlight._src.core.settings import settings

from .aliased import BROADCAST, is_undefined, random_case, run, sharing

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")


@pytest.mark.parametrize("seed", range(8))
def test_programs_whose_arguments_share_memory(seed):
    with settings.set(kernels=False, store=False):
        found, count = run(torch, rl, [random_case(random.Random(seed))])
    assert not found and count == 3


def test_results_that_share_memory_are_noticed():
    x = rl.zeros(3)
    assert sharing((x, x * 1, x[1:], x)) == [(0, 2, False, 4), (0, 3, True, 0), (2, 3, False, -4)]
    assert all(is_undefined("a.add_(b); a.neg_()", name) for name in BROADCAST)
