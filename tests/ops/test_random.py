"""Every random operator draws from the distribution that it names: Kolmogorov-Smirnov tests, and chi-square where
values are discrete."""
import math

import numpy as np
import pytest

import rushlight as torch

stats = pytest.importorskip("scipy.stats")
COUNT, SURE = 20000, 1e-4  # a right sampler fails once in ten thousand seeds, and the seed is fixed

CONTINUOUS = {
    "rand": (lambda n: torch.rand(n), stats.uniform()),
    "rand in float64": (lambda n: torch.rand(n, dtype=torch.float64), stats.uniform()),
    "rand_like": (lambda n: torch.rand_like(torch.empty(n)), stats.uniform()),
    "randn": (lambda n: torch.randn(n), stats.norm()),
    "randn in float64": (lambda n: torch.randn(n, dtype=torch.float64), stats.norm()),
    "randn_like": (lambda n: torch.randn_like(torch.empty(n)), stats.norm()),
    "normal": (lambda n: torch.normal(2.0, 3.0, (n,)), stats.norm(2, 3)),
    "normal of tensors": (lambda n: torch.normal(torch.full((n,), 2.0), torch.full((n,), 3.0)), stats.norm(2, 3)),
    "uniform_": (lambda n: torch.empty(n).uniform_(-2, 5), stats.uniform(-2, 7)),
    "normal_": (lambda n: torch.empty(n).normal_(1, 0.5), stats.norm(1, 0.5)),
    "exponential_": (lambda n: torch.empty(n).exponential_(2.5), stats.expon(scale=1 / 2.5)),
    "cauchy_": (lambda n: torch.empty(n).cauchy_(1, 2), stats.cauchy(1, 2)),
    "log_normal_": (lambda n: torch.empty(n).log_normal_(0.5, 0.75), stats.lognorm(0.75, scale=math.exp(0.5))),
    "trunc_normal_": (lambda n: torch.nn.init.trunc_normal_(torch.empty(n), 0.0, 1.0, -1.0, 2.0),
                      stats.truncnorm(-1, 2)),
    "rrelu": (lambda n: -torch.nn.functional.rrelu(-torch.ones(n), 0.2, 0.6, training=True), stats.uniform(0.2, 0.4)),
    "columns of a matrix": (lambda n: torch.randn(n // 8, 8)[:, 3], stats.norm()),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name):
    draw, wanted = CONTINUOUS[name]
    torch.manual_seed(11)
    found = draw(COUNT).double().numpy()
    assert stats.kstest(found, wanted.cdf).pvalue > SURE
    assert len(np.unique(found)) > 0.95 * len(found)


DISCRETE = {
    "randint": (lambda n: torch.randint(-3, 7, (n,)), {k: 0.1 for k in range(-3, 7)}),
    "randint_like": (lambda n: torch.randint_like(torch.empty(n), 4), {k: 0.25 for k in range(4)}),
    "random_": (lambda n: torch.empty(n, dtype=torch.int64).random_(2, 8), {k: 1 / 6 for k in range(2, 8)}),
    "bernoulli": (lambda n: torch.bernoulli(torch.full((n,), 0.3)), {0: 0.7, 1: 0.3}),
    "bernoulli_": (lambda n: torch.empty(n).bernoulli_(0.8), {0: 0.2, 1: 0.8}),
    "geometric_": (lambda n: torch.empty(n).geometric_(0.5).clamp(max=6),
                   {**{k: 0.5 ** k for k in range(1, 6)}, 6: 0.5 ** 5}),
    "poisson": (lambda n: torch.poisson(torch.full((n,), 2.5)).clamp(max=8),
                {**{k: stats.poisson(2.5).pmf(k) for k in range(8)}, 8: stats.poisson(2.5).sf(7)}),
    "poisson of a large rate": (lambda n: (torch.poisson(torch.full((n,), 400.0)) > 400).long(),
                                {0: stats.poisson(400).cdf(400), 1: stats.poisson(400).sf(400)}),
    "binomial": (lambda n: torch.binomial(torch.full((n,), 5.0), torch.full((n,), 0.4)),
                 {k: stats.binom(5, 0.4).pmf(k) for k in range(6)}),
    "multinomial": (lambda n: torch.multinomial(torch.tensor([1.0, 2.0, 0.0, 5.0]), n, replacement=True),
                    {0: 0.125, 1: 0.25, 3: 0.625}),
    "multinomial, first of several": (lambda n: torch.multinomial(torch.tensor([[1.0, 2.0, 0.0, 5.0]]).expand(n, 4),
                                                                  2)[:, 0], {0: 0.125, 1: 0.25, 3: 0.625}),
    "randperm, its first": (lambda n: torch.stack([torch.randperm(5)[0] for _ in range(n // 10)]),
                            {k: 0.2 for k in range(5)}),
    "dropout": (lambda n: (torch.nn.functional.dropout(torch.ones(n), 0.3) == 0).long(), {0: 0.7, 1: 0.3}),
    "dropout2d, whole channels": (lambda n: (torch.nn.functional.dropout2d(torch.ones(n // 4, 4, 2, 2),
                                                                           0.3)[:, :, 0, 0] == 0).long().reshape(-1),
                                  {0: 0.7, 1: 0.3}),
    "alpha_dropout": (lambda n: (torch.nn.functional.alpha_dropout(torch.zeros(n), 0.3, True) < 0).long(),
                      {0: 0.7, 1: 0.3}),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name):
    draw, wanted = DISCRETE[name]
    torch.manual_seed(5)
    found = draw(COUNT).long().numpy()
    values, counts = np.unique(found, return_counts=True)
    assert set(values.tolist()) <= set(wanted)
    counted = dict(zip(values.tolist(), counts.tolist()))
    seen, expected = zip(*((counted.get(k, 0), p * len(found)) for k, p in wanted.items()))
    assert stats.chisquare(seen, expected).pvalue > SURE


def test_neighbours_do_not_correlate():
    torch.manual_seed(3)
    x = torch.rand(COUNT).double().numpy()
    for lag in (1, 2, 3, 4, 8, 64):
        assert abs(np.corrcoef(x[:-lag], x[lag:])[0, 1]) < 5 / math.sqrt(COUNT)


def test_a_permutation_holds_everything_once():
    torch.manual_seed(0)
    for n in (0, 1, 2, 1000):
        assert torch.randperm(n).sort().values.tolist() == list(range(n))


def test_draws_without_replacement_differ():
    torch.manual_seed(0)
    drawn = torch.multinomial(torch.rand(200, 6) + 0.1, 6)
    assert torch.equal(drawn.sort(-1).values, torch.arange(6).expand(200, 6))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_drawing_into_memory_draws_the_same_numbers(dtype):
    dtype = getattr(torch, dtype)
    for fill in (lambda x: x.uniform_(-2, 3.5), lambda x: x.normal_(1, 0.02)):
        found = []
        for target in (torch.empty(4, 6, dtype=dtype), torch.empty(6, 9, dtype=dtype).t()[1:5]):
            torch.manual_seed(3)
            found.append(fill(target).tolist())
        assert found[0] == found[1]


def test_drawing_into_a_result_forgets_its_gradient():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.normal_()
    y.sum().backward()
    assert x.grad is None or not x.grad.any()


def test_on_the_device_without_data():
    makers = [lambda **k: torch.rand(2, 3, **k), lambda **k: torch.randn(2, 3, dtype=torch.complex64, **k),
              lambda **k: torch.randint(5, (2,), **k),
              lambda **k: torch.randperm(4, **k), lambda **k: torch.normal(0.0, 1.0, (2,), **k),
              lambda **k: torch.randn_like(torch.ones(2), **k)]
    for make in makers:
        assert make(device="meta").is_meta and not make().is_meta
    assert torch.rand_like(torch.ones(2, device="meta")).is_meta
    with torch.device("meta"):
        assert torch.rand(2).is_meta and torch.compile(lambda: torch.ones(2) + torch.rand(2))().is_meta
    with pytest.raises(RuntimeError, match="not available"):
        torch.rand(2, device="cuda")


@pytest.mark.parametrize("low, high", [(0, 7), (-3, 4), (0, 1 << 31), (5, 6), (-(1 << 40), 1 << 40)])
def test_integers_are_spread_evenly(low, high):
    drawn, span = torch.randint(low, high, (COUNT,)).double(), high - low
    assert low <= drawn.min() and drawn.max() < high
    assert abs(drawn.mean().item() - (low + high - 1) / 2) <= span * 0.01
    assert math.isclose(drawn.var().item(), (span**2 - 1) / 12, rel_tol=0.03)


def test_rates_of_poisson_variables():
    assert torch.poisson(torch.zeros(3)).tolist() == [0.0, 0.0, 0.0] and torch.poisson(
        torch.ones(2, dtype=torch.bfloat16)).dtype is torch.bfloat16
    for rate in (-1.0, float("nan")):
        with pytest.raises(RuntimeError, match="invalid Poisson rate"):
            torch.poisson(torch.tensor([1.0, rate]))
    torch.manual_seed(3)
    first = torch.poisson(torch.linspace(0.1, 100, 50))
    torch.manual_seed(3)
    assert torch.equal(torch.compile(lambda x: torch.poisson(x))(torch.linspace(0.1, 100, 50)), first)


@pytest.mark.parametrize("dtype, ends, bounds", [
    ("uint8", (), (0, 255)), ("int8", (), (0, 127)), ("float16", (), (0, 2048)), ("bfloat16", (), (0, 256)),
    ("bool", (), (0, 1)), ("uint8", (200,), (0, 199)), ("uint8", (200, None), (200, 255)), ("uint8", (3, 7), (3, 6)),
    ("int8", (-5, None), (-5, 127))])
def test_integers_reach_both_ends(dtype, ends, bounds):
    """As in PyTorch: an end that is given is excluded, the dtype's own is drawn."""
    torch.manual_seed(0)
    x = torch.zeros(100_000, dtype=getattr(torch, dtype)).random_(*ends)
    assert (int(x.min()), int(x.max())) == bounds


def test_all_integers_of_64_bits_are_drawn():
    torch.manual_seed(0)
    x = torch.zeros(1000, dtype=torch.int64)
    assert x.random_().min() >= 0 and x.max() > 1 << 62
    assert x.random_(-1 << 63, None).min() < -1 << 62 and x.max() > 1 << 62
    assert torch.zeros(1000, dtype=torch.uint8).random_(**{"from": 3, "to": 5}).unique().tolist() == [3, 4]
