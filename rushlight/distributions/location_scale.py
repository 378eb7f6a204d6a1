"""Location and scale: families that are one standard variable, moved and stretched."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .distribution import Distribution, checked

__all__ = ["LocationScale"]


class LocationScale(Distribution):
    """loc + scale * z, for a variable z that is symmetric about 0: a family describes z alone, by the methods
    ``_standard_...``."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self._enter({"loc": loc, "scale": scale}, validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)

    def _standardised(self, value):
        return (value - self.loc) / self.scale

    def rsample(self, sample_shape=torch.Size()):
        return self.loc + self.scale * self._standard_sample(sample_shape)

    @checked
    def log_prob(self, value):
        return self._standard_log_prob(self._standardised(value)) - self.scale.log()

    @checked
    def cdf(self, value):
        return self._standard_cdf(self._standardised(value))

    def icdf(self, value):
        return self.loc + self.scale * self._standard_icdf(value)

    def entropy(self):
        return self._standard_entropy() + self.scale.log()

    def _standard_sample(self, sample_shape):
        raise NotImplementedError(f"{type(self).__name__} has no samples")

    def _standard_log_prob(self, z):
        raise NotImplementedError(f"the density of {type(self).__name__} is not defined")

    def _standard_cdf(self, z):
        raise NotImplementedError(f"the cumulative distribution of {type(self).__name__} is not defined")

    def _standard_icdf(self, probability):
        raise NotImplementedError(f"the inverse cumulative distribution of {type(self).__name__} is not defined")

    def _standard_entropy(self):
        raise NotImplementedError(f"the entropy of {type(self).__name__} is not defined")
