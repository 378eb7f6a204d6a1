"""Strides of results beside PyTorch's: elementwise ones lie as their first argument of full size, joined ones row by row or with channels last."""
import pytest
import torch

import rushlight

BOTH = (rushlight, torch)


def lying(framework, shape, order):
    """Zeros of a shape whose dimensions lie in memory in an order, the last innermost."""
    return framework.zeros([shape[k] for k in order]).permute(*[order.index(k) for k in range(len(shape))])


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("call", [lambda f, x: x + 1, lambda f, x: x * x, lambda f, x: f.where(x > 0, x, 0.0), lambda f, x: x.exp(), lambda f, x: f.cat([x, x], 0),
                                  lambda f, x: x[..., ::2] * 2, lambda f, x: x + f.zeros(x.shape[-1])])
def test_results_lie_as_their_arguments(order, call):
    ours, theirs = [call(f, lying(f, (2, 3, 4), order)) for f in BOTH]
    assert tuple(ours.stride()) == theirs.stride()


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0)])
@pytest.mark.parametrize("batch", [1, 2])
def test_joined_images(order, batch):
    ours, theirs = [f.cat([lying(f, (batch, 3, 4, 5), order)] * 2, 1) for f in BOTH]
    assert tuple(ours.stride()) == theirs.stride()


def test_strides_of_single_channels():
    """A dimension of one element keeps the stride that it has in the argument."""
    for f in BOTH:
        x = f.zeros(2, 1, 4, 4).to(memory_format=f.channels_last)
        assert tuple((x * 2).stride()) == x.stride()
