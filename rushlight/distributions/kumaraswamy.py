"""Kumaraswamy: like Beta, with a distribution function in closed form."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """Density a * b * x ** (a - 1) * (1 - x ** a) ** (b - 1) on [0, 1], a = concentration1, b = concentration0."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        a, b = self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(torch.zeros_like(a.detach()), torch.ones_like(a.detach()), validate_args)
        super().__init__(base, [PowerTransform(b.reciprocal()), AffineTransform(1.0, -1.0),
                                PowerTransform(a.reciprocal())], validate_args)

    def _moment(self, order):
        """E x^order = b B(1 + order / a, b)"""
        b, step = self.concentration0, 1 + order / self.concentration1
        return b * torch.exp(step.lgamma() + b.lgamma() - (step + b).lgamma())

    mean = property(lambda self: self._moment(1))
    variance = property(lambda self: self._moment(2) - self.mean.square())

    @property
    def mode(self):
        """((a - 1) / (a b - 1)) ** (1 / a), where neither is below 1."""
        a, b = self.concentration1, self.concentration0
        log_mode = torch.log1p(-b) / b - torch.log1p(-a * b)
        return torch.where(torch.minimum(a, b) < 1, math.nan, log_mode.exp())

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        harmonic = torch.digamma(b + 1) + euler_constant
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - torch.log(a * b)
