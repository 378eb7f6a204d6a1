"""Normal: the distribution of sums of many small effects."""
from __future__ import annotations

import math

import rushlight as torch
from .exp_family import ExponentialFamily
from .location_scale import LocationScale

__all__ = ["Normal"]
LOG_ROOT_2_PI = 0.5 * math.log(2 * math.pi)


class Normal(LocationScale, ExponentialFamily):
    """The normal distribution with mean ``loc`` and standard deviation ``scale``.

    >>> import rushlight as torch
    >>> torch.distributions.Normal(0.0, 1.0).log_prob(torch.tensor(0.0))
    tensor(-0.9189)
    """

    _mean_carrier_measure = 0

    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale.square())

    def _standard_sample(self, sample_shape):
        return self._draw(torch.randn, sample_shape, self.loc)

    def _standard_log_prob(self, z):
        return -0.5 * z.square() - LOG_ROOT_2_PI

    def _standard_cdf(self, z):
        return torch.special.ndtr(z)

    def _standard_icdf(self, probability):
        return torch.erfinv(2 * probability - 1) * math.sqrt(2)

    def _standard_entropy(self):
        return 0.5 + LOG_ROOT_2_PI

    @property
    def _natural_params(self):
        precision = self.scale.square().reciprocal()
        return self.loc * precision, -0.5 * precision

    def _log_normalizer(self, linear, quadratic):
        return 0.5 * torch.log(-math.pi / quadratic) - linear.square() / (4 * quadratic)
