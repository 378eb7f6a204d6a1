"""Programs with repeated layers are planned by a program with few of them: results are those of the whole program,
bit for bit."""
import numpy as np
import pytest

import rushlight as torch
from rushlight._src.core.settings import settings
from rushlight._src.eager import plan
from rushlight.nn import functional as F

WIDTH, DEPTH = 20, 9


class Layer(torch.nn.Module):
    def __init__(self, inner=44, drop=0.0):
        super().__init__()
        self.norm, self.inner, self.outer = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, inner), torch.nn.Linear(
            inner, WIDTH)
        self.drop = torch.nn.Dropout(drop)

    def forward(self, x):
        return x + self.drop(self.outer(F.silu(self.inner(self.norm(x)))))


class Stack(torch.nn.Module):
    """Layers one after the other; ``call`` says how (default: as it is)."""

    def __init__(self, layers, call=None):
        super().__init__()
        self.first, self.layers, self.last = torch.nn.Linear(WIDTH, WIDTH), torch.nn.ModuleList(
            layers), torch.nn.Linear(WIDTH, 3)
        self.call = call

    def forward(self, x):
        if self.call is not None:
            return self.call(self, x)
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


@pytest.fixture
def lengthened(monkeypatch):
    """The operators of which plans were made longer."""
    found, original = [], plan.lengthened_plan
    monkeypatch.setattr(plan, "lengthened_plan", lambda op, *rest: (found.append(op.name), original(op, *rest))[1])
    return found


def stacked(make=Layer, depth=DEPTH, call=None):
    torch.manual_seed(3)
    return Stack([make() for _ in range(depth)], call)


def inferred(model, x):
    with torch.no_grad():
        found = model(x)
    return [y.numpy().copy() for y in (found if isinstance(found, (tuple, list)) else (found,))]


def trained(model, x):
    """Results and gradients of one step."""
    model.zero_grad()
    x = x.detach().clone().requires_grad_()
    torch.manual_seed(7)
    found = model(x)
    found = found if isinstance(found, (tuple, list)) else (found,)
    sum((y * y).mean() for y in found if y.requires_grad).backward()
    return [y.detach().numpy().copy() for y in found] + [p.grad.numpy().copy() for p in (x, *model.parameters())]


def differentiated_twice(model, x):
    (g,) = torch.autograd.grad(model(x).tanh().sum(), x, create_graph=True)
    return [g.detach().numpy().copy()] + [p.numpy().copy()
                                          for p in torch.autograd.grad(g.square().sum(), list(model.parameters()),
                                                                       allow_unused=True) if p is not None]


def compared(run, model, x):
    """The results of ``run`` planned by layers; they must equal those planned as a whole, and nearly those of single
    operators."""
    found = []
    for regions in (True, False):
        torch.compiler.reset()
        with settings.set(regions=regions):
            found.append(run(torch.compile(model), x))
    for one, other, plain in zip(*found, run(model, x), strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, plain, rtol=2e-4, atol=1e-5)
    return found[0]


@pytest.mark.parametrize("depth", [6, 7, 13])
def test_layers_of_one_class(depth, lengthened):
    x = torch.randn(5, WIDTH)
    model = stacked(depth=depth)
    compared(inferred, model, x)
    assert lengthened == ["compiled"] * (depth > 6)
    del lengthened[:]
    compared(trained, model, x)
    assert lengthened == ["compiled", "compiled.backward"] * (depth > 6)


def test_what_layers_share(lengthened):
    def call(self, x):
        mask, x = x.sum(-1, keepdim=True) > 0, self.first(x)
        for layer in self.layers:
            x = layer(torch.where(mask, x, self.scale * x))
        return self.last(x * self.scale)

    model = stacked(call=call)
    model.scale = torch.nn.Parameter(torch.tensor(0.5))
    compared(trained, model, torch.randn(5, WIDTH))
    assert lengthened == ["compiled"]  # the gradient of what is shared is one sum over all layers


def test_shared_weights(lengthened):
    one = Layer()
    compared(trained, Stack([one] * DEPTH), torch.randn(5, WIDTH))
    first, second = Layer(), Layer()
    compared(trained, Stack([first, second] * 6), torch.randn(5, WIDTH))


@pytest.mark.parametrize("position", [0, 1, 2, 5, DEPTH - 2, DEPTH - 1])
def test_a_layer_that_differs(position):
    layers = [Layer(36 if k == position else 44) for k in range(DEPTH + 3)]
    compared(trained, Stack(layers), torch.randn(5, WIDTH))


