"""Transforms: invertible maps between regions, with the logarithm of how they stretch volume."""
from __future__ import annotations

import copy
import functools
import math
import weakref

import rushlight as torch
from . import constraints
from .utils import _sum_rightmost, as_tensors, lazy_property, tril_matrix_to_vec, vec_to_tril_matrix

__all__ = ["AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
           "CumulativeDistributionTransform", "ExpTransform",
           "IndependentTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform",
           "ReshapeTransform", "SigmoidTransform", "SoftplusTransform",
           "TanhTransform", "SoftmaxTransform", "StackTransform", "StickBreakingTransform", "Transform",
           "identity_transform"]


class Transform:
    """A differentiable map.  Subclasses define ``domain``, ``codomain``, ``_call``, ``_inverse`` and
    ``log_abs_det_jacobian``.

    ``cache_size=1`` keeps the last pair of values, so that inverting what was just computed costs nothing and loses
    nothing.  A subclass that names its parameters in ``_parameters`` compares by them; others are equal to themselves
    alone.
    """

    bijective = False
    domain: constraints.Constraint
    codomain: constraints.Constraint
    _parameters: tuple | None = None

    def __init__(self, cache_size=0):
        if cache_size not in (0, 1):
            raise ValueError(
                f"cache_size is {cache_size!r}: a transform keeps no pair of values (0) or the last one (1)")
        self._cache_size, self._inv = cache_size, None
        self._cached_x_y = None, None

    def __getstate__(self):
        return {**vars(self), "_inv": None}

    @property
    def event_dim(self):
        """How many dimensions one value has.  ValueError where a value and its image differ in that."""
        before, after = self.domain.event_dim, self.codomain.event_dim
        if before != after:
            raise ValueError(
                f"{type(self).__name__} takes values of {before} dimensions to values of {after}: ask "
                ".domain.event_dim or .codomain.event_dim")
        return before

    @property
    def inv(self):
        """The inverse transform."""
        inverse = self._inv and self._inv()
        if inverse is None:
            inverse = self._inverted()
            self._inv = weakref.ref(inverse)
        return inverse

    def _inverted(self):
        return _InverseTransform(self)

    @property
    def sign(self):
        """Whether it increases (1) or decreases (-1), where it is monotone."""
        raise NotImplementedError(f"{type(self).__name__} is not monotone in one variable")

    def with_cache(self, cache_size=1):
        """The same transform, and the transforms in it, with another cache size."""
        if self._cache_size == cache_size:
            return self
        found = copy.copy(self)
        Transform.__init__(found, cache_size)
        for name, value in vars(found).items():
            if isinstance(value, Transform):
                setattr(found, name, value.with_cache(cache_size))
            elif isinstance(value, list) and all([isinstance(part, Transform) for part in value]):
                setattr(found, name, [part.with_cache(cache_size) for part in value])
        return found

    def __eq__(self, other):
        if self is other or self._parameters is None or type(self) is not type(other):
            return self is other
        return all([_same(getattr(self, name), getattr(other, name)) for name in self._parameters])

    __hash__ = object.__hash__

    def __call__(self, x):
        """The image of x."""
        known, y = self._cached_x_y
        if self._cache_size == 0 or x is not known:
            y = self._remembered(x, self._call(x))[1]
        return y

    def _inv_call(self, y):
        x, known = self._cached_x_y
        if self._cache_size == 0 or y is not known:
            x = self._remembered(self._inverse(y), y)[0]
        return x

    def _remembered(self, x, y):
        if self._cache_size:
            self._cached_x_y = x, y
        return x, y

    def _call(self, x):
        raise NotImplementedError(f"{type(self).__name__} does not say how it maps")

    def _inverse(self, y):
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x, y):
        """log |det dy/dx| at pairs of values."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it stretches volume")

    def forward_shape(self, shape):
        """The shape of results for values of a shape."""
        return shape

    def inverse_shape(self, shape):
        """The shape of values for results of a shape."""
        return shape

    def __repr__(self):
        return f"{type(self).__name__}()"


def _same(a, b):
    """Whether two parameters are equal: transforms, lists of them, numbers and tensors."""
    return a == b if isinstance(a, (Transform, list, tuple)) else bool(torch.as_tensor(a == b).all())


class _InverseTransform(Transform):
    """A transform the other way round."""

    _parameters = ("_inv",)

    def __init__(self, transform):
        super().__init__(transform._cache_size)
        self._inv = transform

    domain = property(lambda self: self._inv.codomain)
    codomain = property(lambda self: self._inv.domain)
    bijective = property(lambda self: self._inv.bijective)
    sign = property(lambda self: self._inv.sign)
    inv = property(lambda self: self._inv)

    def __getstate__(self):
        return vars(self)

    def with_cache(self, cache_size=1):
        return self._inv.with_cache(cache_size).inv

    def __call__(self, x):
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x, y):
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape):
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self._inv.forward_shape(shape)

    def __repr__(self):
        return f"_InverseTransform({self._inv!r})"


class ComposeTransform(Transform):
    """Transforms one after the other."""

    _parameters = ("parts",)

    def __init__(self, parts, cache_size=0):
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return self._end([(part.domain, part.codomain) for part in reversed(self.parts)])

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return self._end([(part.codomain, part.domain) for part in self.parts])

    @staticmethod
    def _end(steps):
        """The region at the last of (near, far) steps, with as many event dimensions as the widest step needs there."""
        if not steps:
            return constraints.real
        event_dim = steps[0][1].event_dim
        for near, far in steps:
            event_dim = max(event_dim + near.event_dim - far.event_dim, near.event_dim)
        region = steps[-1][0]
        return constraints.widened(region, event_dim - region.event_dim)

    @lazy_property
    def bijective(self):
        """Whether all parts are."""
        return all([part.bijective for part in self.parts])

    @lazy_property
    def sign(self):
        """The product of the parts' signs."""
        return functools.reduce(lambda sign, part: sign * part.sign, self.parts, 1)

    def _inverted(self):
        inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
        inverse._inv = weakref.ref(self)
        return inverse

    def __call__(self, x):
        return functools.reduce(lambda value, part: part(value), self.parts, x)

    def log_abs_det_jacobian(self, x, y):
        total, event_dim = 0.0, self.domain.event_dim
        for place, part in enumerate(self.parts):
            image = y if part is self.parts[-1] and place == len(self.parts) - 1 else part(x)
            total = total + _sum_rightmost(part.log_abs_det_jacobian(x, image), event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
            x = image
        return total if self.parts else torch.zeros_like(x)

    def forward_shape(self, shape):
        return functools.reduce(lambda shape, part: part.forward_shape(shape), self.parts, shape)

    def inverse_shape(self, shape):
        return functools.reduce(lambda shape, part: part.inverse_shape(shape), reversed(self.parts), shape)

    def __repr__(self):
        return "ComposeTransform(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last batch dimensions count as event dimensions."""

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform.with_cache(
            cache_size), reinterpreted_batch_ndims

    bijective = property(lambda self: self.base_transform.bijective)
    sign = property(lambda self: self.base_transform.sign)

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    def _call(self, x):
        _split(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y):
        _split(y.shape, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x, y):
        each = self.base_transform.log_abs_det_jacobian(x, y)
        return _sum_rightmost(each, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape):
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape):
        return self.base_transform.inverse_shape(shape)

    def __repr__(self):
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


