"""Freezing: parameters as values, batch norms in the weights of the layers before them, weights packed once."""
import numpy as np
import pytest

import rushlight as torch
from rushlight import nn
from rushlight._src.capture import freezing


def trained(model):
    """The model with statistics and affine parameters away from where they start."""
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            for value in (module.running_mean, *(p.data for p in module.parameters())):
                value.normal_()
            module.running_var.uniform_(0.5, 2)
    return model.eval()


MODELS = {
    "convolutions": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
                                           nn.Conv2d(8, 8, 3, groups=2), nn.BatchNorm2d(8)), (2, 3, 12, 12), 2),
    "linear": (lambda: nn.Sequential(nn.Linear(20, 30), nn.BatchNorm1d(30, affine=False), nn.Tanh(), nn.Linear(30, 5)),
               (40, 20), 1),
    "sequences": (lambda: nn.Sequential(nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6)), (2, 4, 9), 1)}


@pytest.mark.parametrize("name", MODELS)
def test_results_and_norms_that_are_gone(name, monkeypatch):
    make, shape, norms = MODELS[name]
    model, x, found = trained(make()), torch.randn(*shape), []
    plain = freezing.fold
    monkeypatch.setattr(freezing, "fold", lambda *a: found.append(plain(*a)) or found[-1])
    compiled = torch.compile(model, options={"freezing": True})
    with torch.no_grad():
        for _ in range(3):
            np.testing.assert_allclose(compiled(x).numpy(), model(x).numpy(), atol=2e-5)
    (rest, _), = found
    assert not any(node.op.name == "_batch_norm_eval" for node in rest.nodes)


def test_a_norm_whose_layer_is_used_elsewhere_stays():
    layer, norm = nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3)
    trained(nn.Sequential(layer, norm))
    x = torch.randn(1, 2, 4, 4)

    def run(x):
        y = layer(x)
        return norm(y) + y

    with torch.no_grad():
        np.testing.assert_allclose(torch.compile(run, options={"freezing": True})(x).numpy(), run(x).numpy(), atol=1e-5)


def test_calls_that_record_use_the_parameters_themselves():
    model, x = trained(nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))), torch.randn(5, 6)
    compiled = torch.compile(model, options={"freezing": True})
    with torch.no_grad():
        compiled(x)
    compiled(x).sum().backward()
    found = model[0].weight.grad.numpy().copy()
    model.zero_grad()
    model(x).sum().backward()
    np.testing.assert_allclose(found, model[0].weight.grad.numpy(), atol=1e-5)


def test_weights_are_packed_once():
    from rushlight._src.core.op import make
    from rushlight._src.eager import draft as plans
    torch.manual_seed(0)
    x, w = torch.randn(3000, 256), torch.randn(256, 80)
    steps = []
    for held in ((), (w,)):
        operator = make("product", lambda a, b: (a @ b,), None, None, 0, derived=None, held=held)
        code = []
        with pytest.MonkeyPatch.context() as patch:
            original = plans.install
            patch.setattr(plans, "install", lambda plan, made: code.append(made) or original(plan, made))
            np.testing.assert_allclose(operator(x, w)[0].numpy(), x.numpy() @ w.numpy(), atol=1e-3)
        steps.append(code[0].block[0])
    assert steps[1] == steps[0] - 1
