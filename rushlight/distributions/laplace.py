"""Laplace: two exponentials back to back."""
from __future__ import annotations

import math

import rushlight as torch
from .location_scale import LocationScale

__all__ = ["Laplace"]


class Laplace(LocationScale):
    """Density exp(-|x - loc| / scale) / (2 scale)."""

    stddev = property(lambda self: math.sqrt(2) * self.scale)
    variance = property(lambda self: 2 * self.scale.square())

    def _standard_sample(self, sample_shape):
        """Sample by the inverse CDF, which is infinite at 0: the smallest draw is kept above it."""
        u = self._draw(torch.rand, sample_shape, self.loc)
        return self._standard_icdf(u.clamp(min=torch.finfo(u.dtype).eps / 2))

    def _standard_log_prob(self, z):
        return -z.abs() - math.log(2)

    def _standard_cdf(self, z):
        return 0.5 * (1 - z.sign() * torch.expm1(-z.abs()))

    def _standard_icdf(self, probability):
        offset = 0.5 - probability
        return offset.sign() * torch.log1p(-2 * offset.abs())

    def _standard_entropy(self):
        return 1 + math.log(2)
