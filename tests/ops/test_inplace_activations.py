"""Activations with ``inplace=True`` under autograd, beside PyTorch's."""
import pytest
import torch

import rushlight


@pytest.mark.parametrize("name", ["silu", "hardswish", "relu", "mish", "elu", "leaky_relu", "hardtanh", "selu", "celu",
                                  "hardsigmoid", "relu6"])
def test_gradients_are_those_of_the_values_before(name):
    found = []
    for framework in (rushlight, torch):
        x = framework.linspace(-3, 3, 6, requires_grad=True)
        y = x * 1.5
        z = getattr(framework.nn.functional, name)(y, inplace=True)
        assert z is y
        z.pow(2).sum().backward()
        found.append((z.tolist(), x.grad.tolist()))
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-6) and found[0][1] == pytest.approx(found[1][1], abs=1e-5)