@pytest.mark.parametrize("position", [0, 2, 5, DEPTH - 1])
def test_a_layer_that_is_not_trained(position):
    model = stacked(depth=DEPTH + 1)
    for p in model.layers[position].parameters():
        p.requires_grad_(False)
    x = torch.randn(5, WIDTH)

    def run(model, x):
        model.zero_grad()
        model(x).square().mean().backward()
        return [p.grad.numpy().copy() for p in model.parameters() if p.requires_grad]

    compared(run, model, x)


def test_two_kinds_of_layers_in_turn(lengthened):
    torch.manual_seed(0)
    compared(trained, Stack([Layer(44 if k % 2 else 36) for k in range(16)]), torch.randn(5, WIDTH))
    assert lengthened


@pytest.mark.parametrize("run", [inferred, trained])
def test_results_of_every_layer(run):
    def call(self, x):
        x, found = self.first(x), []
        for layer in self.layers:
            x = layer(x)
            found.append(x)
        return (*found, self.last(x))

    compared(run, stacked(call=call), torch.randn(5, WIDTH))


def test_results_that_show_others():
    def call(self, x):
        x, found = self.first(x), []
        for layer in self.layers:
            x = layer(x)
            found.append(x[:, :3])
        return (*found, x, x.T)

    compared(inferred, stacked(call=call), torch.randn(5, WIDTH))


def test_a_sum_over_all_layers():
    def call(self, x):
        x, losses = self.first(x), []
        for layer in self.layers:
            x = layer(x)
            losses.append(x.square().mean())
        return self.last(x) + torch.stack(losses).sum()

    compared(trained, stacked(call=call), torch.randn(5, WIDTH))


def test_layers_that_reach_back():
    def call(self, x):
        before = x = self.first(x)
        for layer in self.layers:
            x, before = layer(x) + before, x
        return self.last(x)

    compared(trained, stacked(call=call), torch.randn(5, WIDTH))

    def dense(self, x):
        found = [self.first(x)]
        for layer in self.layers:
            found.append(layer(sum(found)))
        return self.last(found[-1])

    compared(trained, stacked(call=dense), torch.randn(5, WIDTH))


class Counting(torch.nn.Module):
    """A layer that keeps a mean in a buffer, and writes into what it computes."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x):
        y = self.inner(x)
        y[:, :3] += 1
        with torch.no_grad():
            self.mean.mul_(0.9).add_(y.mean(0), alpha=0.1)
        return y + self.mean


@pytest.mark.parametrize("run", [inferred, trained])
def test_writes_within_layers(run):
    def both(model, x):
        for layer in model.layers:
            layer.mean.zero_()
        found = run(model, x) + run(model, x)
        return found + [layer.mean.numpy().copy() for layer in model.layers]

    compared(both, stacked(Counting), torch.randn(5, WIDTH))


def test_batch_norms():
    class Normed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.BatchNorm2d(4)

        def forward(self, x):
            return x + self.norm(self.conv(x)).relu()

    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Normed() for _ in range(8)))
    start = {k: v.clone() for k, v in model.state_dict().items()}

    def run(call, x):
        model.load_state_dict(start)
        return trained(call, x) + [v.numpy().copy() for v in model.state_dict().values()]

    x = torch.randn(3, 4, 6, 6)
    torch.compiler.reset()
    with settings.set(regions=True):
        found = run(torch.compile(model), x)
    for one, plain in zip(found, run(model, x), strict=True):
        np.testing.assert_allclose(one, plain, rtol=1e-3, atol=1e-5)
    model.eval()
    compared(inferred, model, x)


def test_dropout(lengthened):
    def call(self, x):
        x = F.dropout(self.first(x), 0.2)
        for layer in self.layers:
            x = layer(x)
        return F.dropout(self.last(F.dropout(x, 0.1)), 0.1)

    def twice(model, x):
        found = trained(model, x)
        return found + [model(x).detach().numpy().copy()]  # goes on in the stream where the last one ended

    compared(twice, stacked(lambda: Layer(drop=0.3), 10, call), torch.randn(5, WIDTH))
    assert lengthened == ["compiled", "compiled.backward", "compiled"]


class Attention(torch.nn.Module):
    """Attention with dropout, of which the backward pass draws the same numbers again; ``also``: what it looks at
    besides."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x, also=None):
        q, k, v = (y.unflatten(-1, (2, -1)).transpose(0, 1) for y in self.qkv(x).chunk(3, -1))
        if also is not None:
            k, v = (y.unflatten(-1, (2, -1)).transpose(0, 1) for y in self.qkv(also).chunk(3, -1)[1:])
        return x + F.dropout(self.out(F.scaled_dot_product_attention(q, k, v, dropout_p=0.2).transpose(0, 1)
                                      .flatten(1)), 0.1)


