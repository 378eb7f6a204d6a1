"""InverseGamma: one over a gamma variable."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform
from .utils import through

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """1 / x for x of Gamma(concentration, rate)."""

    arg_constraints = Gamma.arg_constraints
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration, rate, validate_args=None):
        base = Gamma(concentration, rate, validate_args)
        super().__init__(base, PowerTransform(base.rate.new_full((), -1)), validate_args)

    concentration, rate = through("base_dist", "concentration", "rate")
    mode = property(lambda self: self.rate / (1 + self.concentration))

    @property
    def mean(self):
        return torch.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def variance(self):
        found = (self.rate / (self.concentration - 1)).square() / (self.concentration - 2)
        return torch.where(self.concentration > 2, found, math.inf)

    def entropy(self):
        """That of the gamma variable x, and -2 E log x for the change of variable."""
        return self.base_dist.entropy() + 2 * (self.rate.log() - self.concentration.digamma())
