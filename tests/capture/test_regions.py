"""Parts of a program that repeat: layers of one class, marked regions, steps of a loop."""
import numpy as np
import pytest

import rushlight as torch
from rushlight._src.devices.cpu.llvm import jit

WIDTH = 20


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.inner, self.outer = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 44), torch.nn.Linear(
            44, WIDTH)

    def forward(self, x):
        return x + self.outer(torch.nn.functional.silu(self.inner(self.norm(x))))


def trained(model, x):
    """(result, gradients) of one step."""
    model.zero_grad()
    y = model(x).square().mean()
    y.backward()
    return y.item(), [p.grad.numpy().copy() for p in model.parameters()]


@pytest.fixture
def kernels(monkeypatch):
    """How many kernels are asked of the compiler that it has not made before."""
    built = []
    original = jit._load
    monkeypatch.setattr(jit, "_load", lambda key, *rest: (built.append(key), original(key, *rest))[1])
    return built


def test_more_layers_need_no_more_kernels(kernels):
    x, counts = torch.randn(6, WIDTH), []
    for count in (3, 9):
        model = torch.nn.Sequential(*(Layer() for _ in range(count)))
        compiled = torch.compile(model)
        before = len(kernels)
        value, gradients = trained(compiled, x)
        counts.append(len(kernels) - before)
        expected, wanted = trained(model, x)
        assert value == pytest.approx(expected, rel=1e-5)
        for found, one in zip(gradients, wanted):
            np.testing.assert_allclose(found, one, rtol=1e-4, atol=1e-6)
    assert counts[1] <= 1  # at most what joins the larger number of sums


@pytest.mark.parametrize("mark", [torch.compiler.nested_compile_region, torch.compiler.nested_compile_region()])
def test_a_marked_region_means_what_it_says(mark, kernels):
    @mark
    def region(x, scale, flag):
        return (x * scale).tanh() if flag else x.exp() * scale

    def program(x, scale):
        for k in range(6):
            x = region(x, scale, k % 3 != 2)
        return x.sum()

    x, scale = torch.linspace(-1, 1, 5, requires_grad=True), torch.tensor(0.7, requires_grad=True)
    found = torch.autograd.grad(torch.compile(program, fullgraph=True)(x, scale), (x, scale))
    wanted = torch.autograd.grad(program(x, scale), (x, scale))
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5)


def test_a_marked_module_is_a_module_still():
    layer = torch.compiler.nested_compile_region(Layer())
    assert isinstance(layer, Layer) and len(list(layer.parameters())) == 6
    with pytest.raises(TypeError, match="function or a module"):
        torch.compiler.nested_compile_region(3)


def test_marked_calls_in_a_row_are_planned_once(monkeypatch):
    from rushlight._src.eager import plan
    longer, original = [], plan.lengthened_plan
    monkeypatch.setattr(plan, "lengthened_plan", lambda op, *rest: (longer.append(op.name), original(op, *rest))[1])

    @torch.compiler.nested_compile_region
    def region(x, w):
        return (x @ w).sigmoid() * 2

    x, weights = torch.randn(4, WIDTH), [torch.randn(WIDTH, WIDTH, requires_grad=True) for _ in range(9)]

    def program(x, weights):
        for w in weights:
            x = region(x, w)
        return x.sum()

    found = torch.autograd.grad(torch.compile(program, fullgraph=True)(x, weights), weights)
    assert longer == ["compiled", "compiled.backward"]
    for one, other in zip(found, torch.autograd.grad(program(x, weights), weights)):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)
