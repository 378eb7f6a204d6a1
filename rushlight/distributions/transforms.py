"""Transforms: invertible maps between regions, with the logarithm of how they stretch volume.

Here: those of numbers, and of the parts of a tensor.  What they have in common is in ``transform.py``.
"""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .event_transforms import (CorrCholeskyTransform, LowerCholeskyTransform, PositiveDefiniteTransform,
                               ReshapeTransform, SoftmaxTransform, StickBreakingTransform, _inside,
                               _log_slope_of_tanh, _softplus)
from .transform import (ComposeTransform, IndependentTransform, Transform, _InverseTransform,  # noqa: F401
                        identity_transform)
from .utils import _sum_rightmost, as_tensors

__all__ = ["AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
           "CumulativeDistributionTransform", "ExpTransform",
           "IndependentTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform",
           "ReshapeTransform", "SigmoidTransform", "SoftplusTransform",
           "TanhTransform", "SoftmaxTransform", "StackTransform", "StickBreakingTransform", "Transform",
           "identity_transform"]


class Elementwise(Transform):
    """y = function(x) for each number, by three functions: the ``function``, its ``inverse``, and ``log_slope(x, y)``,
    the logarithm of its derivative."""

    domain = constraints.real
    bijective, sign = True, 1
    _parameters = ()
    function: object
    inverse: object
    log_slope: object

    def _call(self, x):
        return type(self).function(x)

    def _inverse(self, y):
        return type(self).inverse(y)

    def log_abs_det_jacobian(self, x, y):
        return type(self).log_slope(x, y)


class ExpTransform(Elementwise):
    """y = exp(x)"""

    codomain = constraints.positive
    function, inverse, log_slope = torch.exp, torch.log, lambda x, y: x


def _clipped_sigmoid(x):
    """The sigmoid, kept away from 0 and 1."""
    return _inside(x.sigmoid())


class SigmoidTransform(Elementwise):
    """y = 1 / (1 + exp(-x))"""

    codomain = constraints.unit_interval
    function, inverse, log_slope = _clipped_sigmoid, lambda y: torch.logit(_inside(y)), lambda x, y: -_softplus(
        -x) - _softplus(x)


class SoftplusTransform(Elementwise):
    """y = log(1 + exp(x))"""

    codomain = constraints.positive
    function, inverse, log_slope = _softplus, lambda y: y + torch.log(-torch.expm1(-y)), lambda x, y: -_softplus(-x)


class TanhTransform(Elementwise):
    """y = tanh(x)"""

    codomain = constraints.interval(-1.0, 1.0)
    function, inverse, log_slope = torch.tanh, torch.atanh, _log_slope_of_tanh


class AbsTransform(Transform):
    """y = |x|, which two numbers share: ``inv`` gives the positive one."""

    domain, codomain = constraints.real, constraints.positive
    _parameters = ()

    def _call(self, x):
        return torch.abs(x)

    def _inverse(self, y):
        return y


class OfNumbers(Transform):
    """A transform of each number whose parameters broadcast with its values."""

    bijective = True

    def forward_shape(self, shape):
        shapes = [value.shape for value in [getattr(self, name) for name in self._parameters]
                  if isinstance(value, torch.Tensor)]
        return torch.broadcast_shapes(shape, *shapes)

    def inverse_shape(self, shape):
        return self.forward_shape(shape)


class PowerTransform(OfNumbers):
    """y = x ** exponent"""

    domain = codomain = constraints.positive
    _parameters = ("exponent",)

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size)
        self.exponent, = as_tensors(exponent)

    sign = property(lambda self: self.exponent.sign())

    def _call(self, x):
        return x ** self.exponent

    def _inverse(self, y):
        return y ** self.exponent.reciprocal()

    def log_abs_det_jacobian(self, x, y):
        return torch.log(torch.abs(self.exponent * y / x))