def _split(shape, event_dim):
    """A shape as the batch's and the event's.  ValueError for one with too few dimensions."""
    if len(shape) < event_dim:
        raise ValueError(f"too few dimensions: a value has {event_dim}, and the shape is {tuple(shape)}")
    cut = len(shape) - event_dim
    return shape[:cut], shape[cut:]


class OfEvents(Transform):
    """A transform of whole vectors or matrices: ``_image`` and ``_origin`` say the shape of one value, the batch
    stays."""

    def _image(self, event):
        return event

    def _origin(self, event):
        return event

    def forward_shape(self, shape):
        batch, event = _split(torch.Size(shape), self.domain.event_dim)
        return batch + self._image(event)

    def inverse_shape(self, shape):
        batch, event = _split(torch.Size(shape), self.codomain.event_dim)
        return batch + self._origin(event)


class ReshapeTransform(OfEvents):
    """The last dimensions in another shape.  ValueError for shapes with different numbers of elements."""

    bijective = True
    _parameters = ("in_shape", "out_shape")

    def __init__(self, in_shape, out_shape, cache_size=0):
        super().__init__(cache_size)
        self.in_shape, self.out_shape = torch.Size(in_shape), torch.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(
                f"in_shape {tuple(in_shape)} and out_shape {tuple(out_shape)} have different numbers of elements")

    domain = constraints.dependent_property(lambda self: constraints.independent(constraints.real, len(self.in_shape)))
    codomain = constraints.dependent_property(lambda self: constraints.independent(constraints.real,
                                                                                   len(self.out_shape)))

    def _image(self, event):
        return self._exchanged(event, self.in_shape, self.out_shape)

    def _origin(self, event):
        return self._exchanged(event, self.out_shape, self.in_shape)

    @staticmethod
    def _exchanged(event, old, new):
        if event != old:
            raise ValueError(f"a value has shape {tuple(event)} where {tuple(old)} is reshaped")
        return new

    def _call(self, x):
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y):
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x, y):
        return x.new_zeros(_split(x.shape, len(self.in_shape))[0])


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


