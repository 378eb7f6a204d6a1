"""MixtureSameFamily: one of several distributions of a family, chosen by a Categorical."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .categorical import Categorical
from .constraints import MixtureSameFamilyConstraint
from .distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """Component k, the last batch dimension of ``component_distribution``, with the probability that ``mixture_distribution`` gives it."""

    arg_constraints = {}
    has_rsample = False

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        mixed, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        if any(a != 1 and b != 1 and a != b for a, b in zip(reversed(mixed), reversed(batch))):
            raise ValueError(f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with `component_distribution.batch_shape`({batch})")
        count = component_distribution.batch_shape[-1]
        if mixture_distribution.logits.shape[-1] != count:
            raise ValueError(f"`mixture_distribution component` ({mixture_distribution.logits.shape[-1]}) does not equal `component_distribution.batch_shape[-1]` ({count})")
        self._num_component, self._event_ndims = count, len(component_distribution.event_shape)
        super().__init__(batch, component_distribution.event_shape, validate_args=validate_args)

    def expand_others(self, new, batch_shape):
        new._component_distribution = self._component_distribution.expand(batch_shape + (self._num_component,))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims

    @constraints.dependent_property
    def support(self):
        return MixtureSameFamilyConstraint(self._component_distribution.support)

    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)

    def weights(self):
        return self._pad_mixture_dimensions(self.mixture_distribution.probs)

    @property
    def mean(self):
        return torch.sum(self.weights() * self.component_distribution.mean, dim=-1 - self._event_ndims)

    @property
    def variance(self):
        within = torch.sum(self.weights() * self.component_distribution.variance, dim=-1 - self._event_ndims)
        between = torch.sum(self.weights() * (self.component_distribution.mean - self._pad(self.mean)).pow(2.0), dim=-1 - self._event_ndims)
        return within + between

    def cdf(self, x):
        return torch.sum(self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs, dim=-1)

    def log_prob(self, x):
        if self._validate_args:
            self._validate_sample(x)
        x = self._pad(x)
        return torch.logsumexp(self.component_distribution.log_prob(x) + torch.log_softmax(self.mixture_distribution.logits, dim=-1), dim=-1)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            before = len(sample_shape) + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            samples = self.component_distribution.sample(sample_shape)
            places = chosen.reshape(chosen.shape + torch.Size([1] * (self._event_ndims + 1)))
            places = places.expand(chosen.shape + torch.Size([1]) + self.event_shape)
            return torch.gather(samples, before, places).squeeze(before)

    def _pad(self, x):
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x):
        missing = len(self.batch_shape) - len(self.mixture_distribution.batch_shape)
        shape = x.shape
        return x.reshape(shape[:-1] + torch.Size(missing * [1]) + shape[-1:] + torch.Size(self._event_ndims * [1]))

    def _validate_sample(self, value):
        """The shape; the components check the values."""
        if value.shape[value.dim() - self._event_ndims:] != self.event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {value.shape} vs {self.event_shape}.")
        if not bool(self._component_distribution.support.check(self._pad(value)).all()):
            raise ValueError(f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support ({self.support!r}) of the distribution "
                             f"{self!r}, but found invalid values:\n{value}")

    def __repr__(self):
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
