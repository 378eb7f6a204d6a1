"""Calls with more tensors than one machine word has bits, or than the hot path has room for at first."""
import numpy as np
import pytest

import rushlight as torch
from rushlight._src.core.native import state


@pytest.fixture
def slow_calls(monkeypatch):
    """The operators that the hot path does not take, as (name, number of arguments)."""
    seen, slow = [], state.slow

    def watched(op, args, names):
        seen.append((op.name, len(args)))
        return slow(op, args, names)

    state.slow = watched
    yield seen
    state.slow = slow


class Chain(torch.nn.Module):
    """Every second parameter is multiplied, the others are added; some are frozen."""

    def __init__(self, count):
        super().__init__()
        self.steps = torch.nn.ParameterList([torch.nn.Parameter(torch.full((3,), 1 + k / 100),
                                                                requires_grad=k % 7 != 3) for k in range(count)])

    def forward(self, x):
        for k, step in enumerate(self.steps):
            x = x * step if k % 2 else x + step
        return x.mean()


@pytest.mark.parametrize("count", [50, 64, 65, 130])
def test_compiled_model_of_many_parameters(count, slow_calls):
    model = Chain(count)
    compiled, x = torch.compile(model), torch.ones(3)
    model(x).backward()
    expected = [p.grad if p.grad is None else p.grad.numpy().copy() for p in model.steps]
    for _ in range(3):
        model.zero_grad()
        slow_calls.clear()
        compiled(x).backward()
    assert not [name for name, _ in slow_calls if name.startswith("compiled")]
    for parameter, wanted in zip(model.steps, expected):
        assert (parameter.grad is None) == (wanted is None)
        if wanted is not None:
            np.testing.assert_allclose(parameter.grad.numpy(), wanted, rtol=1e-4)


def test_gradients_are_told_apart_beyond_one_word():
    pieces = [torch.ones(2) for _ in range(130)]
    for k in (0, 59, 60, 61, 64, 119, 120, 129):
        pieces[k].requires_grad_()
        (torch.cat(pieces) * torch.arange(260)).sum().backward()
        assert pieces[k].grad.tolist() == [2 * k, 2 * k + 1]
        pieces[k].requires_grad_(False)
    assert not torch.cat(pieces).requires_grad
    with torch.no_grad():
        pieces[100].requires_grad_()
        assert not torch.cat(pieces).requires_grad


def test_a_list_of_many_tensors_takes_the_hot_path(slow_calls):
    pieces = [torch.full((2,), k) for k in range(200)]
    assert torch.stack(pieces, 1)[0].tolist() == list(range(200))
    slow_calls.clear()
    assert torch.stack(pieces, dim=1).shape == (2, 200)
    assert torch.stack(pieces, 1)[1].tolist() == list(range(200))
    assert not [name for name, _ in slow_calls if name in ("stack", "cat")]


def test_numbers_beside_many_tensors():
    tensors = [torch.full((2,), float(k)) for k in range(70)]
    total = torch.compile(lambda *values: sum(values[:-1]) * values[-1])
    for factor in (2.0, 3.0, 4.0):
        assert total(*tensors, factor).tolist() == [sum(range(70)) * factor] * 2
