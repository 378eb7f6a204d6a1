"""Binomial: how often yes came in a number of trials."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .distribution import checked
from .odds import Odds

__all__ = ["Binomial"]


class Binomial(Odds):
    """Successes in ``total_count`` trials with probability ``probs`` each."""

    arg_constraints = {"total_count": constraints.nonnegative_integer, **Odds.arg_constraints}
    has_enumerate_support = True

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self._enter({"total_count": total_count, "probs": probs, "logits": logits}, validate_args=validate_args)
        self.total_count = self.total_count.type_as(self._param)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    mean = property(lambda self: self.probs * self.total_count)
    mode = property(lambda self: torch.minimum(((1 + self.total_count) * self.probs).floor(), self.total_count))
    variance = property(lambda self: self.mean * (1 - self.probs))

    def sample(self, sample_shape=torch.Size()):
        over_samples = [parameter.detach().expand(self._extended_shape(sample_shape))
                        for parameter in (self.total_count, self.probs)]
        return torch.binomial(*over_samples)

    @checked
    def log_prob(self, value):
        n = self.total_count
        log_ways = torch.lgamma(n + 1) - torch.lgamma(value + 1) - torch.lgamma(n - value + 1)
        # -log(1 - probs), which overflows for neither sign
        softplus = self.logits.clamp(min=0) + torch.log1p(torch.exp(-self.logits.abs()))
        return log_ways + value * self.logits - n * softplus

    def _count(self):
        """The number of trials.  NotImplementedError where it varies over the batch."""
        count = int(self.total_count.max())
        if bool((self.total_count != count).any()):
            raise NotImplementedError(
                "the values of a Binomial are listed for one total_count, not for "
                f"{self.total_count.unique().tolist()}")
        return count

    def entropy(self):
        log_prob = self.log_prob(self.enumerate_support(expand=False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        return self._enumerated(torch.arange(self._count() + 1, dtype=self._param.dtype), expand)
