"""Losses of operands whose shapes differ."""
import pytest

import rushlight as rl
import rushlight.nn.functional as F


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
def test_a_forgotten_dimension_is_told(loss):
    with pytest.warns(UserWarning, match="target size"):
        spread = loss(rl.ones(2, 1), rl.zeros(2), reduction="none")
    assert spread.shape == (2, 2)


def test_equal_shapes_warn_of_nothing(recwarn):
    F.mse_loss(rl.ones(2, 1), rl.zeros(2, 1))
    assert not recwarn.list
