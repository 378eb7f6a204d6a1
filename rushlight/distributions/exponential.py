"""Exponential: the time until an event that may come at any moment."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .distribution import checked
from .exp_family import ExponentialFamily

__all__ = ["Exponential"]


class Exponential(ExponentialFamily):
    """Density rate * exp(-rate * x) for x >= 0."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate, validate_args=None):
        self._enter({"rate": rate}, validate_args=validate_args)

    mean = stddev = property(lambda self: 1 / self.rate)
    mode = property(lambda self: torch.zeros_like(self.rate))
    variance = property(lambda self: self.rate ** -2)

    def rsample(self, sample_shape=torch.Size()):
        return self.icdf(self._draw(torch.rand, sample_shape, self.rate))

    @checked
    def log_prob(self, value):
        return torch.log(self.rate) - value * self.rate

    @checked
    def cdf(self, value):
        return -torch.expm1(-self.rate * value)

    def icdf(self, value):
        return -torch.log1p(-value) / self.rate

    def entropy(self):
        return 1 - self.rate.log()

    @property
    def _natural_params(self):
        return (-self.rate,)

    def _log_normalizer(self, negative_rate):
        return -torch.log(-negative_rate)
