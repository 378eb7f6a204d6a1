"""Where results of dropout lie, what becomes of infinities, and which ranks are refused, beside PyTorch."""
import itertools

import pytest
import torch as judge

import rushlight as torch

BOTH = judge, torch


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
@pytest.mark.parametrize("name", ["Dropout", "Dropout2d", "AlphaDropout"])
def test_results_and_gradients_lie_as_the_input_does(name, order):
    def strides(t):
        x = t.ones(3, 3, 4, 5).permute(order).contiguous().permute([order.index(k) for k in range(4)])[1:, :, 1:]
        x = x.detach().requires_grad_()
        y = getattr(t.nn, name)(0.5)(x)
        y.backward(x.detach())
        return y.stride(), x.grad.stride()

    assert strides(judge) == strides(torch)


def test_infinities_and_nan_are_nan_where_dropped():
    for t in BOTH:
        y = t.nn.functional.dropout(t.full((1000,), float("inf")), 0.5)
        assert 300 < y.isnan().sum() < 700 and y.isinf().sum() == 1000 - y.isnan().sum()
        assert t.nn.functional.dropout(t.full((9,), float("nan")), 0.5).isnan().all()


@pytest.mark.parametrize("shape", [(2,), (1, 2, 2, 2)])
def test_dropout1d_refuses_other_ranks(shape):
    for t in BOTH:
        with pytest.raises(RuntimeError, match=f"Expected 2D or 3D input, but received a {len(shape)}D input"):
            t.nn.functional.dropout1d(t.ones(shape))


def test_bags_refuse_a_table_of_another_rank():
    for t in BOTH:
        with pytest.raises(ValueError, match="weight has to be a 2D Tensor"):
            t.nn.functional.embedding_bag(t.zeros(2, dtype=t.int64), t.ones(2, 2, 2), t.zeros(2, dtype=t.int64))
