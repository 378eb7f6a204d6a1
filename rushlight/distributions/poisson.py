"""Poisson: the number of events in a time."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .distribution import checked
from .exp_family import ExponentialFamily

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """P(k) = rate ** k * exp(-rate) / k!"""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate, validate_args=None):
        self._enter({"rate": rate}, validate_args=validate_args)

    mean = variance = property(lambda self: self.rate)
    mode = property(lambda self: torch.floor(self.rate))

    def sample(self, sample_shape=torch.Size()):
        rates = self.rate.detach().expand(self._extended_shape(sample_shape))
        return torch.poisson(rates)

    @checked
    def log_prob(self, value):
        return torch.xlogy(value, self.rate) - torch.lgamma(1 + value) - self.rate

    @property
    def _natural_params(self):
        return (self.rate.log(),)

    def _log_normalizer(self, log_rate):
        return log_rate.exp()
