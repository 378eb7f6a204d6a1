"""FakeTensorMode: no operator in the block computes anything."""
import pytest

import rushlight as torch
from rushlight._subclasses import FakeTensorMode
from rushlight.nn import functional as F

HUGE = 1 << 40


@pytest.mark.parametrize("make, shape", [
    (lambda t: t.zeros(HUGE), (HUGE,)), (lambda t: t.rand(HUGE, device="cpu") * 2, (HUGE,)), (lambda t: t.ones(4, HUGE).sum(1), (4,)), (lambda t: t.tensor([1.0, 2.0], device="cpu").exp(), (2,)),
    (lambda t: t.full((2, 3), 1.0, device="cpu"), (2, 3)), (lambda t: t.arange(6).reshape(2, 3).float() @ t.randn(3, 4), (2, 4)), (lambda t: F.conv2d(t.ones(1, 3, 8, 8), t.ones(2, 3, 3, 3)), (1, 2, 6, 6)),
    (lambda t: t.zeros(3, 4)[1:, None].add_(1), (2, 1, 4)), (lambda t: t.cat([t.zeros(2), t.ones(3)]), (5,)), (lambda t: torch.nn.Linear(3, HUGE)(t.ones(2, 3)), (2, HUGE)),
    (lambda t: t.hann_window(8), (8,)), (lambda t: t.stack([t.eye(3), t.tril(t.ones(3, 3))]), (2, 3, 3))])
def test_nothing_is_computed(make, shape):
    with FakeTensorMode():
        found = make(torch)
        assert found.is_meta and tuple(found.shape) == shape
    assert not torch.ones(2).is_meta


def test_tensors_with_data():
    real = torch.arange(6.0).reshape(2, 3).t().requires_grad_()
    with FakeTensorMode() as mode:
        with pytest.raises(AssertionError, match="convert all Tensors"):
            real + 1
        fake = mode.from_tensor(real)
        assert fake.stride() == real.stride() and (fake * 2).is_meta
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert (real + 1).is_meta
    assert not (real + 1).is_meta