def test_attention_with_dropout(lengthened):
    compared(trained, stacked(Attention, 10), torch.randn(6, WIDTH))
    assert lengthened == ["compiled", "compiled.backward"]


def test_two_stacks():
    def call(self, x):
        y = self.first(x)
        for layer in self.layers[:9]:
            y = layer(y)
        for layer in self.layers[9:]:
            x = layer(x, y)
        return self.last(x)

    compared(trained, stacked(Attention, 19, call), torch.randn(6, WIDTH))


def test_gradients_of_gradients(lengthened):
    compared(differentiated_twice, stacked(), torch.randn(5, WIDTH, requires_grad=True))
    assert "compiled" in lengthened


def test_a_graph_that_is_retained():
    def run(model, x):
        y = model(x).square().mean()
        found = [torch.autograd.grad(y, list(model.parameters()), retain_graph=keep) for keep in (True, True, False)]
        return [g.numpy().copy() for gradients in found for g in gradients]

    compared(run, stacked(), torch.randn(5, WIDTH))


def test_sizes_that_vary():
    model = stacked()
    compiled = torch.compile(model)
    for size in (5, 6, 9, 12, 5, 31):
        x = torch.randn(size, WIDTH)
        for one, plain in zip(trained(compiled, x), trained(model, x), strict=True):
            np.testing.assert_allclose(one, plain, rtol=2e-4, atol=1e-6)


def test_large_activations_lie_in_one_buffer(monkeypatch):
    donated, original = [], plan.lengthened_plan
    monkeypatch.setattr(plan, "lengthened_plan",
                        lambda op, made, backward, mask: (donated.append((made.outline.donated,
                                                                        backward and backward.donated)),
                                                          original(op, made, backward, mask))[1])
    compared(trained, stacked(), torch.randn(4000, WIDTH))
    (nothing, given), (used, end) = donated
    assert nothing is end is None and given == used is not None


def test_plans_on_disk(tmp_path, monkeypatch, lengthened):
    made, original = [], plan.make_plan
    monkeypatch.setattr(plan, "make_plan", lambda op, *rest: (made.append(op.name), original(op, *rest))[1])
    model, x, found = stacked(), torch.randn(5, WIDTH, requires_grad=True), []
    with settings.set(store=True, cache=str(tmp_path)):
        for _ in range(2):
            torch.compiler.reset()
            del made[:]
            found.append(trained(torch.compile(model), x))
        assert lengthened == [
            "compiled", "compiled.backward"] and "compiled" not in made and "compiled.backward" not in made
        found.append(differentiated_twice(torch.compile(model), x))
    for one, other in zip(*found[:2], strict=True):
        np.testing.assert_array_equal(one, other)
    for one, plain in zip(found[2], differentiated_twice(model, x), strict=True):
        np.testing.assert_allclose(one, plain, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes(dtype):
    model, x = stacked().to(dtype), torch.randn(5, WIDTH).to(dtype)

    def run(model, x):
        return [y.float().numpy() for y in map(torch.from_numpy, trained(model, x))] if dtype is torch.float64 else [
            p.float().numpy().copy()
            for p in torch.autograd.grad(model(x).float().square().mean(), list(model.parameters()))]

    found = []
    for regions in (True, False):
        torch.compiler.reset()
        with settings.set(regions=regions):
            found.append(run(torch.compile(model), x))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_steps_are_those_of_the_whole():
    from rushlight._src.capture.backends import operators

    model, x, found = stacked(), torch.randn(4000, WIDTH), []
    for regions in (True, False):
        torch.compiler.reset()
        with settings.set(regions=regions):
            trained(torch.compile(model), x)
        (forward,) = (p for op in operators.values() for p in op.plans.values())
        (backward,) = forward.donating.plans.values()
        found.append([(sorted(p.code_owner.labels), p.temporaries) for p in (forward, backward)] + [forward.sizes])
    assert found[0] == found[1]


class Bias(torch.nn.Module):
    """Something is added: the gradient passes through as it is."""

    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(5, WIDTH))

    def forward(self, x):
        return x + self.bias


def test_gradients_that_only_pass_through():
    def run(model, x):
        wanted = [layer.bias for layer in biases]
        return [p.numpy().copy() for p in torch.autograd.grad(model(x), wanted, torch.ones(5, WIDTH))]

    biases = [Bias() for _ in range(DEPTH)]
    compared(run, torch.nn.Sequential(*biases), torch.randn(5, WIDTH))
