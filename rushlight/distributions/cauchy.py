"""Cauchy: the ratio of two normal variables."""
from __future__ import annotations

import math

import rushlight as torch
from .location_scale import LocationScale

__all__ = ["Cauchy"]


class Cauchy(LocationScale):
    """The Cauchy (Lorentz) distribution with median ``loc`` and half width ``scale``: it has no mean."""

    mean = property(lambda self: torch.full_like(self.loc, math.nan))
    mode = property(lambda self: self.loc)
    variance = property(lambda self: torch.full_like(self.loc, math.inf))

    def _standard_sample(self, sample_shape):
        return self._standard_icdf(self._draw(torch.rand, sample_shape, self.loc))

    def _standard_log_prob(self, z):
        return -math.log(math.pi) - torch.log1p(z.square())

    def _standard_cdf(self, z):
        return 0.5 + torch.atan(z) / math.pi

    def _standard_icdf(self, probability):
        return torch.tan((probability - 0.5) * math.pi)

    def _standard_entropy(self):
        return math.log(4 * math.pi)
