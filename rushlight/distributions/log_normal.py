"""LogNormal: exp of a normal variable."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import through

__all__ = ["LogNormal"]


class LogNormal(TransformedDistribution):
    """exp(x) for x normal with mean ``loc`` and standard deviation ``scale``."""

    arg_constraints = Normal.arg_constraints
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    loc, scale = through("base_dist", "loc", "scale")
    mean = property(lambda self: torch.exp(self.loc + 0.5 * self.scale.square()))
    mode = property(lambda self: torch.exp(self.loc - self.scale.square()))
    variance = property(lambda self: self.mean.square() * torch.expm1(self.scale.square()))

    def entropy(self):
        return self.loc + self.base_dist.entropy()
