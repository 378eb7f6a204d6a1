"""Modules, training steps and autograd through compiled functions, beside the same uncompiled."""
import copy

import pytest

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F

from .compare import same


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n, self.b = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4)

    def forward(self, x):
        return self.b(F.gelu(self.n(self.a(x))))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.bn, self.p, self.f = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.MaxPool2d(2), nn.Linear(
            128, 5)

    def forward(self, x):
        return self.f(self.p(F.relu(self.bn(self.c(x)))).flatten(1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.qkv, self.o, self.d = nn.Embedding(20, 16), nn.Linear(16, 48), nn.Linear(16, 16), nn.Dropout(0.1)

    def forward(self, tokens):
        x = self.e(tokens)
        B, T, C = x.size()
        q, k, v = (t.view(B, T, 4, C // 4).transpose(1, 2) for t in self.qkv(x).split(C, dim=2))
        score = (q @ k.transpose(-2, -1)) * (C // 4) ** -0.5
        mask = torch.tril(torch.ones(T, T)).view(1, 1, T, T)
        y = F.softmax(score.masked_fill(mask == 0, float("-inf")), dim=-1) @ v
        return self.d(self.o(y.transpose(1, 2).contiguous().view(B, T, C)))


def hooked():
    made = MLP()
    made.a.register_forward_hook(lambda module, inputs, output: output * 2)
    made.b.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    return made


MODELS = {
    "mlp": (MLP, lambda: torch.randn(4, 8)), "convolutions": (Convolutions, lambda: torch.randn(2, 3, 8, 8)),
    "attention": (Attention, lambda: torch.randint(0, 20, (2, 6))), "hooks": (hooked, lambda: torch.randn(4, 8)),
    "blocks": (lambda: nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.BatchNorm1d(8)) for _ in range(3)]),
               lambda: torch.randn(4, 8)),
    "module_dict": (lambda: Branches(), lambda: torch.randn(4, 8)),
    "group_norm": (lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU(), nn.AvgPool2d(2)),
                   lambda: torch.randn(2, 4, 4, 4))}


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"a": nn.Linear(8, 4), "b": nn.Linear(8, 4)})
        self.list = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(1)) for _ in range(2)])

    def forward(self, x):
        out = sum(part(x) for _, part in self.parts.items())
        for k, layer in enumerate(self.list):
            out = layer(out) * self.scales[k]
        return out + self.list[-1](out)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("training", [True, False])
def test_forward_backward_and_buffers(name, training):
    make, inputs = MODELS[name]
    torch.manual_seed(0)
    plain, x = make().train(training), inputs()
    compiled = torch.compile(copy.deepcopy(plain))
    for step in range(3):
        results = []
        for model in (plain, compiled):
            torch.manual_seed(step)
            results.append(model(x))
            results[-1].square().mean().backward()
        assert torch.allclose(*results, atol=1e-5)
        for a, b in zip(plain.parameters(), compiled.parameters()):
            assert torch.allclose(a.grad, b.grad, atol=1e-4, rtol=1e-3)
        for a, b in zip(plain.buffers(), compiled.buffers()):
            assert torch.allclose(a, b, atol=1e-5)
    stats = compiled.owner.stats
    assert (stats.segments, len(stats.graphs), stats.breaks) == (1, 1, [])


def test_training_goes_the_same_way():
    torch.manual_seed(1)
    plain = MLP()
    other = copy.deepcopy(plain)
    compiled = torch.compile(other)
    x, y = torch.randn(16, 8), torch.randn(16, 4)
    losses = []
    for model, run in ((plain, plain), (other, compiled)):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        history = []
        for _ in range(10):
            optimizer.zero_grad()
            loss = F.mse_loss(run(x), y)
            loss.backward()
            optimizer.step()
            history.append(loss.item())
        losses.append(history)
    assert losses[0] == pytest.approx(losses[1], rel=1e-4) and losses[0][-1] < losses[0][0]


def test_train_and_eval_are_two_segments():
    compiled = torch.compile(nn.Dropout(0.5))
    x = torch.ones(100)
    assert 0 < (compiled(x) == 0).sum() < 100
    compiled.eval()
    assert torch.equal(compiled(x), x)
    compiled.train()
    compiled(x)
    assert compiled.owner.stats.segments == 2


def test_dropout_draws_anew_and_follows_the_seed():
    compiled = torch.compile(lambda x: F.dropout(x, 0.5) + F.dropout(x, 0.5))
    x = torch.ones(64)
    torch.manual_seed(3)
    first, second = compiled(x), compiled(x)
    torch.manual_seed(3)
    plain = F.dropout(x, 0.5) + F.dropout(x, 0.5)
    assert torch.equal(first, plain) and not torch.equal(first, second)


def test_random_functions_follow_the_seed():
    stats = same(lambda x: (torch.rand(3) + torch.randn_like(x), torch.randint(0, 9, (2,))), torch.ones(3),
                 setup=lambda: torch.manual_seed(5))
    assert not stats.breaks


