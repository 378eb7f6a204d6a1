"""FisherSnedecor: the ratio of two mean squares."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .distribution import Distribution, checked
from .gamma import Gamma

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The F distribution with ``df1`` and ``df2`` degrees of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1, df2, validate_args=None):
        self._enter({"df1": df1, "df2": df2}, validate_args=validate_args)

    @property
    def mean(self):
        return torch.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self):
        return torch.where(self.df1 > 2, (1 - 2 / self.df1) * (self.df2 / (self.df2 + 2)), math.nan)

    @property
    def variance(self):
        """2 mean^2 (df1 + df2 - 2) / (df1 (df2 - 4)), from df2 = 4 on."""
        found = 2 * self.mean.square() * (self.df1 + self.df2 - 2) / (self.df1 * (self.df2 - 4))
        return torch.where(self.df2 > 4, found, math.nan)

    def rsample(self, sample_shape=torch.Size()):
        over, under = [Gamma(df / 2, df, validate_args=False).rsample(sample_shape) for df in (self.df1, self.df2)]
        smallest = torch.finfo(under.dtype).tiny
        return torch.clamp(over / under.clamp(min=smallest), min=smallest)

    @checked
    def log_prob(self, value):
        a, b, odds = self.df1 / 2, self.df2 / 2, value * self.df1 / self.df2
        log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
        return a * odds.log() - value.log() - (a + b) * odds.log1p() - log_beta
