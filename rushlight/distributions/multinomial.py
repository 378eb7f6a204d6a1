"""Multinomial: how often each class came in a number of trials."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .binomial import Binomial
from .categorical import OfClasses
from .distribution import checked

__all__ = ["Multinomial"]


class Multinomial(OfClasses):
    """Counts of the classes of a Categorical in ``total_count`` (an int) trials."""

    total_count: int

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError(
                f"total_count of a Multinomial is one int for the whole batch, not {total_count!r}")
        self.total_count = total_count
        self._enter_classes(probs, logits, validate_args)

    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.mean * (1 - self.probs))

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    def sample(self, sample_shape=torch.Size()):
        trials = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        counts = self._param.new_zeros(trials.shape[:-1] + self._event_shape)
        return counts.scatter_add(-1, trials, torch.ones_like(trials, dtype=counts.dtype))

    def entropy(self):
        """n H(class) - log n! + the sum over classes of E log k!, whose counts k are binomial."""
        counts = Binomial(self.total_count, probs=self.probs, validate_args=False)
        k = counts.enumerate_support(expand=False)
        expected = (counts.log_prob(k).exp() * torch.lgamma(k + 1)).sum((0, -1))
        return self.total_count * self._categorical.entropy() - math.lgamma(self.total_count + 1) + expected

    @checked
    def log_prob(self, value):
        impossible = (value == 0) & self.logits.isneginf()
        terms = torch.where(impossible, 0, value * self.logits) - torch.lgamma(value + 1)
        return torch.lgamma(value.sum(-1) + 1) + terms.sum(-1)
