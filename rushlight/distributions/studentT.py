"""StudentT: a normal variable over the root of an independent chi-squared one."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .chi2 import Chi2
from .location_scale import LocationScale

__all__ = ["StudentT"]


class StudentT(LocationScale):
    """Student's t distribution with ``df`` degrees of freedom, moved by ``loc`` and stretched by ``scale``."""

    arg_constraints = {"df": constraints.positive, **LocationScale.arg_constraints}

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self._enter({"df": df, "loc": loc, "scale": scale}, validate_args=validate_args)

    mean = property(lambda self: torch.where(self.df > 1, self.loc, math.nan))
    mode = property(lambda self: self.loc)

    @property
    def variance(self):
        """scale^2 df / (df - 2); infinite down to df = 1, and below that not defined."""
        finite = self.scale.square() * self.df / (self.df - 2)
        return torch.where(self.df > 2, finite, torch.where(self.df > 1, math.inf, math.nan))

    def _standard_sample(self, sample_shape):
        squares = Chi2(self.df, validate_args=False).rsample(sample_shape)
        return self._draw(torch.randn, sample_shape, self.df) * torch.rsqrt(squares / self.df)

    def _log_beta(self):
        """log B(df / 2, 1 / 2)"""
        return torch.lgamma(self.df / 2) + math.lgamma(0.5) - torch.lgamma((self.df + 1) / 2)

    def _standard_log_prob(self, z):
        return -(self.df + 1) / 2 * torch.log1p(z.square() / self.df) - 0.5 * self.df.log() - self._log_beta()

    def _standard_entropy(self):
        more = (self.df + 1) / 2
        return more * (torch.digamma(more) - torch.digamma(self.df / 2)) + 0.5 * self.df.log() + self._log_beta()