def _inside(probability):
    """A probability kept from rounding to 0 or 1."""
    ends = torch.finfo(probability.dtype)
    return probability.clamp(ends.tiny, 1 - ends.eps)


def _softplus(x):
    return torch.nn.functional.softplus(x)


def _log_slope_of_tanh(x, y=None):
    """log(1 - tanh(x)^2), without cancellation."""
    return 2 * (math.log(2) - x - _softplus(-2 * x))


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


class SoftmaxTransform(OfEvents):
    """y = softmax(x): a vector on the simplex, which many share; ``inv`` gives log(y)."""

    domain, codomain = constraints.real_vector, constraints.simplex
    _parameters = ()

    def _call(self, x):
        return x.softmax(-1)

    def _inverse(self, y):
        return y.log()


class StickBreakingTransform(OfEvents):
    """k real numbers as a vector of k + 1 on the simplex: each takes a part of what the ones before left."""

    domain, codomain = constraints.real_vector, constraints.simplex
    bijective = True
    _parameters = ()

    def _image(self, event):
        return torch.Size((event[0] + 1,))

    def _origin(self, event):
        return torch.Size((event[0] - 1,))

    @staticmethod
    def _log_waiting(like):
        """The logarithm of how many parts come after each of a vector's: moved by it, zeros give equal parts."""
        return torch.arange(like.size(-1), 0, -1, dtype=like.dtype).log()

    def _call(self, x):
        taken = _inside(torch.sigmoid(x - self._log_waiting(x)))
        left = torch.cumprod(1 - taken, -1)
        one = torch.ones_like(x[..., :1])
        return torch.cat([taken, one], -1) * torch.cat([one, left], -1)

    def _inverse(self, y):
        parts = y[..., :-1]
        left = (1 - parts.cumsum(-1)).clamp(min=torch.finfo(y.dtype).tiny)
        return torch.log(parts / left) + self._log_waiting(parts)

    def log_abs_det_jacobian(self, x, y):
        """The logarithms of each part and of what it leaves of the stick."""
        moved = x - self._log_waiting(x)
        return (y[..., :-1].log() - _softplus(moved)).sum(-1)


class CorrCholeskyTransform(OfEvents):
    """n (n - 1) / 2 real numbers as the Cholesky factor of an n x n correlation matrix (Lewandowski, Kurowicka and Joe
    2009).

    Their tanh are partial correlations: in a row, each takes its part of the length, at most 1, that the ones before
    left.
    """

    domain, codomain = constraints.real_vector, constraints.corr_cholesky
    bijective = True
    _parameters = ()

    def _image(self, event):
        n = (1 + math.isqrt(1 + 8 * event[0])) // 2
        if n * (n - 1) // 2 != event[0]:
            raise ValueError(f"{event[0]} numbers are not the entries below a diagonal: that would be n (n - 1) / 2")
        return torch.Size((n, n))

    def _origin(self, event):
        if event[0] != event[1]:
            raise ValueError(f"a correlation factor is square, and this value has shape {tuple(event)}")
        return torch.Size((event[0] * (event[0] - 1) // 2,))

    @staticmethod
    def _left(kept):
        """What each entry of a row finds, from what the entries up to it leave."""
        return torch.cat([torch.ones_like(kept[..., :1]), kept[..., :-1]], -1)

    def _call(self, x):
        edge = 1 - torch.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(-edge, edge), diag=-1)
        left = self._left(torch.sqrt(1 - partial.square()).cumprod(-1))
        return left * (partial + torch.eye(partial.size(-1), dtype=x.dtype))

    def _inverse(self, y):
        squares_left = self._left(1 - y.square().cumsum(-1))
        return torch.atanh(tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(squares_left, -1).sqrt())

    def log_abs_det_jacobian(self, x, y, intermediates=None):
        squares_left = tril_matrix_to_vec(1 - y.square().cumsum(-1), -2)
        return _log_slope_of_tanh(x).sum(-1) + squares_left.log().sum(-1) / 2


class LowerCholeskyTransform(OfEvents):
    """A matrix as a lower triangular one with positive diagonal."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky
    _parameters = ()

    def _call(self, x):
        return self._with_diagonal(x, torch.exp)

    def _inverse(self, y):
        return self._with_diagonal(y, torch.log)

    @staticmethod
    def _with_diagonal(matrix, function):
        return torch.tril(matrix, -1) + torch.diag_embed(function(matrix.diagonal(dim1=-2, dim2=-1)))


class PositiveDefiniteTransform(OfEvents):
    """A matrix as a positive definite one: the square of a Cholesky factor."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite
    _parameters = ()

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(torch.linalg.cholesky(y))


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
