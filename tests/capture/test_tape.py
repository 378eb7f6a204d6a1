"""Backward passes compiled as a whole, beside the engine's."""
import pytest

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))


def both(make, times=3):
    """``make() -> (loss function, tensors whose gradients count)``, by the engine and compiled; how many tapes were
    captured."""
    results = []
    for compiled in (False, True):
        torch._dynamo.reset()
        loss, tensors = make()
        out = []
        for k in range(times):
            torch.manual_seed(k)
            value = loss(k)
            if compiled:
                with ENABLED[0]:
                    value.backward()
            else:
                value.backward()
            out.append([None if t.grad is None else t.grad.clone() for t in tensors])
        results.append(out)
    for a, b in zip(*results):
        for x, y in zip(a, b):
            assert (x is None) == (y is None) and (x is None or torch.allclose(x, y, atol=1e-6))


@pytest.fixture(autouse=True, params=["rushlight", "eager"])
def enabled(request):
    ENABLED[:] = [torch._dynamo.compiled_autograd.enable(lambda f: torch.compile(f, backend=request.param))]


ENABLED: list = []


def test_a_model_is_one_program():
    def make():
        model = network()
        return lambda k: F.cross_entropy(model(torch.randn(5, 4)), torch.randint(0, 3, (5,))), list(model.parameters())
    both(make)
    run, = ENABLED[0].run.functions.values()
    assert len(run.owner.stats.graphs) == 2 and not run.owner.stats.breaks  # without gradients before, and with


def test_compiled_and_eager_parts_together():
    def make():
        model = network()
        first = torch.compile(model[0])
        return lambda k: torch.compile(model[2])(model[1](first(torch.randn(5, 4)))).square().sum(), list(
            model.parameters())
    both(make)


def test_hooks_run():
    seen = []

    def make():
        model = network()
        model[0].weight.register_hook(lambda g: g * 2)
        model[2].weight.register_post_accumulate_grad_hook(lambda p: seen.append(tuple(p.shape)))

        def loss(k):
            h = model[0](torch.randn(5, 4))
            h.register_hook(lambda g: g.clamp(-0.1, 0.1))
            return model[2](h.tanh()).square().sum()
        return loss, list(model.parameters())
    both(make)
    assert seen == [(3, 8)] * 6


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        return x * 2 + y

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * 2 + x * 0, None


def test_functions_of_ones_own_and_missing_gradients():
    def make():
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        return lambda k: Twice.apply(w * 3, v * 2).sum() * (k + 1), [w, v]
    both(make)


def test_structures_and_shapes_that_change():
    def make():
        w = torch.ones(3, requires_grad=True)
        return lambda k: (w * torch.randn(k + 1, 3)).sum() if k % 2 else (w.exp() + w).sum(), [w]
    both(make, times=6)


def test_values_written_in_place_and_freed_graphs_are_errors():
    x = torch.ones(3, requires_grad=True)
    with ENABLED[0]:
        y = x.exp()
        z = y.sum()
        y.detach().zero_()
        with pytest.raises(RuntimeError, match="modified"):
            z.backward()
        z = (x * x).sum()
        z.backward(retain_graph=True)
        z.backward()
        with pytest.raises(RuntimeError, match="second time"):
            z.backward()
    assert x.grad.tolist() == [4.0] * 3


def test_the_setting():
    x = torch.ones(2, requires_grad=True)
    before = torch._dynamo.utils.counters["compiled_autograd"]["captures"]
    with torch._dynamo.config.patch(compiled_autograd=True):
        (x * x).sum().backward()
        with torch._dynamo.compiled_autograd.disable():
            x.exp().sum().backward()
    assert torch._dynamo.utils.counters["compiled_autograd"]["captures"] == before + 1
    assert not torch._dynamo.config.compiled_autograd
