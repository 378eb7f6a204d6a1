"""ContinuousBernoulli: values between 0 and 1, tilted towards one end."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .bernoulli import Binary
from .utils import broadcast_all, clamp_probs, lazy_property, probs_to_logits

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(Binary):
    """Density proportional to probs ** x * (1 - probs) ** (1 - x) on [0, 1] (Loaiza-Ganem and Cunningham 2019).

    ``lims``: between these probabilities, where its formulas are 0 / 0, series in ``probs - 0.5`` take over.
    """

    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        self.given(probs, logits)
        if probs is not None:
            if validate_args is not None and validate_args and not bool(constraints.unit_interval.check(self.probs).all()):
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand_others(self, new, batch_shape):
        new._lims = self._lims

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return clamp_probs(torch.sigmoid(self.logits))

    def outside(self):
        """Where the formulas hold, and the probabilities with the others moved to where they do."""
        far = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        return far, torch.where(far, self.probs, self._lims[0] * torch.ones_like(self.probs))

    def log_constant(self):
        """The logarithm of what makes the density integrate to 1."""
        far, p = self.outside()
        below = torch.where(p <= 0.5, p, torch.zeros_like(p))
        above = torch.where(p >= 0.5, p, torch.ones_like(p))
        exact = torch.log(torch.abs(torch.log1p(-p) - torch.log(p))) - torch.where(p <= 0.5, torch.log1p(-2.0 * below), torch.log(2.0 * above - 1.0))
        x = (self.probs - 0.5).pow(2)
        return torch.where(far, exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    _cont_bern_log_norm = log_constant

    @property
    def mean(self):
        far, p = self.outside()
        x = self.probs - 0.5
        return torch.where(far, p / (2.0 * p - 1.0) + 1.0 / (torch.log1p(-p) - torch.log(p)), 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x)

    @property
    def stddev(self):
        return torch.sqrt(self.variance)

    @property
    def variance(self):
        far, p = self.outside()
        x = (self.probs - 0.5).pow(2)
        exact = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / (torch.log1p(-p) - torch.log(p)).pow(2)
        return torch.where(far, exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=torch.Size()):
        return self.icdf(torch.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -torch.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none") + self.log_constant()

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        far, p = self.outside()
        exact = (torch.pow(p, value) * torch.pow(1.0 - p, 1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        unbounded = torch.where(far, exact, value)
        return torch.where(value <= 0.0, torch.zeros_like(unbounded), torch.where(value >= 1.0, torch.ones_like(unbounded), unbounded))

    def icdf(self, value):
        far, p = self.outside()
        exact = (torch.log1p(-p + value * (2.0 * p - 1.0)) - torch.log1p(-p)) / (torch.log(p) - torch.log1p(-p))
        return torch.where(far, exact, value)

    def entropy(self):
        log0, log1 = torch.log1p(-self.probs), torch.log(self.probs)
        return self.mean * (log0 - log1) - self.log_constant() - log0

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        far = (x <= 4 * self._lims[0] - 2) | (x > 4 * self._lims[1] - 2)
        away = torch.where(far, x, (4 * self._lims[0] - 2) * torch.ones_like(x))
        return torch.where(far, torch.log(torch.abs(torch.special.expm1(away))) - torch.log(torch.abs(away)), 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0)
