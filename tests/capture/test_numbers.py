"""Python numbers that change from call to call: the second value makes them run-time scalars, and no third capture is
made."""
import math

import pytest

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F

REALS, WHOLES, DIVISORS = (0.1, 0.2, 0.37, 0.45, 0.8), (3, 4, 6, 5, 7), (12, 10, 6, 5, 15)
conv = torch.ones(1, 1, 3)

FLOATS = {
    "clamp": lambda x, v: x.clamp(v),
    "clamp, by name": lambda x, v: torch.clamp(x, max=v) * 2,
    "clamp on both sides": lambda x, v: x.clamp(-v, v),
    "power": lambda x, v: x.abs() ** v,
    "power of": lambda x, v: v ** x,
    "remainder": lambda x, v: x % v + x // v,
    "dropout": lambda x, v: F.dropout(x, v, training=False) + 1,
    "alpha": lambda x, v: torch.sub(x, x + 1, alpha=v),
    "leaky relu": lambda x, v: F.leaky_relu(x, v),
    "elu": lambda x, v: F.elu(x, v),
    "softplus": lambda x, v: F.softplus(x, v),
    "threshold": lambda x, v: F.threshold(x, v, 0.0),
    "hardtanh": lambda x, v: F.hardtanh(x, -v, v),
    "celu": lambda x, v: F.celu(x, v) + F.softshrink(x, v),
    "norm": lambda x, v: torch.linalg.vector_norm(x, v + 2.25) * x,
    "replaced": lambda x, v: torch.nan_to_num(x, v, v, v),
    "padding": lambda x, v: F.pad(x, (1, 1), value=v),
    "hardshrink": lambda x, v: F.hardshrink(x, v),
    "layer norm": lambda x, v: F.layer_norm(x, (6,), eps=v),
    "root mean square": lambda x, v: F.rms_norm(x, (6,), eps=v) + x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + v),
    "batch norm": lambda x, v: F.batch_norm(x, None, None, training=True, eps=v),
    "normalize": lambda x, v: F.normalize(x, eps=v),
    "where": lambda x, v: torch.where(x > v, x, v),
    "comparison": lambda x, v: (x > v) & (x != v),
    "filled": lambda x, v: torch.full((3,), v).sum() + torch.full_like(x, v),
    "filled in place": lambda x, v: x.clone().fill_(v).mul_(v).add_(v),
    "tensor": lambda x, v: torch.tensor(v) * x + torch.tensor([[v, 1], [2, v]]).sum()
    + torch.as_tensor([v, True]).sum(),
    "evenly spaced": lambda x, v: torch.linspace(0, v, 6) + x,
    "huber": lambda x, v: F.huber_loss(x, x * 2, delta=v),
    "smoothed labels": lambda x, v: F.cross_entropy(x, torch.arange(4), label_smoothing=v),
    "margin": lambda x, v: F.margin_ranking_loss(x, x + 1, x - 1, margin=v)
    + F.triplet_margin_loss(x, x + 1, x - 1, margin=v),
    "close": lambda x, v: torch.isclose(x, x + 0.1, atol=v),
    "logit": lambda x, v: torch.logit(x.sigmoid(), eps=v / 10),
    "weights": lambda x, v: torch.addmm(x[:, :4], x, x.t(), alpha=v, beta=v) + torch.addcmul(x, x, x, value=v)[:, :4],
    "quantile": lambda x, v: torch.quantile(x, v),
    "drawn": lambda x, v: x.new_empty(3).uniform_(0.0, v).clamp(0, 0) + x.new_empty(3).normal_(0.0, v) * 0
    + torch.bernoulli(torch.full((3,), v)) * 0,
    "of many": lambda x, v: torch._foreach_add([x, x * 2], [x, x], alpha=v)[0] + sum(x * k for k in [v, v * 2]),
    "math": lambda x, v: x * math.sqrt(v) + math.exp(-v) * x - math.cos(math.pi * v),
    "decay": lambda x, v: x * v ** 3 + x * 0.5 ** (v * 10) + x * (v // 0.05) + x * (v % 0.05),
    "limits": lambda x, v: x * max(min(v, 0.5), 0.15),
    "rounded": lambda x, v: x * round(v, 2) + round(v * 10) + int(v * 100) + abs(v),
    "a part of the rows": lambda x, v: x[:int(v * 4) + 1].sum() + x[:math.ceil(v * 3)].sum(),
    "branch": lambda x, v: x * v if v > 0.05 else x,
}
INTS = {
    "view of": (DIVISORS, lambda x, n: x.view(n, -1).sum(0)),
    "reshape": (DIVISORS, lambda x, n: x.reshape(n, x.numel() // n).movedim(0, 1)),
    "unflatten": (DIVISORS, lambda x, n: x.unflatten(0, (n, -1)) * 2),
    "one hot": (WHOLES, lambda x, n: F.one_hot(torch.arange(3), n)),
    "positions": (WHOLES, lambda x, n: torch.arange(n).float()[:, None] * torch.exp(torch.arange(0, 4, 2).float() / n)),
    "range with steps": (WHOLES, lambda x, n: torch.arange(2, n + 5, 2) + x.sum()),
    "repeat": (WHOLES, lambda x, n: x.repeat(n, 2) + x.tile((n, 2))),
    "repeat each": (WHOLES, lambda x, n: x.repeat_interleave(n, 0)),
    "expand": (WHOLES, lambda x, n: x.unsqueeze(0).expand(n, -1) * 2),
    "pad": (WHOLES, lambda x, n: F.pad(x, (n, 1), value=1.5)),
    "new": (WHOLES, lambda x, n: torch.zeros(n, 2).sum() + x.new_ones(n).sum() + torch.eye(n).sum() + x),
    "causal": (WHOLES, lambda x, n: torch.full((n, n), -5.0).triu(1) + x.sum()),
    "slices": (WHOLES, lambda x, n: x[:n].sum() + x[-n:].sum() + x[n] + x.narrow(0, 1, n).sum() + x[n:].sum()),
    "a slice set": (WHOLES, lambda x, n: torch.zeros(60).index_fill(0, torch.tensor([0]), n).slice_scatter(x[:n], 0, 0,
                                                                                                           n)),
    "top": (WHOLES, lambda x, n: x.topk(n).values.sum() + x.kthvalue(n).values),
    "roll": (WHOLES, lambda x, n: x.roll(n)),
    "unfold": (WHOLES, lambda x, n: x.unfold(0, n, 1).sum()),
    "resampled": (WHOLES, lambda x, n: F.interpolate(x[None, None], size=n)),
    "pooled": (WHOLES, lambda x, n: F.avg_pool1d(x[None, None], n, stride=1)),
    "padding": (WHOLES, lambda x, n: F.conv1d(x[None, None], conv, padding=n)),
    "dilation": (WHOLES, lambda x, n: F.conv1d(x[None, None], conv, dilation=n)),
    "operand": (WHOLES, lambda x, n: x * n + x / n - n + x.abs() ** n),
    "numbers": (WHOLES, lambda x, n: x * (n & 1) + (n << 1) + (n >> 1) + (n ^ 2)),
    "roots": (WHOLES, lambda x, n: x * n ** -0.5 + float(n) / math.sqrt(n) + math.log(n) + math.ceil(n / 2)),
    "tensor": (WHOLES, lambda x, n: torch.tensor([n, 1]) + torch.tensor(n) + x.sum()),
    "scattered": (WHOLES, lambda x, n: torch.zeros(n).scatter_add(0, torch.zeros(60, dtype=torch.long), x)),
    "counted": (WHOLES, lambda x, n: torch.bincount(torch.arange(3), minlength=n)),
    "window": (WHOLES, lambda x, n: torch.hann_window(n) * x.sum()),
    "spectrum": (WHOLES, lambda x, n: torch.fft.rfft(x, n=n).abs()),
    "random": (WHOLES, lambda x, n: torch.randn(n) * 0 + torch.randint(0, n, (n,)) * 0 + x.sum()),
}


def captures(function, x, values, backward=False):
    """How often a function is captured for these values, each with the result of uncompiled code."""
    compiled = torch.compile(function)
    for v in values:
        a, b = (x.clone().requires_grad_(backward) for _ in range(2))
        wanted, got = function(a, v), compiled(b, v)
        assert got.dtype is wanted.dtype and got.shape == wanted.shape and torch.allclose(got.double(), wanted.double(),
                                                                                          atol=1e-4), v
        if backward and wanted.requires_grad:
            wanted.sum().backward(), got.sum().backward()
            assert torch.allclose(a.grad, b.grad, atol=1e-4), v
    assert not compiled.owner.stats.breaks, list(map(str, compiled.owner.stats.breaks))
    return compiled.owner.stats.segments


@pytest.mark.parametrize("name", FLOATS)
def test_floats(name):
    torch.manual_seed(0)
    assert captures(FLOATS[name], torch.randn(4, 6), REALS, backward=name != "drawn") <= 2


@pytest.mark.parametrize("name", INTS)
def test_ints(name):
    values, function = INTS[name]
    torch.manual_seed(0)
    assert captures(function, torch.randn(60), values) <= 2


def test_an_operator_that_has_to_know_a_number_is_captured_for_each():
    def f(x, v):
        return F.scaled_dot_product_attention(x, x, x, scale=v) + x * v

    assert captures(f, torch.randn(1, 3, 4), REALS) == len(REALS)


def test_what_an_operator_decides_by_a_number_is_a_guard():
    def f(x, v):
        return F.hardtanh(x, 0.0, v) * 2

    assert captures(f, torch.randn(3), REALS) <= 2
    compiled = torch.compile(f)
    for v in (0.5, 0.75, 0.25):
        compiled(torch.ones(2), v)
    with pytest.raises(ValueError, match="min_val"):
        compiled(torch.ones(2), -1.0)
    assert captures(lambda x, v: torch.linalg.vector_norm(x, v) + x, torch.rand(3) + 1,
                    (0.5, 3.0, 2.5, 1.0, 2.0, math.inf, 4.5, 1.5, 1.0, 2.0)) <= 7


def test_dropout_in_training_is_captured_for_all_probabilities():
    compiled, x = torch.compile(lambda x, p: F.dropout(x, p)), torch.ones(1000, requires_grad=True)
    for p in REALS:
        y = compiled(x, p)
        grad, = torch.autograd.grad(y.sum(), x)
        assert abs((y == 0).float().mean().item() - p) < 0.1 and torch.equal(grad, y)
        assert torch.allclose(y[y != 0], torch.tensor(1 / (1 - p)))
    assert compiled.owner.stats.segments <= 2


def test_arithmetic_that_raises_raises_where_it_stands():
    def f(x, v):
        try:
            return x * math.sqrt(v)
        except ValueError:
            return x - 1

    x, compiled = torch.ones(2), torch.compile(f)
    for v in (1.0, 4.0, 9.0, -1.0, 16.0):
        assert torch.equal(compiled(x, v), f(x, v)), v


def test_a_power_that_becomes_complex_or_too_large():
    def f(x, v, w):
        return x * abs(v ** w)

    x, compiled = torch.ones(2), torch.compile(f)
    for v, w in ((2.0, 0.5), (3.0, 1.5), (-8.0, 1.0), (-8.0, 0.5), (5.0, 2.0)):
        assert torch.allclose(compiled(x, v, w), f(x, v, w)), (v, w)
    with pytest.raises(OverflowError):
        compiled(x, 10.0, 400.0)


def test_dtypes_are_those_of_numbers():
    def f(x, i, v):
        return x * v, i * v, i + v, torch.where(x > 0, v, 1.0), torch.full((2,), v), torch.tensor([v, 1]), x.clamp(
            min=v)

    x, i, compiled = torch.ones(2, dtype=torch.float16), torch.arange(2), torch.compile(f)
    for v in (0.25, 0.5, 0.75):
        assert [t.dtype for t in compiled(x, i, v)] == [t.dtype for t in f(x, i, v)]


def test_a_module_with_a_schedule_in_python():
    class Annealed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x, progress: float):
            temperature = max(1.0 - progress, 0.1)
            return F.softmax(self.inner(x) / temperature, -1).clamp(min=progress / 100)

    torch.manual_seed(0)
    model = Annealed()
    assert captures(model.forward, torch.randn(2, 4), (0.0, 0.1, 0.2, 0.5, 0.95), backward=True) <= 3  # zero has a sign
