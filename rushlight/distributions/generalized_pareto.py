"""GeneralizedPareto: what exceeds a threshold."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Excesses over ``loc`` with width ``scale`` and tail ``concentration`` (0: exponential)."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def exponential(self):
        """Where the tail is exponential, and the concentrations with those replaced by 1."""
        zero = torch.isclose(self.concentration, torch.zeros((), dtype=self.concentration.dtype))
        return zero, torch.where(zero, torch.ones_like(self.concentration), self.concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        upper = torch.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, upper)

    def rsample(self, sample_shape=torch.Size()):
        return self.icdf(torch.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, k = self.exponential()
        inside = torch.where(self.concentration > 0, z >= 0, (z >= 0) & (z <= -1 / k) | zero & (z >= 0))
        found = torch.where(zero, -z, -(1 / k + 1) * torch.log1p(k * z)) - torch.log(self.scale)
        return torch.where(inside, found, -math.inf)

    def log_survival_function(self, value):
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, k = self.exponential()
        return torch.where(zero, -z, -torch.log1p(k * z) / k)

    def log_cdf(self, value):
        return torch.log1p(-torch.exp(self.log_survival_function(value)))

    def cdf(self, value):
        return torch.exp(self.log_cdf(value))

    def icdf(self, value):
        zero, k = self.exponential()
        left = torch.log1p(-value)
        return torch.where(zero, self.loc - self.scale * left, self.loc + self.scale * torch.expm1(-k * left) / k)

    @property
    def mean(self):
        return torch.where(self.concentration < 1, self.loc + self.scale / (1 - self.concentration), math.inf)

    @property
    def variance(self):
        found = self.scale ** 2 / ((1 - self.concentration) ** 2 * (1 - 2 * self.concentration))
        return torch.where(self.concentration < 0.5, found, math.inf)

    mode = property(lambda self: self.loc)

    def entropy(self):
        return torch.log(self.scale) + self.concentration + 1
