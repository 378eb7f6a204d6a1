"""TransformedDistribution: a distribution seen through invertible maps."""
from __future__ import annotations

import functools

import rushlight as torch
from . import constraints
from .distribution import Distribution, checked
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost, through

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of ``transforms(x)`` (a transform or a list of them) for x of ``base_distribution``."""

    arg_constraints = {}

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms,
                          list) or not all([isinstance(transform, Transform) for transform in self.transforms]):
            raise ValueError(f"transforms must be a Transform or a list of them, not {transforms!r}")
        chain = ComposeTransform(self.transforms)
        needed, produced = chain.domain.event_dim, chain.codomain.event_dim
        self.base_dist = self._fitted(base_distribution, chain)
        shape = chain.forward_shape(self.base_dist.batch_shape + self.base_dist.event_shape)
        cut = len(shape) - produced - max(len(base_distribution.event_shape) - needed, 0)
        super().__init__(shape[:cut], shape[cut:], validate_args)

    @staticmethod
    def _fitted(base, chain):
        """The base distribution in a batch that the transforms do not expand, with at least as many event dimensions as
        they act on."""
        shape, event_dim, needed = base.batch_shape + base.event_shape, len(base.event_shape), chain.domain.event_dim
        if len(shape) < needed:
            raise ValueError(
                f"the transforms act on values of at least {needed} dimensions, and the base distribution has shape "
                f"{tuple(shape)}")
        whole = chain.inverse_shape(chain.forward_shape(shape))
        if whole != shape:
            base = base.expand(whole[:len(whole) - event_dim])
        return Independent(base, needed - event_dim) if needed > event_dim else base

    has_rsample, = through("base_dist", "has_rsample")

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        reached = self.transforms[-1].codomain
        return constraints.widened(reached, len(self._event_shape) - reached.event_dim)

    def _forward(self, x):
        return functools.reduce(lambda value, transform: transform(value), self.transforms, x)

    def _backward(self, y):
        return functools.reduce(lambda value, transform: transform.inv(value), reversed(self.transforms), y)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=torch.Size()):
        return self._forward(self.base_dist.rsample(sample_shape))

    @checked
    def log_prob(self, value):
        """The density of x by the base, less what each transform stretches volume there."""
        stretched, event_dim = 0.0, len(self._event_shape)
        for transform in reversed(self.transforms):
            x = transform.inv(value)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            stretched = stretched + _sum_rightmost(transform.log_abs_det_jacobian(x, value),
                                                   event_dim - transform.domain.event_dim)
            value = x
        return _sum_rightmost(self.base_dist.log_prob(value), event_dim - len(self.base_dist.event_shape)) - stretched

    def _monotonize_cdf(self, value):
        """A probability, from the other end where the transforms together decrease."""
        sign = functools.reduce(lambda sign, transform: sign * transform.sign, self.transforms, 1)
        return value if isinstance(sign, int) and sign == 1 else 0.5 + sign * (value - 0.5)

    def cdf(self, value):
        x = self._backward(value)
        if self._validate_args:
            self.base_dist._validate_sample(x)
        return self._monotonize_cdf(self.base_dist.cdf(x))

    def icdf(self, value):
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))
