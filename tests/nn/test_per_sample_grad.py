"""Gradients of each sample: those of the module called with that sample alone."""
import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn.utils._per_sample_grad import ExpandedWeight, call_for_per_sample_grads


def embed():
    return nn.Sequential(nn.Embedding(10, 4, padding_idx=1), nn.Flatten(), nn.Linear(20, 3), nn.Tanh(), nn.Linear(3, 2))


IMAGE = (3, 4, 5, 5)
MODULES = {
    "linear": (lambda: nn.Linear(5, 2), IMAGE), "no bias": (lambda: nn.Linear(4, 2, bias=False), (3, 4)),
    "conv1d": (lambda: nn.Conv1d(4, 2, 3, stride=2), IMAGE[:3]),
    "conv2d": (lambda: nn.Conv2d(4, 4, 3, padding="same", groups=2), IMAGE),
    "conv3d": (lambda: nn.Conv3d(4, 2, 2), (2, 4, 3, 3, 3)),
    "layer norm": (lambda: nn.LayerNorm(5), IMAGE), "group norm": (lambda: nn.GroupNorm(2, 4), IMAGE),
    "instance norm": (lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), IMAGE),
    "embedding": (embed, None),
    "twice": (lambda: nn.Sequential(*[nn.Linear(4, 4)] * 2), (3, 4)),
}


def loss_of(result):
    return (result * result).sum()


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("name", MODULES)
def test_gradients_of_each_sample(name, reduction):
    torch.manual_seed(0)
    make, shape = MODULES[name]
    module, x = make(), torch.randint(0, 10, (3, 5)) if shape is None else torch.randn(shape)
    x.requires_grad_(x.is_floating_point())
    loss = loss_of(call_for_per_sample_grads(module, loss_reduction=reduction)(x))
    (loss if reduction == "sum" else loss / len(x)).backward()
    parameters = list(module.parameters())
    wanted = zip(*[torch.autograd.grad(loss_of(module(sample)), parameters) for sample in x.detach().split(1)])
    for parameter, samples in zip(parameters, wanted):
        assert parameter.grad is None
        torch.testing.assert_close(parameter.grad_sample, torch.stack(samples), rtol=1e-4, atol=1e-4)
    if x.requires_grad and reduction == "sum":
        own = x.detach().requires_grad_()
        torch.testing.assert_close(x.grad, torch.autograd.grad(loss_of(module(own)), own)[0], rtol=1e-4, atol=1e-4)


def test_running_statistics_are_updated_once():
    module, plain = (nn.InstanceNorm1d(2, affine=True, track_running_stats=True) for _ in range(2))
    x = torch.randn(3, 2, 4)
    plain(x)
    call_for_per_sample_grads(module)(x).sum().backward()
    torch.testing.assert_close(module.running_mean, plain.running_mean)
    torch.testing.assert_close(module.running_var, plain.running_var)


LINEAR = nn.Linear(3, 3)


@pytest.mark.parametrize("call, text", [
    (lambda: call_for_per_sample_grads(nn.BatchNorm1d(3))(torch.ones(4, 3)), "cannot handle function batch_norm"),
    (lambda: call_for_per_sample_grads(LINEAR)(torch.ones(3)), "batch dimension"),
    (lambda: call_for_per_sample_grads(LINEAR)(torch.ones(0, 3)), "0 is not a valid batch size"),
    (lambda: call_for_per_sample_grads(LINEAR, batch_size=2)(torch.ones(3, 3)), "batch size matching input"),
    (lambda: call_for_per_sample_grads(LINEAR)(), "Unable to find a tensor"),
    (lambda: call_for_per_sample_grads(LINEAR, batch_size=0), "must be positive"),
    (lambda: call_for_per_sample_grads(LINEAR, loss_reduction="max"), "sum or mean, got max"),
    (lambda: call_for_per_sample_grads(3), "must be nn.Module"),
    (lambda: ExpandedWeight(torch.ones(2), 2, "sum"), "requires_grad"),
])
def test_errors(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()


def test_gradients_of_samples_do_not_accumulate():
    module = nn.Linear(3, 2)
    call_for_per_sample_grads(module)(torch.ones(4, 3)).sum().backward()
    with pytest.raises(RuntimeError, match="clear out the grad_sample"):
        call_for_per_sample_grads(module)
