"""What crosses from forward to backward."""
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as torch
from rushlight._src.compiler.flow import Network
from rushlight.nn import functional as F

from ..whole import whole

edges = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 9)), max_size=20)


@settings(deadline=None)
@given(edges)
def test_the_cut_is_the_smallest(edges):
    network = Network(7)
    for a, b, capacity in edges:
        network.edge(a, b, capacity)
    side = network.sink_side()

    def value(side):
        return sum(c for a, b, c in edges if a not in side and b in side)

    assert 1 in side and 0 not in side or not edges
    least = min(value({1, *chosen}) for n in range(6) for chosen in itertools.combinations(range(2, 7), n))
    assert value(side) == least


def saved(body, *tensors):
    """The shapes and dtypes that a program's backward keeps beyond its arguments and results."""
    operator = whole(body)
    operator(*tensors)
    plan, = operator.plans.values()
    return [(tuple(m.shape), m.dtype) for m in plan.outputs[len(plan.outputs) - plan.extra:]]


def test_cheap_values_are_computed_again():
    x, w = torch.randn(8, 16), torch.randn(16, 32, requires_grad=True)
    found = saved(lambda x, w: (F.gelu(x @ w) * 2 + 1).sum(), x, w)
    assert found == [((8, 32), torch.float32)]


def test_normalisation_keeps_its_statistics_and_no_copy_of_its_input():
    x, w = torch.randn(64, 32, requires_grad=True), torch.randn(32, requires_grad=True)
    found = saved(lambda x, w: F.layer_norm(x, (32,), w).exp().sum(), x, w)
    assert all(shape == (64, 1) for shape, _ in found)


def test_dropout_keeps_bytes():
    w = torch.randn(64, 32, requires_grad=True)
    assert saved(lambda w: F.dropout(w, 0.5).sum(), w) == [((64, 32), torch.bool)]


def test_a_deep_network_keeps_no_more_than_eager_mode():
    """A residual block: the input of each product, and what its activation needs."""
    x = torch.randn(32, 16)
    weights = [torch.randn(16, 16, requires_grad=True) for _ in range(6)]

    def body(x, *weights):
        for w in weights:
            x = x + F.gelu(F.layer_norm(x, (16,)) @ w)
        return x.sum()

    large = [shape for shape, _ in saved(body, x, *weights) if shape == (32, 16)]
    assert len(large) <= 3 * len(weights)


def test_second_derivatives():
    w, v = torch.randn(5, dtype=torch.float64, requires_grad=True), torch.randn(5, dtype=torch.float64)

    def body(w, v):
        return (F.gelu(w * v) * torch.softmax(w, 0)).sum()

    def second(function):
        g, = torch.autograd.grad(function(w, v), w, create_graph=True)
        return torch.autograd.grad((g * g).sum(), w)[0].numpy()

    np.testing.assert_allclose(second(whole(body)), second(body), rtol=1e-9)


@pytest.mark.parametrize("body", (
    lambda x, w: F.linear(x, w), lambda x, w: x @ w.t(), lambda x, w: (w.double() @ x.double().t()).float(),
    lambda x, w: (x @ w.t()) * w.sum(),
    lambda x, w: F.linear(F.gelu(F.linear(x, w)), w.t())))
def test_gradients_of_compiled_programs_lie_as_their_sources(body):
    """They are collected where they lie; under autocast a conversion follows the product that makes a weight's
    gradient."""
    x, w = torch.randn(33, 20, requires_grad=True), torch.randn(48, 20, requires_grad=True)

    def cast(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return body(x, w)

    for function in (body, cast):
        y = torch.compile(function)(x, w)
        g = torch.randn_like(y)
        found, wanted = (torch.autograd.grad(result, (x, w), g) for result in (y, function(x, w)))
        for one, other, source in zip(found, wanted, (x, w)):
            assert one.stride() == source.stride()
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=2e-2, atol=2e-2 * abs(other).max().item())
