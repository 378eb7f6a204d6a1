"""Gamma: the time until several events."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .distribution import checked
from .exp_family import ExponentialFamily

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """Density proportional to x ** (concentration - 1) * exp(-rate * x)."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration, rate, validate_args=None):
        self._enter({"concentration": concentration, "rate": rate}, validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: torch.relu(self.concentration - 1) / self.rate)
    variance = property(lambda self: self.mean / self.rate)

    def rsample(self, sample_shape=torch.Size()):
        x = torch._standard_gamma(self.concentration.expand(self._extended_shape(sample_shape))) / self.rate
        # small concentrations round to 0, where the density may be infinite
        return x.clamp(min=torch.finfo(x.dtype).tiny)

    def log_prob(self, value):
        value = torch.as_tensor(value, dtype=self.rate.dtype)
        if self._validate_args:
            self._validate_sample(value)
        shape, scaled = self.concentration, self.rate * value
        return torch.xlogy(shape, self.rate) + torch.xlogy(shape - 1, value) - scaled - shape.lgamma()

    @checked
    def cdf(self, value):
        return torch.special.gammainc(self.concentration, value * self.rate)

    def entropy(self):
        shape = self.concentration
        return shape + shape.lgamma() - (shape - 1) * shape.digamma() - self.rate.log()

    @property
    def _natural_params(self):
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, less_one, negative_rate):
        return torch.lgamma(1 + less_one) - (1 + less_one) * torch.log(-negative_rate)