def test_a_changed_parameter_is_seen():
    model = nn.Linear(2, 2)
    compiled = torch.compile(model)
    x = torch.ones(1, 2)
    assert torch.allclose(compiled(x), model(x))
    model.weight = nn.Parameter(torch.zeros(2, 2))
    assert torch.equal(compiled(x), model.bias[None])
    model.bias.data = torch.full((2,), 7.0)
    assert torch.equal(compiled(x), torch.full((1, 2), 7.0))
    with torch.no_grad():
        model.weight.fill_(1.0)
    assert torch.equal(compiled(x), torch.full((1, 2), 9.0))


def test_hooks_added_and_removed_later():
    model = nn.Linear(2, 2)
    compiled = torch.compile(model)
    x = torch.ones(1, 2)
    plain = compiled(x)
    handle = model.register_forward_hook(lambda m, i, o: o + 1)
    assert torch.equal(compiled(x), plain + 1)
    handle.remove()
    assert torch.equal(compiled(x), plain)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.seen = 0, []
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x):
        self.calls += 1
        self.seen.append(x.shape[0])
        self.total += x
        self.last = x * 2
        return self.last + self.calls


def test_module_state_is_changed():
    plain, other = Counting(), Counting()
    compiled = torch.compile(other)
    for k in range(4):
        x = torch.ones(2) * k
        assert torch.equal(plain(x), compiled(x))
    assert other.calls == 4 and other.seen == plain.seen and torch.equal(other.total,
                                                                         plain.total) and torch.equal(
                                                                             other.last, plain.last)


def test_the_wrapper_is_the_module():
    model = MLP()
    compiled = torch.compile(model)
    assert compiled.a is model.a and list(compiled.state_dict()) == ["_orig_mod." + k for k in model.state_dict()]
    compiled.flag = 3
    assert model.flag == 3 and isinstance(compiled, nn.Module) and len(list(compiled.parameters())) == 6
    model.compile()
    assert torch.equal(model(torch.ones(1, 8)), compiled(torch.ones(1, 8)))


def test_gradients_are_cut_where_recording_is_off():
    def f(x):
        with torch.no_grad():
            y = x * 2
        return y + x.detach() * 3, x * y

    stats = same(f, torch.ones(3, requires_grad=True))
    assert not stats.breaks
    x = torch.ones(3, requires_grad=True)
    torch.compile(f)(x)[1].sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 2.0))


def test_recording_switched_on_inside():
    def f(x):
        y = x * 2
        with torch.enable_grad():
            z = x * 3
        return y, z

    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        y, z = torch.compile(f)(x)
    assert not y.requires_grad and z.requires_grad


def test_views_and_inputs_come_back_as_they_are():
    def f(x):
        return x, x.view(2, 2), x[0], x * 1

    x = torch.arange(4.0)
    same_x, view, first, copied = torch.compile(f)(x)
    assert same_x is x
    view[0, 0] = 9
    assert x[0] == 9 and first == 9 and copied[0] == 0


def test_inputs_changed_in_place():
    def f(x, y):
        x.add_(1)
        y[0] = 5
        y.view(-1)[1:].mul_(2)
        return x * y

    same(f, torch.ones(3), torch.ones(3))
    x, y = torch.ones(3), torch.ones(3)
    torch.compile(f)(x, y)
    assert torch.equal(x, torch.full((3,), 2.0)) and torch.equal(y, torch.tensor([5.0, 2.0, 2.0]))


def test_in_place_with_history():
    def f(x):
        y = x * 2
        y.mul_(3)
        return y

    def g(x, buffer):
        buffer.add_(x)
        return buffer * 2

    for function, make in ((f, lambda x: (x,)), (g, lambda x: (x, torch.zeros(3)))):
        gradients = []
        for run in (function, torch.compile(function)):
            x = torch.ones(3, requires_grad=True)
            run(*make(x)).sum().backward()
            gradients.append(x.grad)
        assert torch.equal(*gradients)


def test_hessian_vector_products():
    def f(x):
        return (x ** 3).sum()

    x = torch.arange(3.0).requires_grad_()
    (first,) = torch.autograd.grad(torch.compile(f)(x), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.allclose(second, 6 * x)


@pytest.mark.parametrize("make, shape",
                         [(lambda: nn.LSTM(6, 5, 2), (7, 3, 6)), (lambda: nn.GRU(6, 5, bidirectional=True), (7, 3, 6)),
                          (lambda: nn.RNN(6, 5), (7, 3, 6)),
                          (lambda: nn.LSTMCell(6, 5), (3, 6)),
                          (lambda: nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True), (2, 5, 16))])
def test_recurrent_and_transformer_modules(make, shape):
    torch.manual_seed(0)
    model, x = make(), torch.randn(*shape)
    compiled = torch.compile(copy.deepcopy(model), fullgraph=True)
    for run in (model, compiled):
        out = run(x)
        (out[0] if isinstance(out, tuple) else out).square().sum().backward()
    for a, b in zip(model.parameters(), compiled.parameters()):
        assert torch.allclose(a.grad, b.grad, atol=1e-3, rtol=1e-3)
