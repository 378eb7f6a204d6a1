"""Beta: a random probability."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .dirichlet import Dirichlet
from .distribution import checked
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Beta"]


class Beta(ExponentialFamily):
    """Density proportional to x ** (concentration1 - 1) * (1 - x) ** (concentration0 - 1): the first of two Dirichlet
    probabilities."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        both = torch.stack(broadcast_all(concentration1, concentration0), dim=-1)
        self._dirichlet = Dirichlet(both, validate_args)
        super().__init__(both.shape[:-1], validate_args=validate_args)

    concentration1 = property(lambda self: self._dirichlet.concentration.select(-1, 0))
    concentration0 = property(lambda self: self._dirichlet.concentration.select(-1, 1))
    mean = property(lambda self: self._dirichlet.mean.select(-1, 0))
    mode = property(lambda self: self._dirichlet.mode.select(-1, 0))
    variance = property(lambda self: self._dirichlet.variance.select(-1, 0))

    def rsample(self, sample_shape=()):
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    @checked
    def log_prob(self, value):
        return self._dirichlet.log_prob(torch.stack([value, 1 - value], dim=-1))

    def entropy(self):
        return self._dirichlet.entropy()

    @property
    def _natural_params(self):
        return self.concentration1, self.concentration0

    def _log_normalizer(self, concentration1, concentration0):
        return self._dirichlet._log_normalizer(torch.stack([concentration1, concentration0], dim=-1))
