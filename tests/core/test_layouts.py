"""Strides of results beside PyTorch's: elementwise ones lie as their first argument of full size, joined ones row by
row or with channels last."""
import pytest
import torch

import rushlight

BOTH = (rushlight, torch)


def lying(framework, shape, order):
    """Zeros of a shape whose dimensions lie in memory in an order, the last innermost."""
    return framework.zeros([shape[k] for k in order]).permute(*[order.index(k) for k in range(len(shape))])


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("call", [lambda f, x: x + 1, lambda f, x: x * x, lambda f, x: f.where(x > 0, x, 0.0),
                                  lambda f, x: x.exp(), lambda f, x: f.cat([x, x], 0),
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


STRIDED = [((1, 3), (7, 1)), ((3, 1), (1, 9)), ((1, 1), (5, 5)), ((2, 1, 3), (3, 50, 1)), ((2, 1, 4, 4), (16, 1, 4, 1)),
           ((2, 3, 1, 1), (3, 1, 3, 3)), ((1, 3, 2, 2), (99, 1, 6, 3)),
           ((2, 1, 1, 1), (1, 1, 1, 1)), ((1, 1, 3, 4), (12, 12, 4, 1)), ((0, 3), (1, 1)), ((2, 0, 1), (5, 5, 5)),
           ((1, 2, 1, 3, 1), (6, 3, 9, 1, 7)), ((2, 3, 4, 5), (60, 1, 15, 3)),
           ((1, 3, 4, 5), (60, 1, 15, 3)), ((2, 1), (2, 1)), ((2, 1), (1, 2))]
CALLS = {
    "contiguous": lambda f, x: x.contiguous(), "clone": lambda f, x: x.clone(),
    "in order": lambda f, x: x.clone(memory_format=f.contiguous_format),
    "channels last": lambda f, x: x.contiguous(memory_format=f.channels_last),
    "copied, channels last": lambda f, x: x.clone(memory_format=f.channels_last),
    "to channels last": lambda f, x: x.to(memory_format=f.channels_last), "empty_like": lambda f, x: f.empty_like(x),
    "empty images": lambda f, x: f.empty_like(x, memory_format=f.channels_last),
    "videos": lambda f, x: f.empty_like(x, memory_format=f.channels_last_3d),
    "zeros_like": lambda f, x: f.zeros_like(x), "rand_like": lambda f, x: f.rand_like(x),
    "double": lambda f, x: x.double(), "exp": lambda f, x: x.exp(), "sum of two": lambda f, x: x + x,
    "cat": lambda f, x: f.cat([x, x], 0), "by two": lambda f, x: x * 2,
    "flatten": lambda f, x: x.flatten(), "reshape": lambda f, x: x.reshape(*x.shape, 1),
    "rows": lambda f, x: x.reshape(-1, 1), "transpose": lambda f, x: x.transpose(0, -1).contiguous(),
    "moved": lambda f, x: x.movedim(0, -1).contiguous(),
    "expand": lambda f, x: x.expand(*[3 if s == 1 else s for s in x.shape])}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("shape, strides", STRIDED)
def test_strides_of_dimensions_of_size_one(shape, strides, call):
    found = []
    for f in BOTH:
        try:
            out = CALLS[call](f, f.empty_strided(shape, strides))
            found.append((tuple(out.shape), tuple(out.stride()), out.is_contiguous(),
                          out.is_contiguous(memory_format=f.channels_last)))
        except RuntimeError:
            found.append(RuntimeError)
    assert found[0] == found[1]
