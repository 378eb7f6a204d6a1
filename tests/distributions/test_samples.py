"""Samplers by Kolmogorov-Smirnov tests, and gradients of samples by finite differences of their means."""
import numpy as np
import pytest
from scipy import stats

import rushlight as torch
from rushlight import distributions as d

COUNT = 20000
CONTINUOUS = {
    "Beta": (d.Beta(0.7, 2.0), stats.beta(0.7, 2.0)), "Cauchy": (d.Cauchy(1.0, 2.0), stats.cauchy(1, 2)),
    "Chi2": (d.Chi2(3.0), stats.chi2(3)),
    "Exponential": (d.Exponential(0.7), stats.expon(scale=1 / 0.7)),
    "FisherSnedecor": (d.FisherSnedecor(3.0, 7.0), stats.f(3, 7)),
    "Gamma": (d.Gamma(0.3, 2.0), stats.gamma(0.3, scale=0.5)),
    "Gamma above 1": (d.Gamma(4.5, 2.0), stats.gamma(4.5, scale=0.5)),
    "GeneralizedPareto": (d.GeneralizedPareto(1.0, 2.0, 0.3), stats.genpareto(0.3, 1, 2)),
    "Gumbel": (d.Gumbel(1.0, 2.0), stats.gumbel_r(1, 2)),
    "HalfCauchy": (d.HalfCauchy(2.0), stats.halfcauchy(scale=2)),
    "HalfNormal": (d.HalfNormal(2.0), stats.halfnorm(scale=2)),
    "InverseGamma": (d.InverseGamma(2.5, 2.0), stats.invgamma(2.5, scale=2)),
    "Laplace": (d.Laplace(1.0, 2.0), stats.laplace(1, 2)),
    "LogNormal": (d.LogNormal(0.5, 0.7), stats.lognorm(0.7, scale=np.exp(0.5))),
    "Normal": (d.Normal(1.0, 2.0), stats.norm(1, 2)),
    "Pareto": (d.Pareto(2.0, 2.5), stats.pareto(2.5, scale=2)),
    "StudentT": (d.StudentT(3.0, 1.0, 2.0), stats.t(3, 1, 2)),
    "Uniform": (d.Uniform(-1.0, 2.0), stats.uniform(-1, 3)), "VonMises": (d.VonMises(0.0, 1.3), stats.vonmises(1.3)),
    "VonMises narrow": (d.VonMises(0.0, 40.0), stats.vonmises(40)),
    "Weibull": (d.Weibull(2.0, 1.5), stats.weibull_min(1.5, scale=2)),
}
BY_OWN_CDF = {"ContinuousBernoulli": d.ContinuousBernoulli(0.2), "Kumaraswamy": d.Kumaraswamy(1.5, 2.5)}
DISCRETE = {
    "Bernoulli": (d.Bernoulli(0.3), stats.bernoulli(0.3)), "Binomial": (d.Binomial(12, 0.3), stats.binom(12, 0.3)),
    "Geometric": (d.Geometric(0.3), stats.geom(0.3, -1)),
    "NegativeBinomial": (d.NegativeBinomial(4.0, 0.4), stats.nbinom(4, 0.6)),
    "Poisson": (d.Poisson(4.5), stats.poisson(4.5)),
    "Poisson large": (d.Poisson(60.0), stats.poisson(60)),
    "Categorical": (d.Categorical(torch.tensor([0.2, 0.5, 0.3])),
                    stats.rv_discrete(values=([0, 1, 2], [0.2, 0.5, 0.3]))),
}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(5)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name):
    ours, theirs = CONTINUOUS[name]
    assert stats.kstest(ours.sample((COUNT,)).double().numpy(), theirs.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", BY_OWN_CDF)
def test_by_their_own_distribution_function(name):
    ours = BY_OWN_CDF[name]
    assert stats.kstest(ours.cdf(ours.sample((COUNT,))).double().numpy(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name):
    ours, theirs = DISCRETE[name]
    values, counts = np.unique(ours.sample((COUNT,)).double().numpy(), return_counts=True)
    expected = theirs.pmf(values) * COUNT
    kept = expected > 5
    statistic = (((counts - expected) ** 2) / expected)[kept].sum()
    assert stats.chi2(max(kept.sum() - 1, 1)).sf(statistic) > 1e-3


@pytest.mark.parametrize("name, made", [
    ("Dirichlet", d.Dirichlet(torch.tensor([0.5, 1.5, 2.0]))),
    ("Multinomial", d.Multinomial(6, torch.tensor([0.2, 0.5, 0.3]))),
    ("MultivariateNormal", d.MultivariateNormal(torch.tensor([1.0, 2.0]), torch.tensor([[2.0, 0.5], [0.5, 1.0]]))),
    ("LowRank", d.LowRankMultivariateNormal(torch.tensor([1.0, 2.0]), torch.tensor([[1.0], [0.5]]),
                                            torch.tensor([0.5, 1.5]))),
    ("OneHot", d.OneHotCategorical(torch.tensor([0.2, 0.5, 0.3]))),
    ("Wishart", d.Wishart(torch.tensor(5.0), torch.tensor([[2.0, 0.5], [0.5, 1.0]]))),
    ("Mixture", d.MixtureSameFamily(d.Categorical(torch.tensor([0.3, 0.7])),
                                    d.Normal(torch.tensor([-1.0, 2.0]), torch.tensor([0.5, 1.0]))))])
def test_moments_of_vectors(name, made):
    x = made.sample((COUNT,))
    error = 6 * (made.variance / COUNT).sqrt()
    assert bool(((x.mean(0) - made.mean).abs() < error).all())
    assert torch.allclose(x.var(0), made.variance, rtol=0.15)


def test_correlation_factors_are_factors():
    made = d.LKJCholesky(3, 1.5)
    factor = made.sample((500,))
    assert bool(made.support.check(factor).all())
    correlation = (factor @ factor.mT)[:, 1, 0]
    # concentration - 1 + dim / 2 on both sides
    assert stats.kstest(((correlation + 1) / 2).numpy(), stats.beta(2.0, 2.0).cdf).pvalue > 1e-3


@pytest.mark.parametrize("make, parameter", [
    (lambda a: d.Gamma(a, 2.0), 0.4), (lambda a: d.Gamma(a, 2.0), 3.0), (lambda a: d.Gamma(3.0, a), 2.0),
    (lambda a: d.Beta(a, 2.0), 1.5), (lambda a: d.StudentT(a), 6.0),
    (lambda a: d.Normal(0.5, a), 1.5), (lambda a: d.Gumbel(0.5, a), 1.5), (lambda a: d.Weibull(a, 1.5), 1.5),
    (lambda a: d.Laplace(0.5, a), 1.5),
    (lambda a: d.Kumaraswamy(a, 2.0), 1.5), (lambda a: d.ContinuousBernoulli(a), 0.3),
    (lambda a: d.InverseGamma(5.0, a), 1.5), (lambda a: d.FisherSnedecor(5.0, a), 9.0),
    (lambda a: d.Dirichlet(torch.stack([a, torch.tensor(2.0), torch.tensor(1.0)])), 1.2),
    (lambda a: d.Exponential(a), 0.7), (lambda a: d.Uniform(0.0, a), 2.0)])
def test_samples_move_with_their_parameters(make, parameter):
    """The gradient of the mean of x^2 (or of x, where that varies less) is the mean of the gradients."""
    a = torch.tensor(parameter, requires_grad=True)
    made = make(a)
    second = made.mean.double() ** 2 + made.variance.double()
    expected, = torch.autograd.grad(second.sum() if second.isfinite().all() else made.mean.sum(), a)
    x = make(a).rsample((40000,)).double()
    found, = torch.autograd.grad((x * x).mean(0).sum(), a)
    assert found.item() == pytest.approx(expected.item(), rel=0.12, abs=0.02)


def test_gamma_gradients_are_exact():
    """d x / d shape at a sample, beside a difference of the inverse distribution function."""
    for shape, at in ((0.3, 0.2), (1.0, 0.7), (5.0, 0.9), (40.0, 0.1)):
        x = stats.gamma(shape).ppf(at)
        step = 1e-5 * shape
        expected = (stats.gamma(shape + step).ppf(at) - stats.gamma(shape - step).ppf(at)) / (2 * step)
        found = torch._standard_gamma_grad(torch.tensor(shape, dtype=torch.float64),
                                           torch.tensor(x, dtype=torch.float64))
        assert found.item() == pytest.approx(expected, rel=1e-6)


def test_dirichlet_gradients_are_exact():
    """d share / d concentration at a sample, over 1 - share, beside a difference of the beta distribution's
    quantiles."""
    for first, rest, at in ((0.3, 0.4, 0.5), (1.0, 7.0, 0.7), (1.02, 63.0, 0.2), (5.0, 0.6, 0.9), (2.0, 1500.0, 0.8),
                            (900.0, 1000.0, 0.3)):
        x = stats.beta(first, rest).ppf(at)
        step = 1e-5 * first
        expected = (stats.beta(first + step, rest).ppf(at) - stats.beta(first - step,
                                                                        rest).ppf(at)) / (2 * step) / (1 - x)
        found = torch._dirichlet_grad(*(torch.tensor(v, dtype=torch.float64) for v in (x, first, first + rest)))
        assert found.item() == pytest.approx(expected, rel=1e-6)


def test_dirichlet_gradients_depend_on_the_shares_alone():
    """One share of each sample moves as a beta variable does, the others in proportion; broadcasting and dtypes are
    those of the inputs."""
    a = torch.tensor([0.05, 1.0, 4.0, 30.0], requires_grad=True)
    x = d.Dirichlet(a).rsample((50,))
    weight = torch.rand(50, 4)
    found, = torch.autograd.grad((x * weight).sum(), a)
    x, total = x.detach(), a.detach().sum()
    slope = torch._dirichlet_grad(x, a.detach(), total)
    assert slope.shape == x.shape and slope.dtype == torch.float32
    assert torch.allclose(found, (slope * (weight - (x * weight).sum(-1, True))).sum(0), rtol=1e-4)


def test_samples_repeat_with_the_seed():
    for made in (d.Gamma(2.0, 1.0), d.Poisson(3.0), d.Normal(0.0, 1.0), d.Binomial(5, 0.3)):
        torch.manual_seed(3)
        first = made.sample((4,))
        torch.manual_seed(3)
        assert first.tolist() == made.sample((4,)).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_probabilities_of_small_concentrations_stay_inside(dtype):
    """Gamma variables that nearly vanish do not become 0, 1 or NaN, and each corner has its share."""
    torch.manual_seed(1)
    shares = d.Beta(torch.tensor(1e-2, dtype=dtype), torch.tensor(1e-2, dtype=dtype)).sample((20000,))
    assert ((shares > 0) & (shares < 1)).all()
    assert abs(float((shares < 0.1).double().mean()) - 0.5) < 0.02 and abs(float((shares > 0.9).double().mean())
                                                                           - 0.5) < 0.02


def test_shares_of_tiny_concentrations_have_unbiased_gradients():
    """The expected value of a share of two is a / (a + b); gamma variables of such shapes are less than any float."""
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.float64):
        for a in (1e-3, 1e-2, 0.2, 3.0):
            concentration = torch.tensor(a, dtype=dtype, requires_grad=True)
            share = torch.distributions.Beta(concentration, torch.tensor(a, dtype=dtype)).rsample((20000,))
            gradient, = torch.autograd.grad(share.mean(), concentration)
            assert abs(share.mean().item() - 0.5) < 0.02 and abs(gradient.item() * 4 * a
                                                                 - 1) < 0.5, (dtype, a, gradient)
