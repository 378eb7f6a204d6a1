"""Distribution: what all of them share."""
from __future__ import annotations

import warnings

import rushlight as torch
from . import constraints
from .utils import lazy_property

__all__ = ["Distribution"]


class Distribution:
    """A probability distribution over values of ``event_shape``, one for each place of ``batch_shape``.

    A subclass names its parameters in ``arg_constraints`` (they are attributes) and its values in ``support``.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value):
        """Whether distributions check parameters and values from now on, where their constructor does not say."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args() takes True or False, not {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape=torch.Size(), event_shape=torch.Size(), validate_args=None):
        self._batch_shape, self._event_shape = torch.Size(batch_shape), torch.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self.check_parameters()
        super().__init__()

    def check_parameters(self):
        """ValueError for parameters outside their region."""
        try:
            regions = self.arg_constraints
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize the distribution with `validate_args=False` "
                          "to turn off validation.")
            return
        for name, region in regions.items():
            if constraints.is_dependent(region) or name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property):
                continue
            value = getattr(self, name)
            valid = region.check(value)
            if not bool(valid.all()):
                raise ValueError(f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                                 f"{region!r}, but found invalid values:\n{value}")

    # --- shapes -----------------------------------------------------------------------------------------------------------------
    @property
    def batch_shape(self):
        """The shape of independent distributions."""
        return self._batch_shape

    @property
    def event_shape(self):
        """The shape of one value."""
        return self._event_shape

    def expand(self, batch_shape, _instance=None):
        """The same distribution with its batch dimensions expanded."""
        new = self._get_checked_instance(type(self), _instance)
        batch_shape = torch.Size(batch_shape)
        for name, region in self.arg_constraints.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                new.__dict__[name] = value.expand(batch_shape + value.shape[value.dim() - region.event_dim:])
        self.expand_others(new, batch_shape)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def expand_others(self, new, batch_shape):
        """What else a subclass keeps goes to the expanded distribution here."""

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is not None:
            return _instance
        if type(self).__init__ != cls.__init__:
            raise NotImplementedError(f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also define a custom .expand() method.")
        return type(self).__new__(type(self))

    def _extended_shape(self, sample_shape=torch.Size()):
        return torch.Size(sample_shape) + self._batch_shape + self._event_shape

    # --- values -------------------------------------------------------------------------------------------------------------------
    @property
    def arg_constraints(self):
        """The region of each parameter, by name."""
        raise NotImplementedError(f"{type(self).__name__} does not define arg_constraints")

    @property
    def support(self):
        """The region of its values."""
        raise NotImplementedError(f"{type(self).__name__} does not define its support")

    @property
    def mean(self):
        raise NotImplementedError(f"the mean of {type(self).__name__} is not defined")

    @property
    def mode(self):
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self):
        raise NotImplementedError(f"the variance of {type(self).__name__} is not defined")

    @property
    def stddev(self):
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape=torch.Size()):
        """Values [*sample_shape, *batch_shape, *event_shape] without gradient."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=torch.Size()):
        """Values whose gradient reaches the parameters.  NotImplementedError where there is none."""
        raise NotImplementedError(f"{type(self).__name__} has no reparameterised samples: use sample()")

    def sample_n(self, n):
        """Deprecated: ``sample((n,))``."""
        warnings.warn("sample_n will be deprecated. Use .sample((n,)) instead", UserWarning, stacklevel=2)
        return self.sample(torch.Size((n,)))

    def log_prob(self, value):
        """The logarithm of the density or probability of values."""
        raise NotImplementedError(f"the density of {type(self).__name__} is not defined")

    def cdf(self, value):
        """The probability of a value up to this one."""
        raise NotImplementedError(f"the cumulative distribution of {type(self).__name__} is not defined")

    def icdf(self, value):
        """The value whose ``cdf`` is given."""
        raise NotImplementedError(f"the inverse cumulative distribution of {type(self).__name__} is not defined")

    def enumerate_support(self, expand=True):
        """All values of a distribution with finitely many: [count, *batch_shape, *event_shape]."""
        raise NotImplementedError(f"the values of {type(self).__name__} cannot be listed")

    def entropy(self):
        raise NotImplementedError(f"the entropy of {type(self).__name__} is not defined")

    def perplexity(self):
        """exp of the entropy."""
        return torch.exp(self.entropy())

    def _validate_sample(self, value):
        """ValueError for values of a wrong shape or outside the support."""
        if not isinstance(value, torch.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        at = value.dim() - len(self._event_shape)
        if value.shape[at:] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}.")
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(expected)):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}.")
        try:
            region = self.support
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define `support` to enable sample validation. Please initialize the distribution with `validate_args=False` to turn off "
                          "validation.")
            return
        if not bool(region.check(value).all()):
            raise ValueError(f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support ({region!r}) of the distribution "
                             f"{self!r}, but found invalid values:\n{value}")

    def __repr__(self):
        names = [n for n in self.arg_constraints if n in self.__dict__]
        return f"{type(self).__name__}({', '.join(f'{n}: {self.shown(self.__dict__[n])}' for n in names)})"

    @staticmethod
    def shown(value):
        return value if value.numel() == 1 else value.size()
