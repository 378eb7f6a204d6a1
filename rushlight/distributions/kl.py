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
from .exp_family import ExponentialFamily, inner_product, normaliser_and_gradient
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .laplace import Laplace
from .lowrank_multivariate_normal import LowRankMultivariateNormal
from .multivariate_normal import MultivariateNormal
from .normal import LOG_ROOT_2_PI, Normal
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
    """Registers, as a decorator, the function of (p, q) for distributions of these classes and their subclasses.
    TypeError for what is no class."""
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise TypeError(f"a divergence is registered for two classes, and one is {kind!r}")

    def enter(function):
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return enter


def found_for(type_p, type_q):
    """The function of the nearest registered classes; a warning where two are equally near, NotImplemented where there
    is none."""
    matches = [pair for pair in _KL_REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not matches:
        return NotImplemented
    left = min(matches, key=lambda pair: (type_p.__mro__.index(pair[0]), type_q.__mro__.index(pair[1])))
    right = min(matches, key=lambda pair: (type_q.__mro__.index(pair[1]), type_p.__mro__.index(pair[0])))
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}): two functions are equally near, and the "
            f"one for {left[0].__name__} and {left[1].__name__} is "
            f"taken; register_kl({left[0].__name__}, {right[1].__name__}) decides", RuntimeWarning, stacklevel=3)
    return _KL_REGISTRY[left]


def kl_divergence(p, q):
    """The divergence KL(p || q) = E_p[log p(x) - log q(x)], [*batch_shape].  NotImplementedError for pairs without a
    formula.

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
        raise NotImplementedError(
            f"no formula for KL(p || q) of {type(p).__name__} and {type(q).__name__}: give one with register_kl, or "
            "average log_prob over samples of p")
    return function(p, q)


# --- of one family ----------------------------------------------------------------------------------------------------
def relative(p, q, log_ratio):
    """p log(p / q) of probabilities, given the logarithm: 0 where p is 0, infinite where only q is."""
    return torch.where(p == 0, 0, torch.where(q == 0, math.inf, p * log_ratio))


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    """p log(p / q) + (1 - p) log((1 - p) / (1 - q))"""
    log = torch.nn.functional.logsigmoid
    yes = relative(p.probs, q.probs, log(p.logits) - log(q.logits))
    return yes + relative(1 - p.probs, 1 - q.probs, log(-p.logits) - log(-q.logits))


@register_kl(Binomial, Binomial)
def _binomial(p, q):
    """That of one trial, n times; infinite where p counts further than q."""
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("the divergence of a Binomial from one with a larger total_count has no closed form")
    return torch.where(p.total_count > q.total_count, math.inf, p.total_count * _bernoulli(p, q))


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    """sum_k p_k log(p_k / q_k)"""
    return relative(p.probs, q.probs, p.logits - q.logits).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p, q):
    """That of the classes."""
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p, q):
    """E_p x (logits_p - logits_q) + log((1 - p) c_p) - log((1 - q) c_q), for densities c (1 - p) exp(logits x)"""
    ends = [family.log_constant() + torch.log1p(-family.probs) for family in (p, q)]
    return p.mean * (p.logits - q.logits) + ends[0] - ends[1]


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    """log B(b) - log B(a) + sum_k (a_k - b_k) E_p log x_k, for concentrations a of p and b of q"""
    a, b = p.concentration, q.concentration
    log_means = a.digamma() - a.sum(-1, keepdim=True).digamma()
    return q._log_normalizer(b) - p._log_normalizer(a) + ((a - b) * log_means).sum(-1)


@register_kl(Beta, Beta)
def _beta(p, q):
    """That of the two probabilities x and 1 - x."""
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    """r - 1 - log r, r = rate_q / rate_p"""
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(ExponentialFamily, ExponentialFamily)
def _family(p, q):
    """A(v) - A(u) - <v - u, grad A(u)>, for natural parameters u of p and v of q and their log normaliser A: a Bregman
    divergence."""
    if type(p) is not type(q):
        raise NotImplementedError(
            f"{type(p).__name__} and {type(q).__name__} are different exponential families: the Bregman divergence is "
            "of one")
    normaliser, natural, means = normaliser_and_gradient(p)
    differences = [theirs - ours for ours, theirs in zip(natural, q._natural_params)]
    return q._log_normalizer(*q._natural_params) - normaliser - inner_product(differences, means,
                                                                              max(len(p.batch_shape),
                                                                                  len(q.batch_shape)))


@register_kl(Gamma, Gamma)
def _gamma(p, q):
    """b log(rate_p / rate_q) + log gamma(b) - log gamma(a) + (a - b) digamma(a) + a (rate_q / rate_p - 1), for
    concentrations a of p and b of q"""
    a, b, ratio = p.concentration, q.concentration, q.rate / p.rate
    return a * (ratio - 1) - b * ratio.log() + (a - b) * a.digamma() + b.lgamma() - a.lgamma()


@register_kl(Gumbel, Gumbel)
def _gumbel(p, q):
    """E z - 1 - log r + gamma(1 + r) exp(-d) - euler, for z the value by q's scale, r = scale_p / scale_q, d = (loc_p -
    loc_q) / scale_q"""
    ratio, distance = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return distance + euler_constant * (ratio - 1) - 1 - ratio.log() + torch.exp(torch.lgamma(1 + ratio) - distance)


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    """E_p -log q(x) - H(p), where E_p x = 1 / p - 1"""
    return -p.mean * torch.log1p(-q.probs) - q.probs.log() - p.entropy()


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    """That of the normal variables: both densities double."""
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    """d / scale_q + r exp(-d / scale_p) - 1 - log r, d = |loc_p - loc_q|, r = scale_p / scale_q"""
    ratio, distance = p.scale / q.scale, torch.abs(p.loc - q.loc)
    return distance / q.scale + ratio * torch.exp(-distance / p.scale) - 1 - ratio.log()


@register_kl(Normal, Normal)
def _normal(p, q):
    """(r + d^2 - 1 - log r) / 2, r = (scale_p / scale_q)^2, d = (loc_p - loc_q) / scale_q"""
    ratio, distance = (p.scale / q.scale).square(), (p.loc - q.loc) / q.scale
    return (distance.square() + ratio - ratio.log() - 1) / 2


@register_kl(Pareto, Pareto)
def _pareto(p, q):
    """alpha_q log(scale_p / scale_q) + r - 1 - log r, r = alpha_q / alpha_p; infinite where p begins below q"""
    ratio, start = q.alpha / p.alpha, torch.log(p.scale / q.scale)
    return torch.where(start < 0, math.inf, q.alpha * start + ratio - 1 - ratio.log())


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    """rate_p log(rate_p / rate_q) + rate_q - rate_p"""
    return q.rate - p.rate + p.rate * torch.log(p.rate / q.rate)


@register_kl(Cauchy, Cauchy)
def _cauchy(p, q):
    """log(((scale_p + scale_q)^2 + (loc_p - loc_q)^2) / (4 scale_p scale_q)) (Chyzak and Nielsen 2019)"""
    above = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return torch.log(above / (4 * p.scale * q.scale))


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    """That of the bases: a transform that both go through changes nothing."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("the divergence of transformed distributions is known only for equal transforms")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist),
                          max(len(p.event_shape) - len(p.base_dist.event_shape), 0))


