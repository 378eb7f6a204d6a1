"""NegativeBinomial: successes before a number of failures."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .bernoulli import Binary, one_of
from .gamma import Gamma
from .utils import broadcast_all

__all__ = ["NegativeBinomial"]


class NegativeBinomial(Binary):
    """Successes, of probability ``probs`` each, before ``total_count`` failures."""

    arg_constraints = {"total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        one_of(probs, logits)
        name, value = ("probs", probs) if probs is not None else ("logits", logits)
        self.total_count, value = broadcast_all(total_count, value)
        self.total_count = self.total_count.type_as(value)
        setattr(self, name, value)
        super().__init__(value.size(), validate_args=validate_args)

    mean = property(lambda self: self.total_count * torch.exp(self.logits))
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0))
    variance = property(lambda self: self.mean / torch.sigmoid(-self.logits))

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            rate = Gamma(self.total_count, torch.exp(-self.logits), validate_args=False).sample(sample_shape)
            return torch.poisson(rate)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        log = torch.nn.functional.logsigmoid
        unnormalised = self.total_count * log(-self.logits) + value * log(self.logits)
        ways = -torch.lgamma(self.total_count + value) + torch.lgamma(1.0 + value) + torch.lgamma(self.total_count)
        ways = ways.masked_fill(self.total_count + value == 0.0, 0.0)
        return unnormalised - ways
