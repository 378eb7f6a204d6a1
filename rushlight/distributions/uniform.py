"""Uniform: any number of an interval alike."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .distribution import Distribution, checked

__all__ = ["Uniform"]


class Uniform(Distribution):
    """Uniform over [low, high)."""

    arg_constraints = dict.fromkeys(("low", "high"), constraints.dependent(is_discrete=False, event_dim=0))
    has_rsample = True

    def __init__(self, low, high, validate_args=None):
        self._enter({"low": low, "high": high}, validate_args=validate_args)
        if self._validate_args:
            self._require(constraints.greater_than(self.low), self.high, "parameter high", "satisfy the constraint")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.low, self.high)

    _width = property(lambda self: self.high - self.low)
    mean = property(lambda self: 0.5 * (self.low + self.high))
    mode = property(lambda self: torch.full_like(self.low, math.nan))
    stddev = property(lambda self: self._width / math.sqrt(12))
    variance = property(lambda self: self._width.square() / 12)

    def rsample(self, sample_shape=torch.Size()):
        return self.icdf(self._draw(torch.rand, sample_shape, self.low))

    @checked
    def log_prob(self, value):
        inside = (self.low <= value) & (value < self.high)
        return torch.where(inside, -self.entropy(), -math.inf)

    @checked
    def cdf(self, value):
        return torch.clamp((value - self.low) / self._width, 0, 1)

    def icdf(self, value):
        return self.low + value * self._width

    def entropy(self):
        return self._width.log()
