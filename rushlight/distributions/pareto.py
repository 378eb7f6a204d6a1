"""Pareto: heavy-tailed sizes."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .utils import broadcast_all

__all__ = ["Pareto"]


class Pareto(TransformedDistribution):
    """Density alpha * scale ** alpha / x ** (alpha + 1) for x >= scale: scale * exp(e) for e exponential with rate
    ``alpha``."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale, alpha, validate_args=None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(Exponential(self.alpha, validate_args), [ExpTransform(), AffineTransform(0, self.scale)],
                         validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.greater_than_eq(self.scale)

    mode = property(lambda self: self.scale)

    @property
    def mean(self):
        return torch.where(self.alpha > 1, self.scale * self.alpha / (self.alpha - 1), math.inf)

    @property
    def variance(self):
        found = self.alpha * (self.scale / (self.alpha - 1)).square() / (self.alpha - 2)
        return torch.where(self.alpha > 2, found, math.inf)

    def entropy(self):
        return 1 + self.alpha.reciprocal() + torch.log(self.scale / self.alpha)
