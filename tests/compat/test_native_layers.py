"""Functions of ``torch._C._nn``: their arguments are those of the operators, not of ``torch.nn.functional``."""
import pytest
import torch

import rushlight

IMAGE, LINE, VOLUME = (1, 2, 4, 6), (1, 2, 6), (1, 2, 4, 4, 6)


def filled(t, shape, offset=0.0):
    count = 1
    for size in shape:
        count *= size
    return ((t.arange(float(count)) * 7 % 11 - 5) / 4 + offset).reshape(shape)


def classes(t):
    return t.tensor([0, 2, 1])


CALLS = {
    "mse_loss": lambda t, f: f(filled(t, (2, 3)), filled(t, (2, 3), 1.0), 0),
    "l1_loss": lambda t, f: f(filled(t, (2, 3)), filled(t, (2, 3), 1.0), 2),
    "smooth_l1_loss": lambda t, f: f(filled(t, (2, 3)), filled(t, (2, 3), 1.0), 0, 0.5),
    "huber_loss": lambda t, f: f(filled(t, (2, 3)), filled(t, (2, 3), 1.0), 2, 0.5),
    "soft_margin_loss": lambda t, f: f(filled(t, (2, 3)), t.ones(2, 3), 0),
    "binary_cross_entropy": lambda t, f: f(t.full((2, 3), 0.25), t.ones(2, 3), None, 0),
    "nll_loss": lambda t, f: f(filled(t, (3, 4)), classes(t), None, 0, 2),
    "nll_loss_nd": lambda t, f: f(filled(t, (3, 4)), classes(t), None, 2, 1),
    "cross_entropy_loss": lambda t, f: f(filled(t, (3, 4)), classes(t), None, 2, -100, 0.1),
    "multi_margin_loss": lambda t, f: f(filled(t, (3, 4)), classes(t), 1, 1.0, None, 0),
    "elu": lambda t, f: f(filled(t, (5,)), 0.5, 2.0, 3.0),
    "hardtanh": lambda t, f: f(filled(t, (5,)), -0.5, 0.25),
    "silu_": lambda t, f: f(filled(t, (5,))),
    "hardswish_": lambda t, f: f(filled(t, (5,))),
    "gelu_": lambda t, f: f(filled(t, (5,)), approximate="tanh"),
    "relu6_": lambda t, f: f(filled(t, (5,), 5.0)),
    "glu": lambda t, f: f(filled(t, (4, 6)), 0),
    "im2col": lambda t, f: f(filled(t, IMAGE), (2, 2), (1, 1), (0, 0), (1, 1)),
    "col2im": lambda t, f: f(filled(t, (1, 8, 15)), (4, 6), (2, 2), (1, 1), (0, 0), (1, 1)),
    "adaptive_max_pool2d": lambda t, f: f(filled(t, IMAGE), (2, 3)),
    "adaptive_avg_pool3d": lambda t, f: f(filled(t, VOLUME), (2, 2, 3)),
    "max_pool2d_with_indices": lambda t, f: f(filled(t, IMAGE), 2),
    "max_unpool2d": lambda t, f: f(t.ones(1, 1, 1, 2), t.tensor([[[[1, 7]]]]), (3, 4)),
    "pad": lambda t, f: f(filled(t, IMAGE), (1, 2, 0, 1), "reflect", None),
    "replication_pad1d": lambda t, f: f(filled(t, LINE), (1, 2)),
    "reflection_pad2d": lambda t, f: f(filled(t, IMAGE), (1, 2, 0, 1)),
    "upsample_nearest1d": lambda t, f: f(filled(t, LINE), (9,)),
    "upsample_nearest2d": lambda t, f: f(filled(t, IMAGE), (5, 9)),
    "upsample_nearest3d": lambda t, f: f(filled(t, VOLUME), (5, 5, 9)),
    "upsample_linear1d": lambda t, f: f(filled(t, LINE), (9,), True),
    "upsample_bilinear2d": lambda t, f: f(filled(t, IMAGE), (5, 9), False),
    "upsample_bicubic2d": lambda t, f: f(filled(t, IMAGE), None, False, (2.0, 1.5)),
    "upsample_trilinear3d": lambda t, f: f(filled(t, VOLUME), (5, 5, 9), False),
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_take_the_operators_arguments(name):
    ours = CALLS[name](rushlight, getattr(rushlight._C._nn, name))
    theirs = CALLS[name](torch, getattr(torch._C._nn, name))
    if not isinstance(theirs, tuple):
        ours, theirs = (ours,), (theirs,)
    assert [list(x.shape) for x in ours] == [list(x.shape) for x in theirs]
    for x, y in zip(ours, theirs):
        torch.testing.assert_close(torch.from_numpy(x.numpy()), y)


def test_functions_that_functional_takes_as_they_are_stay_the_same_object():
    for name in ("gelu", "linear", "scaled_dot_product_attention", "avg_pool2d", "elu_", "softplus"):
        for t in (torch, rushlight):
            assert getattr(t._C._nn, name) is getattr(t.nn.functional, name)
    assert rushlight._C._nn.log_sigmoid is rushlight.nn.functional.logsigmoid


def test_names_that_there_are_not_are_missing():
    for t in (torch, rushlight):
        assert not hasattr(t._C._nn, "no_such_function")
