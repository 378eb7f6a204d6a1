"""Constraints: the valid values of a parameter or a sample."""
from __future__ import annotations

import operator

import rushlight as torch

__all__ = ["Constraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property", "greater_than",
           "greater_than_eq", "half_open_interval", "independent",
           "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular",
           "MixtureSameFamilyConstraint", "multinomial", "nonnegative",
           "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer",
           "positive_semidefinite", "real", "real_vector", "simplex", "square",
           "stack", "symmetric", "unit_interval"]


class Constraint:
    """A region of values.  ``event_dim``: how many trailing dimensions one value has; ``is_discrete``: whether it is
    countable."""

    is_discrete = False
    event_dim = 0

    def check(self, value):
        """Return, for each value, whether it is in the region."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it contains")

    def __repr__(self):
        return f"{self._name()}()"

    def _name(self):
        return type(self).__name__.lstrip("_")


class _Dependent(Constraint):
    """A region that depends on other parameters: nothing can be checked without them."""

    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self):
        return self.known(self._is_discrete, "is_discrete")

    @property
    def event_dim(self):
        return self.known(self._event_dim, "event_dim")

    @staticmethod
    def known(value, name):
        if value is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        return _Dependent(is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
                          event_dim=self._event_dim if event_dim is NotImplemented else event_dim)

    def check(self, x):
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint) -> bool:
    """Whether a constraint is known only on an instance."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property that gives a constraint; on the class, a dependent constraint."""

    def __init__(self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn):
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _OverBase(Constraint):
    """A region that a base region makes."""

    def __init__(self, base_constraint):
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"base_constraint must be a Constraint, not {base_constraint!r}")
        self.base_constraint = base_constraint

    is_discrete = property(lambda self: self.base_constraint.is_discrete)
    event_dim = property(lambda self: self.base_constraint.event_dim)


