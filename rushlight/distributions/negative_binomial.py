"""NegativeBinomial: successes before a number of failures."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .distribution import checked
from .gamma import Gamma
from .odds import Odds

__all__ = ["NegativeBinomial"]


class NegativeBinomial(Odds):
    """Successes, of probability ``probs`` each, before ``total_count`` failures."""

    arg_constraints = {"total_count": constraints.nonnegative, "probs": constraints.half_open_interval(0.0, 1.0),
                       "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        self._enter({"total_count": total_count, "probs": probs, "logits": logits}, validate_args=validate_args)
        self.total_count = self.total_count.type_as(self._param)

    mean = property(lambda self: self.total_count * self.logits.exp())
    mode = property(lambda self: torch.floor((self.total_count - 1).clamp(min=0) * self.logits.exp()))
    variance = property(lambda self: self.mean * (1 + self.logits.exp()))

    def sample(self, sample_shape=torch.Size()):
        """Poisson counts whose rate is a gamma variable."""
        with torch.no_grad():
            return torch.poisson(Gamma(self.total_count, torch.exp(-self.logits),
                                       validate_args=False).sample(sample_shape))

    @checked
    def log_prob(self, value):
        n, log_sigmoid = self.total_count, torch.nn.functional.logsigmoid
        log_ways = torch.lgamma(n + value) - torch.lgamma(n) - torch.lgamma(1 + value)
        log_ways = log_ways.masked_fill(n + value == 0, 0)  # no trials at all: one way
        return log_ways + value * log_sigmoid(self.logits) + n * log_sigmoid(-self.logits)
