"""The Kullback-Leibler divergence of pairs of distributions."""
from __future__ import annotations

import functools
import math
import warnings

import rushlight as torch
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .laplace import Laplace
from .lowrank_multivariate_normal import LowRankMultivariateNormal, log_det, mahalanobis
from .multivariate_normal import MultivariateNormal, _batch_mahalanobis
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, euler_constant

__all__ = ["register_kl", "kl_divergence"]
_KL_REGISTRY: dict = {}
_KL_MEMOIZE: dict = {}


def register_kl(type_p, type_q):
    """Registers, as a decorator, the function of (p, q) for distributions of these classes and their subclasses.  TypeError for other classes."""
    if not (isinstance(type_p, type) and issubclass(type_p, Distribution)):
        raise TypeError(f"Expected type_p to be a Distribution subclass but got {type_p}")
    if not (isinstance(type_q, type) and issubclass(type_q, Distribution)):
        raise TypeError(f"Expected type_q to be a Distribution subclass but got {type_q}")

    def enter(function):
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return enter


def found_for(type_p, type_q):
    """The function of the nearest registered classes; a warning where two are equally near, NotImplemented where there is none."""
    matches = [pair for pair in _KL_REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not matches:
        return NotImplemented
    left = min(matches, key=lambda pair: (type_p.__mro__.index(pair[0]), type_q.__mro__.index(pair[1])))
    right = min(matches, key=lambda pair: (type_q.__mro__.index(pair[1]), type_p.__mro__.index(pair[0])))
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({left[0].__name__}, {right[1].__name__})", RuntimeWarning, stacklevel=3)
    return _KL_REGISTRY[left]


def kl_divergence(p, q):
    """The divergence KL(p || q) = E_p[log p(x) - log q(x)], [*batch_shape].  NotImplementedError for pairs without a formula.

    >>> import rushlight as torch
    >>> from rushlight.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    key = type(p), type(q)
    function = _KL_MEMOIZE.get(key)
    if function is None:
        function = _KL_MEMOIZE[key] = found_for(*key)
    if function is NotImplemented:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}")
    return function(p, q)


def infinite(tensor):
    return torch.full_like(tensor, math.inf)


def x_log_x(tensor):
    """x log x, 0 at 0."""
    return torch.special.xlogy(tensor, tensor)


def trace_of_square(matrix):
    """The trace of M M^T."""
    return matrix.pow(2).sum((-2, -1))


# --- of one family ------------------------------------------------------------------------------------------------------------------
@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    softplus = torch.nn.functional.softplus
    t1 = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    t1 = torch.where(q.probs == 0, math.inf, t1)
    t1 = torch.where(p.probs == 0, 0.0, t1)
    t2 = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    t2 = torch.where(q.probs == 1, math.inf, t2)
    return t1 + torch.where(p.probs == 1, 0.0, t2)


@register_kl(Beta, Beta)
def _beta(p, q):
    sum_p, sum_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    t1 = q.concentration1.lgamma() + q.concentration0.lgamma() + sum_p.lgamma()
    t2 = p.concentration1.lgamma() + p.concentration0.lgamma() + sum_q.lgamma()
    t3 = (p.concentration1 - q.concentration1) * torch.digamma(p.concentration1)
    t4 = (p.concentration0 - q.concentration0) * torch.digamma(p.concentration0)
    return t1 - t2 + t3 + t4 + (sum_q - sum_p) * torch.digamma(sum_p)


@register_kl(Binomial, Binomial)
def _binomial(p, q):
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    found = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return torch.where(p.total_count > q.total_count, math.inf, found)


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    t = p.probs * (p.logits - q.logits)
    t = torch.where((q.probs == 0).expand_as(t), math.inf, t)
    return torch.where((p.probs == 0).expand_as(t), 0, t).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p, q):
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p, q):
    return p.mean * (p.logits - q.logits) + p.log_constant() + torch.log1p(-p.probs) - q.log_constant() - torch.log1p(-q.probs)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    sum_p, sum_q = p.concentration.sum(-1), q.concentration.sum(-1)
    t1 = sum_p.lgamma() - sum_q.lgamma()
    t2 = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    t4 = p.concentration.digamma() - sum_p.digamma().unsqueeze(-1)
    return t1 - t2 + ((p.concentration - q.concentration) * t4).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _family(p, q):
    """By the Bregman divergence of log normalisers, for two of one family."""
    if type(p) is not type(q):
        raise NotImplementedError("The cross KL-divergence between different exponential families cannot be computed using Bregman divergences")
    p_natural = [n.detach().requires_grad_() for n in p._natural_params]
    q_natural = q._natural_params
    with torch.enable_grad():
        normaliser = p._log_normalizer(*p_natural)
        gradients = torch.autograd.grad(normaliser.sum(), p_natural, create_graph=True)
    result = q._log_normalizer(*q_natural) - normaliser
    for pn, qn, g in zip(p_natural, q_natural, gradients):
        result = result - _sum_rightmost((qn - pn) * g, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _gamma(p, q):
    t1 = q.concentration * (p.rate / q.rate).log()
    t2 = torch.lgamma(q.concentration) - torch.lgamma(p.concentration)
    t3 = (p.concentration - q.concentration) * torch.digamma(p.concentration)
    return t1 + t2 + t3 + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel(p, q):
    ratio, shift, loc = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    t1 = -ratio.log() - shift + loc
    return t1 + ratio * euler_constant + torch.exp(shift + (1 + ratio).lgamma() - loc) - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * torch.exp(-distance / p.scale) - 1


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto(p, q):
    ratio, alpha = p.scale / q.scale, q.alpha / p.alpha
    found = q.alpha * ratio.log() - alpha.log() + alpha - 1
    return torch.where(p.support.lower_bound < q.support.lower_bound, math.inf, found)


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return torch.where((q.low > p.low) | (q.high < p.high), math.inf, found)


@register_kl(Cauchy, Cauchy)
def _cauchy(p, q):
    """Chyzak and Nielsen, "A closed-form formula for the Kullback-Leibler divergence between Cauchy distributions" (2019)."""
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("the divergence of transformed distributions is known only for equal transforms")
    extra = len(p.event_shape) - len(p.base_dist.event_shape)
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), max(extra, 0))


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("the divergence of Independent distributions needs equal reinterpreted_batch_ndims")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# --- normal vectors -------------------------------------------------------------------------------------------------------------------
def same_events(p, q, name):
    if p.event_shape != q.event_shape:
        raise ValueError(f"KL-divergence between two {name} with different event shapes cannot be computed")


def expanded(matrix, p, q):
    """A matrix over the batch of both."""
    shape = torch.broadcast_shapes(p.batch_shape, q.batch_shape)
    return matrix.expand(shape + matrix.shape[-2:])


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p, q):
    same_events(p, q, "Multivariate Normals")
    half = q.half_log_det() - p.half_log_det()
    factor_q = expanded(q._unbroadcasted_scale_tril, p, q)
    trace = trace_of_square(torch.linalg.solve_triangular(factor_q, expanded(p._unbroadcasted_scale_tril, p, q), upper=False))
    distance = _batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    return half + 0.5 * (trace + distance - p.event_shape[0])


def low_rank_parts(q):
    return q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p, q):
    same_events(p, q, "Low Rank Multivariate Normals")
    volume = log_det(*low_rank_parts(q), q._capacitance_tril) - log_det(*low_rank_parts(p), p._capacitance_tril)
    distance = mahalanobis(*low_rank_parts(q), q.loc - p.loc, q._capacitance_tril)
    scaled = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    a = torch.linalg.solve_triangular(q._capacitance_tril, scaled, upper=False)
    t1 = (p._unbroadcasted_cov_diag / q._unbroadcasted_cov_diag).sum(-1)
    t2 = trace_of_square(p._unbroadcasted_cov_factor * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1))
    t3 = trace_of_square(a * p._unbroadcasted_cov_diag.sqrt().unsqueeze(-2))
    t4 = trace_of_square(a.matmul(p._unbroadcasted_cov_factor))
    return 0.5 * (volume + t1 + t2 - t3 - t4 + distance - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _multivariate_low_rank(p, q):
    same_events(p, q, "(Low Rank) Multivariate Normals")
    volume = log_det(*low_rank_parts(q), q._capacitance_tril) - 2 * p.half_log_det()
    distance = mahalanobis(*low_rank_parts(q), q.loc - p.loc, q._capacitance_tril)
    scaled = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    a = torch.linalg.solve_triangular(q._capacitance_tril, scaled, upper=False)
    t1 = trace_of_square(p._unbroadcasted_scale_tril * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1))
    return 0.5 * (volume + t1 - trace_of_square(a.matmul(p._unbroadcasted_scale_tril)) + distance - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_multivariate(p, q):
    same_events(p, q, "(Low Rank) Multivariate Normals")
    volume = 2 * q.half_log_det() - log_det(*low_rank_parts(p), p._capacitance_tril)
    distance = _batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    factor_q = expanded(q._unbroadcasted_scale_tril, p, q)
    t1 = trace_of_square(torch.linalg.solve_triangular(factor_q, expanded(p._unbroadcasted_cov_factor, p, q), upper=False))
    t2 = trace_of_square(torch.linalg.solve_triangular(factor_q, expanded(torch.diag_embed(p._unbroadcasted_cov_diag.sqrt()), p, q), upper=False))
    return 0.5 * (volume + t1 + t2 + distance - p.event_shape[0])


# --- of two families --------------------------------------------------------------------------------------------------------------------
def never(first, *others):
    """Pairs whose first has values that the second cannot have: an infinite divergence, of the shape of a parameter."""
    name = {Beta: "concentration1", Exponential: "rate", Gamma: "concentration", Gumbel: "loc", Laplace: "loc", Normal: "loc", Pareto: "scale", Poisson: "rate",
            ContinuousBernoulli: "probs"}[first]
    for other in others:
        register_kl(first, other)(functools.partial(lambda name, p, q: infinite(getattr(p, name)), name))


never(Beta, Pareto)
never(ContinuousBernoulli, Pareto)
never(Exponential, Beta, ContinuousBernoulli, Pareto, Uniform)
never(Gamma, Beta, ContinuousBernoulli, Pareto, Uniform)
never(Gumbel, Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)
never(Laplace, Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)
never(Normal, Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)
never(Pareto, Beta, ContinuousBernoulli, Uniform)
never(Poisson, Bernoulli, Binomial)


def squared_distance(mean, variance, q):
    """E (x - q.loc)^2 / (2 q.scale^2), for x of this mean and variance: what a normal q asks of p."""
    return (variance + (mean - q.loc).pow(2)) / (2 * q.scale.pow(2))


def log_width(q):
    return 0.5 * math.log(2 * math.pi) + q.scale.log()


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p, q):
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p, q):
    return -p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q.log_constant()


@register_kl(Beta, Exponential)
def _beta_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Beta, Gamma)
def _beta_gamma(p, q):
    log_mean = p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    return -p.entropy() + q.concentration.lgamma() - q.concentration * q.rate.log() - (q.concentration - 1) * log_mean + q.rate * p.mean


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
def _bounded_normal(p, q):
    return -p.entropy() + log_width(q) + squared_distance(p.mean, p.variance, q)


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _bounded_uniform(p, q):
    found = -p.entropy() + (q.high - q.low).log()
    return torch.where((q.low > p.support.lower_bound) | (q.high < p.support.upper_bound), math.inf, found)


@register_kl(ContinuousBernoulli, Exponential)
def _continuous_bernoulli_exponential(p, q):
    return -p.entropy() - torch.log(q.rate) + q.rate * p.mean


@register_kl(Exponential, Gamma)
def _exponential_gamma(p, q):
    ratio = q.rate / p.rate
    return -q.concentration * torch.log(ratio) + ratio + q.concentration.lgamma() + q.concentration * euler_constant - (1 + euler_constant)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p, q):
    product, loc = p.rate * q.scale, q.loc / q.scale
    return product.log() - 1 - loc + product.reciprocal() + torch.exp(loc) * product / (product + 1)


@register_kl(Exponential, Normal)
def _exponential_normal(p, q):
    return p.rate.log() - 1 + log_width(q) + squared_distance(p.rate.reciprocal(), p.rate.pow(-2), q)


@register_kl(Gamma, Exponential)
def _gamma_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p, q):
    beta, loc = p.rate * q.scale, q.loc / q.scale
    t1 = (p.concentration - 1) * p.concentration.digamma() - p.concentration.lgamma() - p.concentration
    return t1 + beta.log() + p.concentration / beta + torch.exp(loc) * (1 + beta.reciprocal()).pow(-p.concentration) - loc


@register_kl(Gamma, Normal)
def _gamma_normal(p, q):
    return -p.entropy() + log_width(q) + squared_distance(p.mean, p.variance, q)


@register_kl(Gumbel, Normal)
def _gumbel_normal(p, q):
    return -p.entropy() + log_width(q) + squared_distance(p.mean, p.variance, q)


@register_kl(Laplace, Normal)
def _laplace_normal(p, q):
    return -p.entropy() + log_width(q) + squared_distance(p.mean, p.variance, q)


@register_kl(Normal, Gumbel)
def _normal_gumbel(p, q):
    mean, ratio = (p.loc - q.loc) / q.scale, (p.scale / q.scale).pow(2)
    return -p.entropy() + q.scale.log() + mean + torch.exp(-mean + 0.5 * ratio)


@register_kl(Normal, Laplace)
def _normal_laplace(p, q):
    difference = p.loc - q.loc
    z = difference / p.scale
    absolute = math.sqrt(2 / math.pi) * p.scale * torch.exp(-0.5 * z.pow(2)) + difference * torch.erf(math.sqrt(0.5) * z)
    return -p.entropy() + (2 * q.scale).log() + absolute / q.scale


@register_kl(Pareto, Exponential)
def _pareto_exponential(p, q):
    found = -p.entropy() - q.rate.log() + q.rate * p.alpha * p.scale / (p.alpha - 1)
    return torch.where(p.alpha <= 1, math.inf, found)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p, q):
    log_mean = p.scale.log() + p.alpha.reciprocal()
    found = (-p.entropy() + q.concentration.lgamma() - q.concentration * q.rate.log() - (q.concentration - 1) * log_mean
             + q.rate * p.alpha * p.scale / (p.alpha - 1))
    return torch.where(p.alpha <= 1, math.inf, found)


@register_kl(Pareto, Normal)
def _pareto_normal(p, q):
    mean = p.alpha * p.scale / (p.alpha - 1)
    variance = p.alpha * p.scale.pow(2) / ((p.alpha - 1).pow(2) * (p.alpha - 2))
    return torch.where(p.alpha <= 2, math.inf, -p.entropy() + log_width(q) + squared_distance(mean, variance, q))


@register_kl(Uniform, Beta)
def _uniform_beta(p, q):
    width = p.high - p.low
    constant = q.concentration1.lgamma() + q.concentration0.lgamma() - (q.concentration1 + q.concentration0).lgamma()
    t3 = (q.concentration1 - 1) * (x_log_x(p.high) - x_log_x(p.low) - width) / width
    t4 = (q.concentration0 - 1) * (x_log_x(1 - p.high) - x_log_x(1 - p.low) + width) / width
    found = -width.log() + constant - t3 + t4
    return torch.where((p.high > q.support.upper_bound) | (p.low < q.support.lower_bound), math.inf, found)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p, q):
    found = -p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q.log_constant()
    return torch.where((p.high > q.support.upper_bound) | (p.low < q.support.lower_bound), math.inf, found)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p, q):
    found = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return torch.where(p.low < q.support.lower_bound, math.inf, found)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p, q):
    width = p.high - p.low
    log_mean = (x_log_x(p.high) - x_log_x(p.low) - width) / width
    found = -width.log() + q.concentration.lgamma() - q.concentration * q.rate.log() + (1 - q.concentration) * log_mean + q.rate * (p.high + p.low) / 2
    return torch.where(p.low < q.support.lower_bound, math.inf, found)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p, q):
    width, high, low = (p.high - p.low) / q.scale, (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return 0.5 * (high + low) - (torch.exp(-high) - torch.exp(-low)) / width - width.log()


@register_kl(Uniform, Normal)
def _uniform_normal(p, q):
    width = p.high - p.low
    return -width.log() + log_width(q) + squared_distance(p.mean, width.pow(2) / 12, q)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p, q):
    width = p.high - p.low
    found = (q.alpha + 1) * (x_log_x(p.high) - x_log_x(p.low) - width) / width - (width * q.alpha * q.scale.pow(q.alpha)).log()
    return torch.where(p.low < q.support.lower_bound, math.inf, found)
