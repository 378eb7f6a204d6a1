"""A short look at random programs of operators; ``python -m tests.fuzz.operators --seconds 600`` looks longer."""
import pytest

import rushlight as rl

from .operators import fuzz

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("count, seed",
                         [(40, 0), *(pytest.param(150, seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_random_programs(count, seed):
    found, ran = fuzz(torch, rl, seed, limit=count)
    assert not found, "\n\n".join(found.values())
    assert ran == count


def test_positions_in_a_dimension_of_size_1_are_checked():
    for call in (lambda: rl.zeros(1, 4)[rl.tensor([0, 1])], lambda: rl.zeros(1, 4).index_select(0, rl.tensor([3])),
                 lambda: rl.zeros(1, 3).take(rl.tensor([7]))):
        with pytest.raises(IndexError):
            call()
