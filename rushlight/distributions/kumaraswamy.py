"""Kumaraswamy: like Beta, with a distribution function in closed form."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


def moment(a, b, n):
    """The n-th moment of a Kumaraswamy variable."""
    beta = torch.lgamma(1 + n / a) + torch.lgamma(b) - torch.lgamma(1 + n / a + b)
    return b * torch.exp(beta)


class Kumaraswamy(TransformedDistribution):
    """Density a * b * x ** (a - 1) * (1 - x ** a) ** (b - 1) on [0, 1], a = concentration1, b = concentration0."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(torch.full_like(self.concentration0.detach(), 0), torch.full_like(self.concentration0.detach(), 1), validate_args=validate_args)
        super().__init__(base, self.steps(), validate_args=validate_args)

    def steps(self):
        return [PowerTransform(exponent=self.concentration0.reciprocal()), AffineTransform(loc=1.0, scale=-1.0), PowerTransform(exponent=self.concentration1.reciprocal())]

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Kumaraswamy, _instance)
        new.concentration1, new.concentration0 = self.concentration1.expand(batch_shape), self.concentration0.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    mean = property(lambda self: moment(self.concentration1, self.concentration0, 1))

    @property
    def mode(self):
        log_mode = (self.concentration0.reciprocal() * (-self.concentration0).log1p() - (-self.concentration0 * self.concentration1).log1p())
        log_mode = torch.where((self.concentration0 < 1) | (self.concentration1 < 1), float("nan"), log_mode)
        return log_mode.exp()

    @property
    def variance(self):
        return moment(self.concentration1, self.concentration0, 2) - torch.pow(self.mean, 2)

    def entropy(self):
        t1, t0 = 1 - self.concentration1.reciprocal(), 1 - self.concentration0.reciprocal()
        harmonic = torch.digamma(self.concentration0 + 1) + euler_constant
        return t0 + t1 * harmonic - torch.log(self.concentration1) - torch.log(self.concentration0)
