"""Geometric: failures before the first success."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .distribution import checked
from .odds import Odds
from .utils import log_odds_density

__all__ = ["Geometric"]


class Geometric(Odds):
    """P(k) = (1 - probs) ** k * probs, for k = 0, 1, ..."""

    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        super().__init__(probs, logits, validate_args)
        if probs is not None and self._validate_args:
            self._require(constraints.greater_than(0.0), self.probs, "parameter probs", "satisfy the constraint")

    mean = property(lambda self: self.probs.reciprocal() - 1)
    mode = property(lambda self: torch.zeros_like(self.probs))
    variance = property(lambda self: self.mean / self.probs)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            u = self._draw(torch.rand, sample_shape, self.probs).clamp(min=torch.finfo(self.probs.dtype).tiny)
            return torch.floor(u.log() / torch.log1p(-self.probs))

    @checked
    def log_prob(self, value):
        return torch.special.xlog1py(value, -self.probs) + self.probs.log()

    def entropy(self):
        return -log_odds_density(self.logits, self.probs) / self.probs
