"""Independent: batch dimensions that count as dimensions of one value."""
from __future__ import annotations

from typing import Generic, TypeVar

import rushlight as torch
from . import constraints
from .distribution import Distribution
from .utils import _sum_rightmost, through

__all__ = ["Independent"]
D = TypeVar("D", bound=Distribution)


class Independent(Distribution, Generic[D]):
    """The last ``reinterpreted_batch_ndims`` batch dimensions of a distribution as event dimensions: log probabilities
    are summed over them."""

    arg_constraints = {}

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        batch_shape = base_distribution.batch_shape
        cut = len(batch_shape) - reinterpreted_batch_ndims
        if cut < 0:
            raise ValueError(
                f"reinterpreted_batch_ndims is {reinterpreted_batch_ndims}, and {base_distribution} has "
                f"{len(batch_shape)} batch dimensions: take at most these")
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(batch_shape[:cut], batch_shape[cut:] + base_distribution.event_shape, validate_args)

    has_rsample, mean, mode, variance = through("base_dist", "has_rsample", "mean", "mode", "variance")
    has_enumerate_support = property(lambda self: self.reinterpreted_batch_ndims == 0
                                     and self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self):
        return constraints.widened(self.base_dist.support, self.reinterpreted_batch_ndims)

    def sample(self, sample_shape=torch.Size()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=torch.Size()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return self._joint(self.base_dist.log_prob(value))

    def entropy(self):
        return self._joint(self.base_dist.entropy())

    def _joint(self, each):
        """Sum a quantity over independent parts."""
        return _sum_rightmost(each, self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand=True):
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError(
                "the values of Independent are all combinations of its parts' values: list those of base_dist and "
                "combine them")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