class AffineTransform(OfNumbers):
    """y = loc + scale * x, numbers or tensors; ``event_dim`` trailing dimensions make one value."""

    _parameters = ("loc", "scale")

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    event_dim = property(lambda self: self._event_dim)
    domain = codomain = constraints.dependent_property(lambda self: constraints.widened(constraints.real,
                                                                                        self._event_dim),
                                                       is_discrete=False)

    @property
    def sign(self):
        return self.scale.sign() if isinstance(self.scale, torch.Tensor) else (self.scale > 0) - (self.scale < 0)

    def _call(self, x):
        return self.scale * x + self.loc

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        slope = self.scale if isinstance(self.scale, torch.Tensor) else torch.full_like(x, self.scale)
        return _sum_rightmost(slope.abs().log().expand(torch.broadcast_shapes(slope.shape, x.shape)), self._event_dim)


class CumulativeDistributionTransform(Transform):
    """y = the distribution function of ``distribution`` at x: uniform if x is distributed so."""

    bijective, codomain, sign = True, constraints.unit_interval, 1

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support)

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)


class Joined(Transform):
    """Transforms of the parts of a tensor along ``dim``: subclasses say how it falls into parts, and how parts and
    regions join."""

    def __init__(self, tseq, dim, cache_size):
        super().__init__(cache_size)
        if not all([isinstance(part, Transform) for part in tseq]):
            raise AssertionError(f"parts are transformed by Transforms, not by {tseq!r}")
        self.transforms, self.dim = [part.with_cache(cache_size) for part in tseq] if cache_size else list(tseq), dim

    bijective = property(lambda self: all([part.bijective for part in self.transforms]))
    domain = constraints.dependent_property(lambda self: self._region([part.domain for part in self.transforms]))
    codomain = constraints.dependent_property(lambda self: self._region([part.codomain for part in self.transforms]))

    def _region(self, regions):
        raise NotImplementedError(f"{type(self).__name__} does not say how regions join")

    def _parts(self, value):
        raise NotImplementedError(f"{type(self).__name__} does not say what its parts are")

    def _joined(self, values):
        raise NotImplementedError(f"{type(self).__name__} does not say how parts join")

    def _checked(self, value, count):
        if not -value.dim() <= self.dim < value.dim() or value.size(self.dim) != count:
            raise ValueError(
                f"{type(self).__name__} transforms {count} places along dim {self.dim}, and the value has shape "
                f"{tuple(value.shape)}")
        return value

    def _call(self, x):
        return self._joined([part(piece) for part, piece in zip(self.transforms, self._parts(x))])

    def _inverse(self, y):
        return self._joined([part.inv(piece) for part, piece in zip(self.transforms, self._parts(y))])

    def _log_slopes(self, x, y):
        return [part.log_abs_det_jacobian(*pair)
                for part, *pair in zip(self.transforms, self._parts(x), self._parts(y))]


class CatTransform(Joined):
    """Transforms for pieces of ``lengths`` along ``dim``."""

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"{len(self.transforms)} transforms were given {len(self.lengths)} lengths")

    event_dim = property(lambda self: max([part.event_dim for part in self.transforms]))
    length = property(lambda self: sum(self.lengths))

    def _region(self, regions):
        return constraints.cat(regions, self.dim, self.lengths)

    def _parts(self, value):
        return self._checked(value, self.length).split(self.lengths, self.dim)

    def _joined(self, values):
        return torch.cat(values, self.dim)

    def log_abs_det_jacobian(self, x, y):
        """Joined along ``dim`` where that is a batch dimension, else summed."""
        slopes = [_sum_rightmost(slope, self.event_dim - part.event_dim)
                  for part, slope in zip(self.transforms, self._log_slopes(x, y))]
        dim = (self.dim if self.dim < 0 else self.dim - x.dim()) + self.event_dim
        return torch.cat(slopes, dim) if dim < 0 else sum(slopes)


class StackTransform(Joined):
    """Transforms for each place along ``dim``."""

    def __init__(self, tseq, dim=0, cache_size=0):
        super().__init__(tseq, dim, cache_size)

    def _region(self, regions):
        return constraints.stack(regions, self.dim)

    def _parts(self, value):
        return self._checked(value, len(self.transforms)).unbind(self.dim)

    def _joined(self, values):
        return torch.stack(values, self.dim)

    def log_abs_det_jacobian(self, x, y):
        return self._joined(self._log_slopes(x, y))
