"""A probability or its log odds: what distributions of a yes or no share."""
from __future__ import annotations

from . import constraints
from .distribution import Distribution
from .utils import lazy_property, logits_to_probs, probs_to_logits

__all__ = ["Odds"]


class Odds(Distribution):
    """A distribution with the parameter ``probs``, the probability of 1, or ``logits``, its log odds."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    _alternatives = ("probs", "logits")

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._enter({"probs": probs, "logits": logits}, validate_args=validate_args)

    @lazy_property
    def logits(self):
        """log(probs / (1 - probs))"""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        """1 / (1 + exp(-logits))"""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self):
        """The shape of the parameter that was given."""
        return self._param.size()
