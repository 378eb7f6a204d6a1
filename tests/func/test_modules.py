"""Modules as functions of their parameters."""
import numpy as np
import pytest
import torch._functorch.make_functional  # noqa: F401 - which torch does not import by itself

import rushlight as rl
from rushlight._functorch.make_functional import (functional_init_with_buffers, make_functional,
                                                  make_functional_with_buffers)
from rushlight.func import functional_call, grad, stack_module_state, vmap
from .judge import same_error

X = rl.tensor(np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4))


class Net(rl.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = rl.nn.Linear(4, 3)
        self.register_buffer("shift", rl.ones(3))

    def forward(self, x, scale=1.0):
        return self.inner(x) * scale + self.shift


def test_other_parameters():
    net = Net()
    given = {"inner.weight": rl.zeros(3, 4), "inner.bias": rl.full((3,), 2.0), "shift": rl.full((3,), 5.0)}
    assert (functional_call(net, given, (X,)) == 7).all()
    assert (functional_call(net, given, X, {"scale": 3.0}) == 11).all()
    assert (functional_call(net, ({"shift": rl.zeros(3)}, {"inner.bias": rl.zeros(3)}), X)
            == X @ net.inner.weight.t()).all()
    assert (net.shift == 1).all() and isinstance(net.inner.weight, rl.nn.Parameter)


def test_restores_after_an_error():
    net = Net()
    before = net.inner.weight
    with pytest.raises(RuntimeError):
        functional_call(net, {"inner.weight": rl.zeros(3, 5)}, (X,))
    assert net.inner.weight is before


def test_tied_weights():
    net = rl.nn.Sequential(rl.nn.Linear(4, 4), rl.nn.Linear(4, 4))
    net[1].weight = net[0].weight
    zeros = {"0.weight": rl.zeros(4, 4), "0.bias": rl.zeros(4), "1.bias": rl.zeros(4)}
    assert (functional_call(net, zeros, X) == 0).all()
    untied = functional_call(net, {"0.weight": rl.eye(4), "0.bias": rl.zeros(4), "1.bias": rl.zeros(4)}, X,
                             tie_weights=False)
    assert rl.allclose(untied, X @ net[1].weight.t())
    with pytest.raises(ValueError, match="tied"):
        functional_call(net, {"0.weight": rl.zeros(4, 4), "1.weight": rl.ones(4, 4)}, X)


ERRORS = {
    "strict": lambda t: t.func.functional_call(t.nn.Linear(2, 2), {"weight": t.ones(2, 2)}, (t.ones(2),), strict=True),
    "unknown": lambda t: t.func.functional_call(t.nn.Linear(2, 2), {"foo.bar": t.ones(2)}, (t.ones(2),)),
    "twice": lambda t: t.func.functional_call(t.nn.Linear(2, 2), ({"bias": t.ones(2)}, {"bias": t.ones(2)}),
                                              (t.ones(2),)),
    "no models": lambda t: t.func.stack_module_state([]),
    "modes": lambda t: t.func.stack_module_state([t.nn.Linear(2, 2), t.nn.Linear(2, 2).eval()]),
    "wishes": lambda t: t.func.stack_module_state([t.nn.Linear(2, 2).requires_grad_(False), t.nn.Linear(2, 2)]),
    "ensemble of none": lambda t: t._functorch.make_functional.combine_state_for_ensemble([]),
    "ensemble of modes": lambda t: t._functorch.make_functional.combine_state_for_ensemble([t.nn.Linear(2, 2),
                                                                                            t.nn.Linear(2, 2).eval()]),
    "buffers left out": lambda t: t._functorch.make_functional.make_functional(t.nn.BatchNorm1d(2)),
    "classes": lambda t: t.func.stack_module_state([t.nn.Linear(2, 2), t.nn.ReLU()]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_as_torch(name):
    assert same_error(ERRORS[name])


def test_ensemble():
    nets = [Net() for _ in range(3)]
    parameters, buffers = stack_module_state(nets)
    assert parameters["inner.weight"].shape == (3, 3, 4) and parameters["inner.weight"].requires_grad and parameters[
        "inner.weight"].is_leaf
    out = vmap(lambda p, b: functional_call(nets[0], (p, b), (X,)))(parameters, buffers)
    assert rl.allclose(out, rl.stack([n(X) for n in nets]))
    out.sum().backward()
    assert parameters["inner.bias"].grad.tolist() == [[2.0] * 3] * 3


def test_functions_of_tuples():
    net = Net()
    call, parameters, buffers = make_functional_with_buffers(net)
    assert call.param_names == ("inner.weight",
                                "inner.bias") and call.buffer_names == ("shift",) and all(p.requires_grad
                                                                                          for p in parameters)
    assert (call([rl.zeros(3, 4), rl.ones(3)], buffers, X, scale=2.0) == 3).all() and (call(parameters, buffers, X)
                                                                                       == net(X)).all()
    assert (call.stateless_model.inner.weight == net.inner.weight).all() and parameters[0] is not net.inner.weight
    linear, given = make_functional(rl.nn.Linear(4, 3), disable_autograd_tracking=True)
    assert not any(p.requires_grad for p in given) and linear(given, X).shape == (2, 3)
    with pytest.raises(ValueError):
        call(parameters[:1], buffers, X)


def test_functions_of_tuples_tie_weights():
    net = rl.nn.Sequential(rl.nn.Linear(4, 4), rl.nn.Linear(4, 4))
    net[1].weight = net[0].weight
    call, parameters = make_functional(net)
    assert len(parameters) == 3 and (call(tuple(map(rl.zeros_like, parameters)), X) == 0).all()


@pytest.mark.parametrize("shape", [(), (3,)])
def test_ensembles_of_tuples(shape):
    parameters, buffers, call, names, buffer_names = functional_init_with_buffers(Net, shape)()
    assert parameters[0].shape == (*shape, 3, 4) and buffers[0].shape == (*shape, 3) and (names, buffer_names) == (
        ("inner.weight", "inner.bias"), ("shift",))
    out = vmap(lambda p, b: call(p, b, (X,)))(parameters, buffers) if shape else call(parameters, buffers, (X,))
    assert rl.allclose(out, X @ parameters[0].mT + parameters[1].unsqueeze(-2) + 1)


def test_statistics_are_forgotten():
    net = rl.nn.Sequential(rl.nn.BatchNorm1d(3), rl.nn.Sequential(rl.nn.BatchNorm2d(3)),
                           rl.nn.InstanceNorm1d(3, track_running_stats=True))
    assert rl.func.replace_all_batch_norm_modules_(net) is net
    assert not list(net[0].buffers()) and not list(net[1].buffers()) and len(list(net[2].buffers())) == 3
    assert vmap(net[0])(rl.randn(2, 5, 3)).shape == (2, 5, 3)


def test_gradients_of_examples():
    net = rl.nn.Sequential(rl.nn.Conv2d(1, 4, 3), rl.nn.ReLU(), rl.nn.Flatten(), rl.nn.Linear(16, 3))
    x, y = rl.randn(5, 1, 4, 4), rl.tensor([0, 1, 2, 0, 1])
    parameters = {k: v.detach() for k, v in net.named_parameters()}

    def loss(p, x, y):
        return rl.nn.functional.cross_entropy(functional_call(net, p, (x[None],)), y[None])

    found = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    for k in range(5):
        net.zero_grad()
        rl.nn.functional.cross_entropy(net(x[k:k + 1]), y[k:k + 1]).backward()
        for name, p in net.named_parameters():
            assert rl.allclose(found[name][k], p.grad, atol=1e-6), name


def test_dropout_within_vmap():
    net = rl.nn.Sequential(rl.nn.Linear(4, 64), rl.nn.Dropout(0.5))
    drawn = vmap(net, randomness="different")(rl.ones(6, 4))
    masks = {tuple((row == 0).tolist()) for row in drawn}
    assert len(masks) == 6
    same = vmap(net, randomness="same")(rl.ones(6, 4))
    assert len({tuple((row == 0).tolist()) for row in same}) == 1