@register_kl(Independent, Independent)
def _independent(p, q):
    """The sum of those of the parts."""
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            f"reinterpreted_batch_ndims differ: {p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _normal_vectors(p, q):
    """(log det Q - log det P + tr(Q^-1 P) + d^T Q^-1 d - n) / 2, for covariances P and Q and d = loc_p - loc_q"""
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"p has vectors of {p.event_shape[0]} and q of {q.event_shape[0]}: no divergence is defined between them")
    lengths = q._squared_lengths((p.loc - q.loc).unsqueeze(-1))
    if isinstance(p, LowRankMultivariateNormal):
        trace = q._squared_lengths(p._unbroadcasted_cov_factor) + (q._precision_diagonal()
                                                                   * p._unbroadcasted_cov_diag).sum(-1)
    else:
        trace = q._squared_lengths(p._unbroadcasted_scale_tril)
    return q._half_log_det() - p._half_log_det() + (trace + lengths - p.event_shape[0]) / 2


# --- of two families: cross entropy less entropy ----------------------------------------------------------------------
# A family q needs a few expected values of p, so one formula for each q and one expected value for each p serve
# all pairs.
def x_log_x(x):
    return torch.special.xlogy(x, x)


@functools.singledispatch
def mean_log(p):
    """E log x"""
    raise NotImplementedError(f"E log x of {type(p).__name__} is not known")


@mean_log.register
def _(p: Beta):
    return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()


@mean_log.register
def _(p: Exponential):
    return -euler_constant - p.rate.log()


@mean_log.register
def _(p: Pareto):
    return p.scale.log() + 1 / p.alpha


@mean_log.register
def _(p: Uniform):
    return (x_log_x(p.high) - x_log_x(p.low)) / (p.high - p.low) - 1


@functools.singledispatch
def mean_decay(p, loc, scale):
    """E exp(-(x - loc) / scale)"""
    raise NotImplementedError(f"E exp(-x) of {type(p).__name__} is not known")


@mean_decay.register
def _(p: Exponential, loc, scale):
    return torch.exp(loc / scale) / (1 + 1 / (p.rate * scale))


@mean_decay.register
def _(p: Gamma, loc, scale):
    return torch.exp(loc / scale - p.concentration * torch.log1p(1 / (p.rate * scale)))


@mean_decay.register
def _(p: Normal, loc, scale):
    return torch.exp((loc - p.loc) / scale + (p.scale / scale).square() / 2)


