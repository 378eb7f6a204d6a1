"""Gumbel: the largest of many variables."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .distribution import checked
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """The Gumbel distribution with mode ``loc`` and width ``scale``: loc - scale * log(-log(u)) for u uniform."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        ends, log = torch.finfo(self.loc.dtype), ExpTransform().inv
        zero = torch.zeros_like(self.loc.detach())
        base = Uniform(zero + ends.tiny, zero + (1 - ends.eps), validate_args)
        super().__init__(base, [log, AffineTransform(0, -torch.ones_like(self.scale)), log,
                                AffineTransform(self.loc, -self.scale)], validate_args)

    mean = property(lambda self: self.loc + euler_constant * self.scale)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: self.scale * (math.pi / math.sqrt(6)))
    variance = property(lambda self: self.scale.square() * (math.pi ** 2 / 6))

    @checked
    def log_prob(self, value):
        z = (value - self.loc) / self.scale
        return -z - torch.exp(-z) - self.scale.log()

    def entropy(self):
        return 1 + euler_constant + self.scale.log()
