"""The arena: no two that live at once overlap, and it is not much larger than what lives at once."""
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight._src.compiler.memory import Life, plan, verify

lives = st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 30),
                           st.integers(0, 10)).map(lambda t: Life(t[0], t[1], t[1] + t[2])), max_size=40)


@settings(deadline=None)
@given(lives)
def test_no_two_that_live_at_once_overlap(lives):
    offsets, size = plan(lives)
    verify(lives, offsets)
    assert all(at % 64 == 0 and at + life.size <= size for at, life in zip(offsets, lives))
    rounded = [-(-life.size // 64) * 64 for life in lives]
    assert size <= sum(rounded)
    assert size >= max((sum(n for n, life in zip(rounded, lives) if life.first <= k <= life.last) for k in range(41)),
                       default=0)


def test_a_chain_takes_two_places():
    assert plan([Life(64, k, k + 1) for k in range(10)])[1] == 128


def test_overlaps_are_found():
    with pytest.raises(AssertionError, match="overlap"):
        verify([Life(64, 0, 2), Life(64, 2, 3)], [0, 32])
    verify([Life(64, 0, 1), Life(64, 2, 3)], [0, 32])
