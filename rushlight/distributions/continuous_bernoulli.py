"""ContinuousBernoulli: a density on [0, 1] where Bernoulli has two values."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .distribution import checked
from .exp_family import ExponentialFamily
from .odds import Odds
from .utils import broadcast_all, clamp_probs, lazy_property, log_odds_density

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(Odds, ExponentialFamily):
    """Density proportional to probs ** x * (1 - probs) ** (1 - x) on [0, 1] (Loaiza-Ganem and Cunningham 2019).

    ``lims``: between these probabilities, where its formulas are 0 / 0, series in ``probs - 0.5`` take over.
    """

    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        self._lims = lims
        super().__init__(probs, logits, validate_args)
        if probs is not None:
            self.probs = clamp_probs(self.probs)

    @lazy_property
    def probs(self):
        """1 / (1 + exp(-logits)), kept away from 0 and 1."""
        return clamp_probs(self.logits.sigmoid())

    def _away(self):
        """Return a mask where the formulas hold, and the probabilities, with the others moved to where they do."""
        low, high = self._lims
        far = (self.probs <= low) | (self.probs > high)
        return far, torch.where(far, self.probs, low)

    def log_constant(self):
        """The logarithm of what makes the density integrate to 1: log(2 artanh(1 - 2 p) / (1 - 2 p))."""
        far, p = self._away()
        exact = torch.log(torch.logit(p) / (2 * p - 1))
        square = (self.probs - 0.5).square()
        return torch.where(far, exact, math.log(2) + square * (4 / 3 + square * (104 / 45)))

    _cont_bern_log_norm = log_constant

    @property
    def mean(self):
        far, p = self._away()
        offset = self.probs - 0.5
        series = 0.5 + offset * (1 / 3 + offset.square() * (16 / 45))
        return torch.where(far, p / (2 * p - 1) - 1 / torch.logit(p), series)

    @property
    def variance(self):
        far, p = self._away()
        square = (self.probs - 0.5).square()
        series = 1 / 12 - square * (1 / 15 - square * (128 / 945))
        return torch.where(far, torch.logit(p) ** -2 - p * (1 - p) / (1 - 2 * p).square(), series)

    def rsample(self, sample_shape=torch.Size()):
        return self.icdf(self._draw(torch.rand, sample_shape, self.probs))

    @checked
    def log_prob(self, value):
        return self.log_constant() + log_odds_density(*broadcast_all(self.logits, value))

    @checked
    def cdf(self, value):
        far, p = self._away()
        exact = (p ** value * (1 - p) ** (1 - value) - (1 - p)) / (2 * p - 1)
        return torch.where(far, exact, value).clamp(0, 1)

    def icdf(self, value):
        far, p = self._away()
        exact = (torch.log1p(value * (2 * p - 1) - p) - torch.log1p(-p)) / torch.logit(p)
        return torch.where(far, exact, value)

    def entropy(self):
        log_odds, log_rest = torch.logit(self.probs), torch.log1p(-self.probs)
        return -self.mean * log_odds - log_rest - self.log_constant()

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, logits):
        """log((exp(logits) - 1) / logits), by its series near 0."""
        low, high = [4 * limit - 2 for limit in self._lims]
        far = (logits <= low) | (logits > high)
        away = torch.where(far, logits, low)
        series = logits / 2 + logits.square() / 24 - logits ** 4 / 2880
        return torch.where(far, torch.log(torch.expm1(away) / away), series)
