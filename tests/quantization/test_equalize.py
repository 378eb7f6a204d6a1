"""Equalization across layers, against PyTorch."""
import importlib

import numpy as np
import pytest

import rushlight

from .judge import BOTH, torch

NETWORKS = {"linear": lambda nn: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 5, bias=False), nn.ReLU(),
                                               nn.Linear(5, 3)),
            "images": lambda nn: nn.Sequential(nn.Conv2d(2, 4, 3), nn.LeakyReLU(), nn.Conv2d(4, 3, 1, bias=False),
                                               nn.ReLU(), nn.Conv2d(3, 5, 3))}


def module(t):
    return importlib.import_module(f"{t.__name__}.ao.quantization._equalize")


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_are_those_of_pytorch(name):
    torch.manual_seed(0)
    theirs, ours = NETWORKS[name](torch.nn), NETWORKS[name](rushlight.nn)
    ours.load_state_dict({k: rushlight.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    shape, found = (2, 6) if name == "linear" else (2, 2, 7, 7), []
    for t, model in zip(BOTH, (ours, theirs)):
        x = t.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
        with t.no_grad():
            equal = module(t).equalize(model, [[model[0], "2", model[4]]], 1e-5, inplace=False)
            assert (equal(x) - model(x)).abs().max() < 1e-5 and equal is not model
            assert module(t).equalize(model, [["0", "2", "4"]], 1e-5) is model
        found.append([v.detach().numpy() for v in equal.state_dict().values()])
        first, second = (module(t).channel_range(one.weight, axis) for one, axis in ((equal[0], 0), (equal[2], 1)))
        assert (first / second - 1).abs().max() < 1e-3
        for a, b in zip(model.state_dict().values(), equal.state_dict().values()):
            assert (a - b).abs().max() == 0
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("groups, error", [([["0"]], ValueError), ([["0", 3]], TypeError), ([["0", "1"]], ValueError),
                                           ([["0", "4"]], TypeError)])
def test_what_does_not_fit_is_refused(groups, error):
    for t in BOTH:
        with pytest.raises(error):
            module(t).equalize(NETWORKS["linear"](t.nn), groups)
