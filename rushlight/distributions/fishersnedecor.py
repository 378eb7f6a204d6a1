"""FisherSnedecor: the ratio of two chi-squared variables."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .utils import broadcast_all

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The F distribution with ``df1`` and ``df2`` degrees of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1, df2, validate_args=None):
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self):
        return torch.where(self.df2 > 2, self.df2 / (self.df2 - 2), float("nan"))

    @property
    def mode(self):
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return torch.where(self.df1 > 2, mode, float("nan"))

    @property
    def variance(self):
        rest = self.df2 - 4
        variance = 2 * self.df2.pow(2) * (self.df1 + self.df2 - 2) / (self.df1 * (self.df2 - 2).pow(2) * rest)
        return torch.where(rest > 0, variance, float("nan"))

    def rsample(self, sample_shape=torch.Size()):
        above = Gamma(self.df1 * 0.5, self.df1, validate_args=False).rsample(sample_shape)
        below = Gamma(self.df2 * 0.5, self.df2, validate_args=False).rsample(sample_shape)
        tiny = torch.finfo(below.dtype).tiny
        return (above / below.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        one, two, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        constant = (one + two).lgamma() - one.lgamma() - two.lgamma()
        return constant + one * ratio.log() + (one - 1) * torch.log(value) - (one + two) * torch.log1p(ratio * value)
