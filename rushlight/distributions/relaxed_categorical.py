"""RelaxedOneHotCategorical: one of several classes, smooth in its parameters."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .categorical import OfClasses
from .distribution import checked
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import clamp_probs, through

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(OfClasses):
    """The logarithm of a RelaxedOneHotCategorical (Maddison, Mnih and Teh 2017)."""

    support = constraints.real_vector
    has_rsample = True
    _shared = ("temperature",)

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        self._enter_classes(probs, logits, validate_args)

    def rsample(self, sample_shape=torch.Size()):
        """The logits and Gumbel noise, sharpened and normalised."""
        u = clamp_probs(self._draw(torch.rand, sample_shape, self._param))
        return torch.log_softmax((self.logits - torch.log(-u.log())) / self.temperature, dim=-1)

    @checked
    def log_prob(self, value):
        temperature, count = torch.as_tensor(self.temperature, dtype=value.dtype), self._num_events
        shares = torch.log_softmax(self.logits - temperature * value, dim=-1)
        return shares.sum(-1) + math.lgamma(count) + (count - 1) * temperature.log()


class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors on the simplex that come near its corners as ``temperature`` falls."""

    arg_constraints = OfClasses.arg_constraints
    support = constraints.simplex
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits, validate_args), ExpTransform(),
                         validate_args)

    temperature, probs, logits = through("base_dist", "temperature", "probs", "logits")