class _IndependentConstraint(_OverBase):
    """All of the last dimensions must satisfy a base constraint."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        super().__init__(base_constraint)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    event_dim = property(lambda self: self.base_constraint.event_dim + self.reinterpreted_batch_ndims)

    def check(self, value):
        if value.dim() < self.event_dim:
            raise ValueError(
                f"a value of {self!r} has at least {self.event_dim} dimensions, and this one has shape "
                f"{tuple(value.shape)}")
        return _for_all(self.base_constraint.check(value), self.reinterpreted_batch_ndims)

    def __repr__(self):
        return f"{self._name()}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(_OverBase):
    """Values that every component of a mixture accepts."""

    def check(self, value):
        """Components may have different supports, so each value is checked against all, along a new dimension before
        its own."""
        return self.base_constraint.check(value.unsqueeze(-1 - self.event_dim)).all(-1)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_constraint!r})"


def widened(region, dims):
    """The region of values with ``dims`` more dimensions, whose entries are all in ``region``."""
    return independent(region, dims) if dims > 0 else region


def _for_all(truth, dims):
    """Whether all of the last ``dims`` dimensions are true."""
    return truth.flatten(-dims).all(-1) if dims else truth


class _Bounded(Constraint):
    """Numbers between bounds: ``compared`` names each bound and how a value compares with it.  Of a discrete region,
    integers only."""

    compared: dict

    def __init__(self, *bounds, **named):
        self.__dict__.update(zip(self.compared, bounds), **named)
        if vars(self).keys() != self.compared.keys():
            raise TypeError(
                f"{self._name()} takes {', '.join(self.compared)}, and was given {len(bounds)} bounds and "
                f"{', '.join(named) or 'no names'}")

    def check(self, value):
        inside = value % 1 == 0 if self.is_discrete else True
        for name, compare in self.compared.items():
            inside = compare(value, getattr(self, name)) & inside
        return inside

    def __repr__(self):
        return f"{self._name()}({', '.join([f'{name}={getattr(self, name)}' for name in self.compared])})"


class _GreaterThan(_Bounded):
    compared = {"lower_bound": operator.gt}


class _GreaterThanEq(_Bounded):
    compared = {"lower_bound": operator.ge}


class _LessThan(_Bounded):
    compared = {"upper_bound": operator.lt}


class _Interval(_Bounded):
    compared = {"lower_bound": operator.ge, "upper_bound": operator.le}


class _HalfOpenInterval(_Bounded):
    compared = {"lower_bound": operator.ge, "upper_bound": operator.lt}


class _IntegerGreaterThan(_GreaterThanEq):
    is_discrete = True


class _IntegerLessThan(_Bounded):
    is_discrete = True
    compared = {"upper_bound": operator.le}


class _IntegerInterval(_Interval):
    is_discrete = True


class _Real(Constraint):
    def check(self, value):
        return ~value.isnan()


class _Boolean(Constraint):
    is_discrete = True
    lower_bound, upper_bound = 0, 1

    def check(self, value):
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete, event_dim = True, 1

    def check(self, value):
        return boolean.check(value).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value):
        return (value >= 0).all(-1) & ((1 - value.sum(-1)).abs() < 1e-6)


class _Multinomial(_Bounded):
    is_discrete, event_dim = True, 1
    compared = {"upper_bound": operator.le}

    def check(self, value):
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)

    __repr__ = Constraint.__repr__


class _Square(Constraint):
    """Square matrices with successive checks: a region refines the one it extends, and is checked only if that one
    holds everywhere."""

    event_dim = 2

    def check(self, value):
        return torch.full(value.shape[:-2], value.size(-2) == value.size(-1))


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value):
        return _for_all(value.triu(1) == 0, 2)


class _LowerCholesky(_LowerTriangular):
    def check(self, value):
        return super().check(value) & (torch.diagonal(value, dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value):
        rounding = 10 * value.size(-1) * torch.finfo(value.dtype).eps  # of rows divided by their norm
        unit = (value.detach().norm(dim=-1) - 1).abs() <= rounding
        return super().check(value) & unit.all(-1)


class _Symmetric(_Square):
    def check(self, value):
        square = super().check(value)
        return _for_all(torch.isclose(value, value.mT, atol=1e-6), 2) if bool(square.all()) else square


class _PositiveSemidefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        return (torch.linalg.eigvalsh(value) >= 0).all(-1) if bool(symmetric.all()) else symmetric


class _PositiveDefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        return torch.linalg.cholesky_ex(value).info == 0 if bool(symmetric.all()) else symmetric


class _Joined(Constraint):
    """Constraints for parts of a tensor along ``dim``."""

    def __init__(self, cseq, dim=0, lengths=None):
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    is_discrete = property(lambda self: any(c.is_discrete for c in self.cseq))


    _inner_dim = property(lambda self: max([c.event_dim for c in self.cseq]))


class _Cat(_Joined):
    event_dim = property(lambda self: self._inner_dim)

    def check(self, value):
        pieces = value.split(self.lengths, self.dim)
        return torch.cat([c.check(piece) for c, piece in zip(self.cseq, pieces)], self.dim)


class _Stack(_Joined):
    event_dim = property(lambda self: self._inner_dim + (self.dim + self._inner_dim < 0))

    def check(self, value):
        return torch.stack([c.check(piece) for c, piece in zip(self.cseq, value.unbind(self.dim))], self.dim)


dependent, dependent_property, independent = _Dependent(), _DependentProperty, _IndependentConstraint
boolean, one_hot = _Boolean(), _OneHot()
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive, nonnegative = _GreaterThan(0.0), _GreaterThanEq(0.0)
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval, half_open_interval = _Interval, _HalfOpenInterval
simplex = _Simplex()
lower_triangular, lower_cholesky, corr_cholesky = _LowerTriangular(), _LowerCholesky(), _CorrCholesky()
square, symmetric, positive_semidefinite, positive_definite = (_Square(), _Symmetric(), _PositiveSemidefinite(),
                                                               _PositiveDefinite())
cat, stack = _Cat, _Stack
