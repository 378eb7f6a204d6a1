"""Weibull: the time until the weakest part fails."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """scale * e ** (1 / concentration) for e exponential with rate 1."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(torch.ones_like(self.scale), validate_args)
        super().__init__(base, [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)],
                         validate_args)

    concentration_reciprocal = property(lambda self: 1 / self.concentration)

    def _moment(self, order):
        """E (x / scale)^order"""
        return torch.exp(torch.lgamma(1 + order * self.concentration_reciprocal))

    mean = property(lambda self: self.scale * self._moment(1))
    mode = property(lambda self: self.scale * (1 - self.concentration_reciprocal).pow(self.concentration_reciprocal))
    variance = property(lambda self: self.scale.square() * (self._moment(2) - self._moment(1).square()))

    def entropy(self):
        part = self.concentration_reciprocal
        return 1 + euler_constant * (1 - part) + torch.log(part * self.scale)
