"""Bernoulli: one trial."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits

__all__ = ["Bernoulli"]


def one_of(probs, logits):
    """Checks that exactly one of the two was given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class Binary(ExponentialFamily):
    """What distributions with the parameter ``probs`` or its log odds ``logits`` share."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    _mean_carrier_measure = 0

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def _param(self):
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.logits

    @property
    def param_shape(self):
        """The shape of the parameter that was given."""
        return self._param.size()

    def given(self, probs, logits):
        """Enters the parameter that was given, as a tensor."""
        one_of(probs, logits)
        name, value = ("probs", probs) if probs is not None else ("logits", logits)
        setattr(self, name, broadcast_all(value)[0])


class Bernoulli(Binary):
    """1 with probability ``probs`` (log odds ``logits``), else 0."""

    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self.given(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    @property
    def mode(self):
        return torch.where(self.probs == 0.5, float("nan"), (self.probs >= 0.5).to(self.probs))

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            return torch.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -torch.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self):
        return torch.nn.functional.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand=True):
        values = torch.arange(2, dtype=self._param.dtype).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values

    @property
    def _natural_params(self):
        return (torch.logit(self.probs),)

    def _log_normalizer(self, x):
        return torch.log1p(torch.exp(x))
