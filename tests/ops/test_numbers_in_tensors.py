"""Integer tensors without dimensions where sizes, dimensions and places are wanted."""
import pytest
import torch as judge

import rushlight as torch

CALLS = {
    "view": lambda t, x, n: x.view(n, 2, 6), "reshape": lambda t, x, n: x.reshape(n, -1),
    "expand": lambda t, x, n: x[:1, :1].expand(n, n * 2), "repeat": lambda t, x, n: x.repeat(n, 1),
    "narrow": lambda t, x, n: x.narrow(0, n - 1, n), "sum": lambda t, x, n: x.sum(n - 1),
    "unsqueeze": lambda t, x, n: x.unsqueeze(n), "pair": lambda t, x, n: x.view((n, 12)),
    "eye": lambda t, x, n: t.eye(n), "topk": lambda t, x, n: x.topk(n)[0], "select": lambda t, x, n: x.select(0, n),
    "unfold": lambda t, x, n: x.unfold(0, n, 1),
    "quotient": lambda t, x, n: x.view(2, t.div(12, 6, rounding_mode="trunc"), 6)}


@pytest.mark.parametrize("name", CALLS)
def test_number_in_a_tensor(name):
    theirs, own = judge.arange(24.0).reshape(4, 6), torch.arange(24.0).reshape(4, 6)
    # the same plan, another number
    for n in (2, 1) if name in ("repeat", "unsqueeze", "topk", "narrow", "select") else (2,):
        assert CALLS[name](torch, own, torch.tensor(n)).tolist() == CALLS[name](judge, theirs, judge.tensor(n)).tolist()


def test_gradients_pass():
    x = torch.ones(4, requires_grad=True)
    x.view(torch.tensor(2), 2).sum().backward()
    assert x.grad.tolist() == [1.0] * 4


def test_other_tensors_are_errors():
    with pytest.raises(TypeError):
        torch.ones(4).view(torch.tensor(2.0), 2)
