"""Dirichlet: random probabilities of several classes."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .distribution import checked
from .exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Density proportional to the product of x_k ** (concentration_k - 1); concentration: [*batch, k]."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration, validate_args=None):
        self._enter({"concentration": concentration}, concentration.shape[-1:], validate_args)

    _total = property(lambda self: self.concentration.sum(-1, keepdim=True))
    mean = property(lambda self: self.concentration / self._total)
    variance = property(lambda self: self.mean * (1 - self.mean) / (1 + self._total))

    @property
    def mode(self):
        """Proportional to what each concentration has above 1; where none has any, the corner of the largest."""
        above = torch.relu(self.concentration - 1)
        corner = torch.nn.functional.one_hot(self.concentration.argmax(-1), self._event_shape[0]).to(above)
        return torch.where((self.concentration < 1).all(-1, keepdim=True), corner, above / above.sum(-1, keepdim=True))

    def rsample(self, sample_shape=()):
        return torch._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    @checked
    def log_prob(self, value):
        return torch.xlogy(self.concentration - 1, value).sum(-1) - self._log_normalizer(self.concentration)

    def entropy(self):
        log_means = self.concentration.digamma() - self._total.digamma()
        return self._log_normalizer(self.concentration) - ((self.concentration - 1) * log_means).sum(-1)

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, concentration):
        return torch.lgamma(concentration).sum(-1) - torch.lgamma(concentration.sum(-1))
