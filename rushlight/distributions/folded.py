"""Folded distributions: the size of a variable that is symmetric about 0."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .distribution import checked
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform
from .utils import through

__all__ = ["Folded"]


class Folded(TransformedDistribution):
    """|x| for x of a family of location 0 and ``scale``: the density doubles."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _family: type

    def __init__(self, scale, validate_args=None):
        super().__init__(self._family(0, scale, validate_args=False), AbsTransform(), validate_args)

    scale, = through("base_dist", "scale")
    mode = property(lambda self: torch.zeros_like(self.scale))

    @checked
    def log_prob(self, value):
        value = torch.as_tensor(value, dtype=self.scale.dtype)
        return torch.where(value < 0, -math.inf, math.log(2) + self.base_dist.log_prob(value))

    @checked
    def cdf(self, value):
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob):
        return self.base_dist.icdf(0.5 * (1 + prob))

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)
