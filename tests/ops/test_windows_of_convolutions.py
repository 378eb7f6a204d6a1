"""Convolutions with windows of many places, and their gradients, beside torch."""
import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def gradients(library, dtype, shape, weight, padding):
    generator = np.random.default_rng(0)
    x, w = (library.tensor(generator.standard_normal(s), dtype=getattr(library, dtype)).requires_grad_()
            for s in (shape, weight))
    y = getattr(library.nn.functional, f"conv{len(padding)}d")(x, w, padding=padding)
    y.backward(library.tensor(generator.standard_normal(tuple(y.shape)), dtype=getattr(library, dtype)))
    return [t.detach().double().numpy() for t in (y, x.grad, w.grad)]


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-4), ("float64", 1e-10)])
@pytest.mark.parametrize("shape, weight, padding",
                         [((1, 1, 20, 20), (16, 1, 13, 13), (6, 6)), ((2, 4, 18, 18), (16, 4, 11, 11), (5, 5)),
                          ((1, 24, 12, 12), (40, 24, 7, 7), (3, 3)),
                          ((1, 1, 14, 14, 6), (16, 1, 13, 13, 1), (6, 6, 0)), ((1, 2, 300), (8, 2, 201), (100,))])
def test_large_windows(shape, weight, padding, dtype, tolerance):
    for ours, theirs in zip(gradients(rl, dtype, shape, weight, padding),
                            gradients(torch, dtype, shape, weight, padding)):
        np.testing.assert_allclose(ours, theirs, atol=tolerance * np.abs(theirs).max())


def test_gradients_of_one_image_that_lie_by_channels():
    """The gradient of a bias is the sum of gradients, in whatever order they lie."""
    norm, x, g = rl.nn.BatchNorm2d(4), rl.randn(1, 4, 3, 3, requires_grad=True), rl.randn(1, 9, 4)
    (norm(x).flatten(2).transpose(1, 2) * g).sum().backward()
    np.testing.assert_allclose(norm.bias.grad.numpy(), g.sum((0, 1)).numpy(), rtol=1e-5, atol=1e-6)
