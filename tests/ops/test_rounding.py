"""Rounding to few bits, forward and backward, against PyTorch."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402

pytestmark = pytest.mark.processor


def both(program):
    ours, theirs = program(rl), program(torch)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-7)


VALUES = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("compiled", [False, True])
def test_of_a_whole_tensor(compiled):
    def program(t):
        x = t.tensor(VALUES, requires_grad=True)
        def f(x):
            return t.fake_quantize_per_tensor_affine(x, 0.13, 3, -8, 12)
        y = (t.compile(f) if compiled and t is rl else f)(x)
        (y * y).sum().backward()
        return [y, x.grad, t.fake_quantize_per_tensor_affine(x.detach(), t.tensor(0.2), t.tensor(1, dtype=t.int32), 0,
                                                             10)]
    both(program)


def test_of_channels():
    def program(t):
        x = t.tensor(VALUES, requires_grad=True)
        y = t.fake_quantize_per_channel_affine(x, t.tensor([0.1, 0.2, 0.3]), t.tensor([0, 1, -2], dtype=t.int32), 1, -5,
                                               5)
        y.sum().backward()
        return [y, x.grad]
    both(program)


@pytest.mark.parametrize("call", [lambda t: t.fake_quantize_per_tensor_affine(t.ones(2), 0.1, 0, 5, 1),
                                  lambda t: t.fake_quantize_per_channel_affine(t.ones(2, 2), t.ones(3),
                                                                               t.zeros(3, dtype=t.int32), 0, 0, 1)])
def test_refused_as_by_pytorch(call):
    for t in (torch, rl):
        with pytest.raises(RuntimeError):
            call(t)
