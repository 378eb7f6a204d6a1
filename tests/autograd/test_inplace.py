"""In-place operators under autograd beside PyTorch's: gradients, values saved before and after the write, refusals."""
import numpy as np
import pytest
import torch

import rushlight

BOTH = (rushlight, torch)
START = [[0.3, -1.2, 0.8], [2.0, 0.1, -0.4]]
WRITES = {
    "result saved": lambda f, x, w: x.exp_(), "target saved": lambda f, x, w: x.pow_(2),
    "both saved": lambda f, x, w: x.mul_(w), "argument saved": lambda f, x, w: x.sub_(w).mul_(w),
    "linear": lambda f, x, w: x.add_(w, alpha=3).neg_(),
    "constant": lambda f, x, w: x.zero_(), "copied": lambda f, x, w: x.copy_(w),
    "filled": lambda f, x, w: x.fill_(2.0).mul_(w),
    "row": lambda f, x, w: x[0].exp_(), "column": lambda f, x, w: x[:, 1].mul_(w[:, 0]),
    "transposed": lambda f, x, w: x.t().mul_(w.t()), "set": lambda f, x, w: x.__setitem__(0, w[1]),
    "masked": lambda f, x, w: x.masked_fill_(w > 0, 0.5), "view of a view": lambda f, x, w: x[1][1:].tanh_(),
    "diagonal": lambda f, x, w: x.diagonal().pow_(3),
    "one value": lambda f, x, w: x.fill_(w[0, 0]), "drawn": lambda f, x, w: x.uniform_().zero_(),
    "row of zeros": lambda f, x, w: x[0].zero_(),
    "broadcast": lambda f, x, w: x.copy_(w[0]),
}


@pytest.mark.parametrize("name", WRITES)
def test_gradients_through_writes(name):
    found = []
    for framework in BOTH:
        a = framework.tensor(START, dtype=framework.float64, requires_grad=True)
        w = framework.tensor([[1.5, -0.5, 2.0], [0.5, 1.0, -1.0]], dtype=framework.float64, requires_grad=True)
        x = a * 1.5
        seen = x[:, :2]  # a view from before the write shows it
        WRITES[name](framework, x, w)
        (x.sum() * 2 + (seen * seen).sum()).backward()
        gradients = [framework.full((), float("nan")) if leaf.grad is None else leaf.grad for leaf in (a, w)]
        found.append([np.asarray(v.detach().tolist()) for v in (x, seen, *gradients)])
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("wrong", [
    lambda f, a: a.exp_(), lambda f, a: a[0].exp_(), lambda f, a: a.view(-1).mul_(2),
    lambda f, a: (a * 2).sigmoid_().tanh_().sum().backward(), lambda f, a: by_itself(a * 2).sum().backward(),
    lambda f, a: write_after(f, a, lambda x: x.exp(), "result"),
    lambda f, a: write_after(f, a, lambda x: x.pow(2), "argument")])
def test_writes_that_are_refused(wrong):
    for framework in BOTH:
        with pytest.raises(RuntimeError):
            wrong(framework, framework.tensor(START, requires_grad=True))


def by_itself(x):
    return x.mul_(x)


def write_after(framework, a, function, which):
    """Changes what a function saved, and runs its backward pass."""
    x = a * 1
    y = function(x)
    with framework.no_grad():
        (y if which == "result" else x).add_(1)
    y.sum().backward()


def test_a_leaf_that_wants_no_gradient_any_more_gets_none():
    for framework in BOTH:
        a = framework.tensor(START, requires_grad=True)
        y = (a * 2).sum()
        a.requires_grad_(False)
        y.backward()
        assert a.grad is None


@pytest.mark.parametrize("name", ["zero", "fill", "copy", "power of nothing"])
def test_what_is_overwritten_has_a_gradient_when_compiled_too(name):
    calls = {"zero": lambda x: x.clone().zero_(), "fill": lambda x: x.clone().fill_(3.0),
             "copy": lambda x: x.clone().copy_(rushlight.ones(2)),
             "power of nothing": lambda x: rushlight.linalg.matrix_power(x, 0)}
    for call in (calls[name], rushlight.compile(calls[name])):
        x = rushlight.full((2, 2), 2.0, requires_grad=True)
        y = call(x)
        assert y.requires_grad and y.tolist() == calls[name](x.detach()).tolist()
        y.sum().backward()
        assert x.grad.tolist() == [[0, 0], [0, 0]]


OVERWRITTEN = {
    "instance_norm": lambda t, x: t.nn.functional.instance_norm(x),
    "batch_norm": lambda t, x: t.nn.functional.batch_norm(x, None, None, training=True),
    "layer_norm": lambda t, x: t.nn.functional.layer_norm(x, (4,)),
    "group_norm": lambda t, x: t.nn.functional.group_norm(x, 2),
    "rms_norm": lambda t, x: t.nn.functional.rms_norm(x, (4,)),
    "normalize": lambda t, x: t.nn.functional.normalize(x), "div": lambda t, x: 1 / (x + 1),
    "softsign": lambda t, x: t.nn.functional.softsign(x),
    "local_response_norm": lambda t, x: t.nn.functional.local_response_norm(x, 2),
}


@pytest.mark.parametrize("name", OVERWRITTEN)
def test_a_result_that_the_next_operator_overwrites(name):
    """As relu(inplace=True) after a normalization does."""
    def gradient(t):
        x = (t.arange(64.0).reshape(1, 4, 4, 4) % 7 + 0.5).requires_grad_()
        y = OVERWRITTEN[name](t, x).relu_()
        (y * y).sum().backward()
        return x.grad
    np.testing.assert_allclose(gradient(rushlight).numpy(), gradient(torch).numpy(), rtol=1e-4, atol=1e-5)
