"""``torch.__future__``: how conversions and states reach parameters, beside PyTorch."""
import pytest
import torch

import rushlight as rl


@pytest.fixture(params=["", "overwrite", "swap"])
def way(request):
    for lib in (rl, torch):
        if request.param:
            getattr(lib.__future__, f"set_{request.param}_module_params_on_conversion")(True)
    yield request.param
    for lib in (rl, torch):
        if request.param:
            getattr(lib.__future__, f"set_{request.param}_module_params_on_conversion")(False)


def facts(lib, gradients, convert):
    """What stays the same object, and what the converted module holds."""
    module = lib.nn.Linear(3, 2)
    if gradients:
        module(lib.ones(1, 3)).sum().backward()
    before, gradient = module.weight, module.weight.grad
    convert(lib, module)
    after = module.weight
    return (after is before, type(after) is lib.nn.Parameter, str(after.dtype), after.requires_grad, after.is_leaf,
            gradients and after.grad is not None and str(after.grad.dtype))


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("convert", [lambda lib, m: m.double(), lambda lib, m: m.to(lib.float32),
                                     lambda lib, m: m.to_empty(device="cpu"),
                                     lambda lib, m: m.load_state_dict(lib.nn.Linear(3, 2).state_dict()),
                                     lambda lib, m: m.load_state_dict(lib.nn.Linear(3, 2).state_dict(), assign=True)],
                         ids=["double", "nothing", "to_empty", "load", "assign"])
def test_as_torch(way, gradients, convert):
    assert facts(rl, gradients, convert) == facts(torch, gradients, convert)


def test_training_goes_on_with_swapped_parameters(way):
    module = rl.nn.Linear(3, 1)
    optimizer = rl.optim.SGD(module.double().parameters(), lr=0.1)
    module(rl.ones(1, 3, dtype=rl.float64)).sum().backward()
    before = module.weight.detach().clone()
    optimizer.step()
    assert rl.allclose(module.weight, before - 0.1)
