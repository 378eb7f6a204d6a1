"""OneHotCategorical: one of several classes, as a vector."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .categorical import OfClasses
from .distribution import checked

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(OfClasses):
    """Vectors with a single 1, at place k with probability ``probs[..., k]``."""

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._enter_classes(probs, logits, validate_args)

    mean = property(lambda self: self.probs)
    mode = property(lambda self: self._one_hot(self._categorical.mode))
    variance = property(lambda self: self.probs * (1 - self.probs))

    def _one_hot(self, places):
        return torch.nn.functional.one_hot(places, self._num_events).to(self._param)

    def sample(self, sample_shape=torch.Size()):
        return self._one_hot(self._categorical.sample(sample_shape))

    @checked
    def log_prob(self, value):
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self):
        return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        return self._enumerated(torch.eye(self._num_events, dtype=self._param.dtype), expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """As OneHotCategorical; the gradient of a sample is that of the probabilities (Bengio et al. 2013)."""

    has_rsample = True

    def rsample(self, sample_shape=torch.Size()):
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
