"""Functions of the top level whose arguments differ from those of nn.functional."""
import numpy as np
import pytest
import torch as judge

import rushlight as torch

CALLS = {
    "kl_div": lambda t, x, y: t.kl_div(x, y.abs(), 2),
    "hinge": lambda t, x, y: t.hinge_embedding_loss(x, y.sign(), reduction=0),
    "poisson": lambda t, x, y: t.poisson_nll_loss(x, y.abs(), True, False, 1e-8, 1),
    "logits": lambda t, x, y: t.binary_cross_entropy_with_logits(x, y.sigmoid(), reduction=2),
    "batch_norm": lambda t, x, y: t.batch_norm(x, y[0], y[1], None, None, True, 0.1, 1e-5, False),
    "instance_norm": lambda t, x, y: t.instance_norm(x[None], None, None, None, None, True, 0.1, 1e-5, False),
    "nuclear": lambda t, x, y: t.nuclear_norm(x),
    "lstm": lambda t, x, y: t.lstm_cell(x, (y[:, :1], y[:, 1:2]), y, y[:, :1])[0],
    "gru": lambda t, x, y: t.gru_cell(x, y[:, :1], y[:3], y[:3, :1]),
    "tanh": lambda t, x, y: t.rnn_tanh_cell(x, y[:, :1], y[:1], y[:1, :1]),
    "relu": lambda t, x, y: t.rnn_relu_cell(x, y[:, :1], y[:1], y[:1, :1]),
    "low": lambda t, x, y: (lambda u, s, v: u * s @ v.mT)(*t.svd_lowrank(x, 4)),
    "pca": lambda t, x, y: t.pca_lowrank(x, 3)[1]}


@pytest.mark.parametrize("name", CALLS)
def test_as_in_pytorch(name):
    arrays = [np.random.default_rng(k).standard_normal((4, 4)).astype(np.float32) for k in (0, 1)]
    expected, found = (CALLS[name](t, *map(t.from_numpy, arrays)) for t in (judge, torch))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)


def test_default_type_by_its_older_name():
    try:
        torch.set_default_tensor_type(torch.DoubleTensor)
        assert torch.ones(1).dtype is torch.float64
        torch.set_default_tensor_type("torch.FloatTensor")
        assert torch.ones(1).dtype is torch.float32
        with pytest.raises(TypeError):
            torch.set_default_tensor_type(torch.LongTensor)
    finally:
        torch.set_default_dtype(torch.float32)


def test_elements_by_a_function():
    assert torch.ones(2).map_(torch.tensor([2.0, 3.0]), lambda a, b: a + b).tolist() == [3.0, 4.0]
    assert torch.ones(2).type(torch.DoubleTensor).dtype is torch.float64
