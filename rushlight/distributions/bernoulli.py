"""Bernoulli: one yes or no."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .distribution import checked
from .exp_family import ExponentialFamily
from .odds import Odds
from .utils import broadcast_all, log_odds_density

__all__ = ["Bernoulli"]


class Bernoulli(Odds, ExponentialFamily):
    """1 with probability ``probs`` (log odds ``logits``), else 0."""

    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    mean = property(lambda self: self.probs)
    mode = property(lambda self: torch.where(self.probs == 0.5, math.nan, self.probs.round()))
    variance = property(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            return torch.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    @checked
    def log_prob(self, value):
        return log_odds_density(*broadcast_all(self.logits, value))

    def entropy(self):
        return -log_odds_density(self.logits, self.probs)

    def enumerate_support(self, expand=True):
        return self._enumerated(torch.arange(2, dtype=self._param.dtype), expand)

    @property
    def _natural_params(self):
        return (torch.logit(self.probs),)

    def _log_normalizer(self, logits):
        return torch.nn.functional.softplus(logits)