@mean_decay.register
def _(p: Uniform, loc, scale):
    return (torch.exp((loc - p.low) / scale) - torch.exp((loc - p.high) / scale)) * scale / (p.high - p.low)


def outside(p, q):
    """Return where p has values that q cannot have: a bool if that holds for all parameters."""
    (low, high), (least, most) = [(getattr(family.support, "lower_bound", -math.inf),
                                   getattr(family.support, "upper_bound", math.inf)) for family in (p, q)]
    return (low < least) | (high > most)


def from_families(type_q, *types_p):
    """Registers, for p of these types, the cross entropy -E_p log q(x): the divergence is what it has more than p's
    entropy, infinite where p leaves q's support."""
    def enter(cross_entropy):
        def divergence(p, q):
            found, excluded = cross_entropy(p, q) - p.entropy(), outside(p, q)
            return found if excluded is False else torch.where(excluded, math.inf, found)

        for type_p in types_p:
            register_kl(type_p, type_q)(divergence)
        return cross_entropy
    return enter


@from_families(Poisson, Bernoulli)
def _to_poisson(p, q):
    """rate - E x log rate: x! is 1 for 0 and 1"""
    return q.rate - p.mean * q.rate.log()


@from_families(ContinuousBernoulli, Beta, Uniform)
def _to_continuous_bernoulli(p, q):
    """-logits E x - log(1 - probs) - log c"""
    return -q.logits * p.mean - torch.log1p(-q.probs) - q.log_constant()


@from_families(Exponential, Beta, ContinuousBernoulli, Gamma, Pareto, Uniform)
def _to_exponential(p, q):
    """rate E x - log rate"""
    return q.rate * p.mean - q.rate.log()


@from_families(Gamma, Beta, Exponential, Pareto, Uniform)
def _to_gamma(p, q):
    """log gamma(a) - a log rate - (a - 1) E log x + rate E x"""
    a = q.concentration
    return a.lgamma() - a * q.rate.log() - (a - 1) * mean_log(p) + q.rate * p.mean


@from_families(Normal, Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform)
def _to_normal(p, q):
    """log(sqrt(2 pi) scale) + E (x - loc)^2 / (2 scale^2)"""
    square = p.variance + (p.mean - q.loc).square()
    return LOG_ROOT_2_PI + q.scale.log() + square / (2 * q.scale.square())


@from_families(Uniform, Beta, ContinuousBernoulli)
def _to_uniform(p, q):
    """log(high - low)"""
    return q.entropy()


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    """log(width_q / width_p), by the ratio: widths may be equal and large."""
    found = torch.log((q.high - q.low) / (p.high - p.low))
    return torch.where(outside(p, q), math.inf, found)


@from_families(Gumbel, Exponential, Gamma, Normal, Uniform)
def _to_gumbel(p, q):
    """log scale + E (x - loc) / scale + E exp(-(x - loc) / scale)"""
    return q.scale.log() + (p.mean - q.loc) / q.scale + mean_decay(p, q.loc, q.scale)


@from_families(Laplace, Normal)
def _to_laplace(p, q):
    """log(2 scale) + E |x - loc| / scale: the mean of a folded normal variable"""
    distance = p.loc - q.loc
    z = distance / p.scale
    absolute = distance * torch.erf(z / math.sqrt(2)) + math.sqrt(2 / math.pi) * p.scale * torch.exp(-z.square() / 2)
    return torch.log(2 * q.scale) + absolute / q.scale


@from_families(Beta, Uniform)
def _to_beta(p, q):
    """log B(a, b) - (a - 1) E log x - (b - 1) E log(1 - x)"""
    rest = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    return q._log_normalizer(q.concentration1,
                             q.concentration0) - (q.concentration1 - 1) * mean_log(p) - (q.concentration0
                                                                                         - 1) * mean_log(rest)


@from_families(Pareto, Uniform)
def _to_pareto(p, q):
    """(alpha + 1) E log x - log alpha - alpha log scale"""
    return (q.alpha + 1) * mean_log(p) - q.alpha.log() - q.alpha * q.scale.log()


# --- of two families, where the first always has values outside the second's support-----------------------------------
def infinite(p, q):
    """Infinity for each place of both batches."""
    return torch.full(torch.broadcast_shapes(p.batch_shape, q.batch_shape), math.inf, dtype=p.mean.dtype)


UNBOUNDED, UNLIMITED = (Gumbel, Laplace, Normal), (Exponential, Gamma, Pareto)
for narrow, wider in {Beta: UNBOUNDED + UNLIMITED, ContinuousBernoulli: UNBOUNDED + UNLIMITED,
                      Uniform: UNBOUNDED + UNLIMITED, Exponential: UNBOUNDED, Gamma: UNBOUNDED,
                      Pareto: (*UNBOUNDED, Beta, ContinuousBernoulli, Exponential, Gamma), Bernoulli: (Poisson,),
                      Binomial: (Poisson,)}.items():
    for wide in wider:
        register_kl(wide, narrow)(infinite)
