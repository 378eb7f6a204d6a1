"""MixtureSameFamily: one of several distributions of a family, chosen by a Categorical."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .categorical import Categorical
from .distribution import Distribution, checked
from .utils import through

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """Component k, the last batch dimension of ``component_distribution``, with the probability that
    ``mixture_distribution`` gives it."""

    arg_constraints = {}

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                f"the mixture distribution must be a Categorical, not {type(mixture_distribution).__name__}")
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                f"the component distribution must be a Distribution, not {type(component_distribution).__name__}")
        *batch_shape, count = component_distribution.batch_shape
        if mixture_distribution.logits.size(-1) != count:
            raise ValueError(
                f"the mixture chooses among {mixture_distribution.logits.size(-1)} components, and the last batch "
                f"dimension of the component distribution has {count}")
        if any([n != m and 1 not in (n, m)
                for n, m in zip(reversed(mixture_distribution.batch_shape), reversed(batch_shape))]):
            raise ValueError(
                f"the batch shape {tuple(mixture_distribution.batch_shape)} of the mixture does not fit "
                f"{tuple(batch_shape)}, that of the components without the last "
                "dimension")
        self._mixture_distribution, self._component_distribution, self._num_component = (mixture_distribution,
                                                                                         component_distribution, count)
        super().__init__(batch_shape, component_distribution.event_shape, validate_args)

    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)
    _log_weights, = through("_mixture_distribution", "logits")
    _dim = property(lambda self: -1 - len(self._event_shape))  # of the components, counted from the last of a value

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    def _weighted(self, each):
        """The mean over components of what each has for a whole value."""
        weights = self._mixture_distribution.probs
        return (each * weights.reshape(weights.shape + (1,) * len(self._event_shape))).sum(self._dim)

    @property
    def mean(self):
        return self._weighted(self._component_distribution.mean)

    @property
    def variance(self):
        """The variance within components and that between their means."""
        between = self._component_distribution.mean - self.mean.unsqueeze(self._dim)
        return self._weighted(self._component_distribution.variance + between.square())

    def cdf(self, x):
        each = self._component_distribution.cdf(x.unsqueeze(self._dim))
        return (self._mixture_distribution.probs * each).sum(-1)

    @checked
    def log_prob(self, x):
        each = self._component_distribution.log_prob(x.unsqueeze(self._dim))
        return torch.logsumexp(self._log_weights + each, dim=-1)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            each, chosen = self._component_distribution.sample(sample_shape), self._mixture_distribution.expand(
                self._batch_shape).sample(sample_shape)
            places = chosen.reshape(chosen.shape + (1,) * -self._dim).expand(chosen.shape + (1,) + self._event_shape)
            return each.gather(chosen.dim(), places).squeeze(chosen.dim())

    def __repr__(self):
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
