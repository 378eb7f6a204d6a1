"""GeneralizedPareto: how far a threshold is exceeded."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .distribution import Distribution, checked

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Excesses over ``loc`` with width ``scale`` and tail ``concentration``: below 0 the tail ends, at 0 it is
    exponential."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc, scale, concentration, validate_args=None):
        self._enter({"loc": loc, "scale": scale, "concentration": concentration}, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, torch.where(self.concentration < 0, end, math.inf))

    mode = property(lambda self: self.loc)

    @property
    def mean(self):
        return torch.where(self.concentration < 1, self.loc + self.scale / (1 - self.concentration), math.inf)

    @property
    def variance(self):
        rest = 1 - self.concentration
        found = (self.scale / rest).square() / (rest - self.concentration)
        return torch.where(self.concentration < 0.5, found, math.inf)

    def _tail(self):
        """Return a mask where the tail is exponential, and the concentrations, with 1 there to avoid division by 0."""
        exponential = self.concentration.abs() <= 1e-8
        return exponential, torch.where(exponential, 1, self.concentration)

    def _log_survival(self, z):
        exponential, k = self._tail()
        return torch.where(exponential, -z, -torch.log1p(k * z) / k)

    @checked
    def log_survival_function(self, value):
        """log P(x > value)"""
        return self._log_survival((value - self.loc) / self.scale)

    def log_cdf(self, value):
        """log P(x <= value)"""
        return torch.log1p(-self.log_survival_function(value).exp())

    def cdf(self, value):
        return -torch.expm1(self.log_survival_function(value))

    def icdf(self, value):
        exponential, k = self._tail()
        log_rest = torch.log1p(-value)
        return self.loc + self.scale * torch.where(exponential, -log_rest, torch.expm1(-k * log_rest) / k)

    def rsample(self, sample_shape=torch.Size()):
        return self.icdf(self._draw(torch.rand, sample_shape, self.loc))

    @checked
    def log_prob(self, value):
        """The survival function to the power 1 + concentration, over the scale."""
        z = (value - self.loc) / self.scale
        inside = (z >= 0) & (1 + self.concentration * z >= 0)
        return torch.where(inside, (1 + self.concentration) * self._log_survival(z) - self.scale.log(), -math.inf)

    def entropy(self):
        return self.scale.log() + self.concentration + 1
