"""Views, in-place writes, version counters and gradients through both: as PyTorch, for any program."""
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

import rushlight as rl

from .aliasing import run

torch = pytest.importorskip("torch")


@example([0, 0, 0, 0, 19, 1, 56, 62])
@given(st.lists(st.integers(0, 255), max_size=40))
@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_programs_of_views_and_writes(numbers):
    run(numbers, torch, rl)
