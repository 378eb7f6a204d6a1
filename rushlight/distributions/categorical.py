"""Categorical: one of several classes; and what the distributions built on it share."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .distribution import Distribution, checked
from .utils import lazy_property, logits_to_probs, probs_to_logits, through

__all__ = ["Categorical"]


class Categorical(Distribution):
    """Class k with probability ``probs[..., k]`` (normalised), or with log probability ``logits[..., k]`` up to a
    constant.

    >>> import rushlight as torch
    >>> torch.distributions.Categorical(torch.tensor([1.0, 3.0])).probs
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _alternatives = ("probs", "logits")
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        if probs is not None and probs.dim():
            probs = probs / probs.sum(-1, keepdim=True)
        if logits is not None and logits.dim():
            logits = logits - logits.logsumexp(-1, keepdim=True)
        self._enter({"probs": probs, "logits": logits}, validate_args=validate_args)

    _num_events = property(lambda self: self._param.size(-1))
    param_shape = property(lambda self: self._param.size())

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self):
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self):
        """The probability of each class."""
        return logits_to_probs(self.logits)

    mean = variance = property(lambda self: self._param.new_full(self._batch_shape, math.nan))
    mode = property(lambda self: self.probs.argmax(-1))

    def sample(self, sample_shape=torch.Size()):
        sample_shape = torch.Size(sample_shape)
        drawn = torch.multinomial(self.probs.detach().reshape(-1, self._num_events), sample_shape.numel(),
                                  replacement=True)
        return drawn.T.reshape(sample_shape + self._batch_shape)

    @checked
    def log_prob(self, value):
        place = value.long()
        shape = torch.broadcast_shapes(place.shape, self._batch_shape)
        logits = self.logits.expand(shape + (self._num_events,))
        return logits.gather(-1, place.expand(shape).unsqueeze(-1)).squeeze(-1)

    def entropy(self):
        # a class of probability 0 adds 0, not 0 * inf
        finite = self.logits.clamp(min=torch.finfo(self.logits.dtype).min)
        return -(self.probs * finite).sum(-1)

    def enumerate_support(self, expand=True):
        return self._enumerated(torch.arange(self._num_events), expand)


class OfClasses(Distribution):
    """A distribution of vectors over the classes of a Categorical, which it keeps."""

    arg_constraints = Categorical.arg_constraints

    def _enter_classes(self, probs, logits, validate_args):
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    probs, logits, _param, param_shape, _num_events = through("_categorical", "probs", "logits", "_param",
                                                              "param_shape", "_num_events")
