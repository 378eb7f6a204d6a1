"""Transform: an invertible map between regions; its inverse, several one after the other, and those of whole events."""
from __future__ import annotations

import copy
import functools
import weakref

import rushlight as torch
from . import constraints
from .utils import _sum_rightmost, lazy_property


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
        super().__init__()

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
