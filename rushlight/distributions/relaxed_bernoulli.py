"""RelaxedBernoulli: a yes or no that is smooth in its parameters."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .distribution import checked
from .odds import Odds
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import clamp_probs, through

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(Odds):
    """The log odds of a RelaxedBernoulli (Maddison, Mnih and Teh 2017)."""

    support = constraints.real
    has_rsample = True
    _shared = ("temperature",)

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape=torch.Size()):
        """The logits and logistic noise, sharpened."""
        u = clamp_probs(self._draw(torch.rand, sample_shape, self._param))
        return (torch.logit(u) + torch.logit(clamp_probs(self.probs))) / self.temperature

    @checked
    def log_prob(self, value):
        temperature = torch.as_tensor(self.temperature, dtype=value.dtype)
        z = self.logits - temperature * value
        return temperature.log() + z - 2 * torch.log1p(z.exp())


class RelaxedBernoulli(TransformedDistribution):
    """Values between 0 and 1 that come near either as ``temperature`` falls."""

    arg_constraints = Odds.arg_constraints
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args)

    temperature, probs, logits = through("base_dist", "temperature", "probs", "logits")
