"""Distribution: parameters, shapes, validation and expansion, for all families alike."""
from __future__ import annotations

import functools
import warnings

import rushlight as torch
from .._src.core.advice import deprecated
from . import constraints
from .utils import as_tensors, lazy_property

__all__ = ["Distribution"]


def checked(method):
    """A method of values, which are validated before it where the distribution validates.

    >>> import rushlight as torch
    >>> torch.distributions.Exponential(1.0).log_prob(torch.tensor(2.0))
    tensor(-2.)
    """
    @functools.wraps(method)
    def of_value(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return method(self, value)

    return of_value


class Distribution:
    """A probability distribution over values of ``event_shape``, one for each place of ``batch_shape``.

    A subclass names its parameters and their regions in ``arg_constraints``, and the region of its values in
    ``support``. From these follow validation, ``repr`` and ``expand``.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    _alternatives: tuple = ()  # parameters that describe the same: one is given, the others follow from it
    _shared: tuple = ()  # tensors that serve every place of the batch, and so do not expand
    _regions: dict = {}  # of the parameters of a class and of those it extends

    @staticmethod
    def set_default_validate_args(value):
        """Whether distributions check parameters and values by default. ValueError for anything but a bool."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args() takes True or False, not {value!r}")
        Distribution._validate_args = value

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        own = vars(cls).get("arg_constraints")
        cls._regions = {**cls._regions, **own} if isinstance(own, dict) else cls._regions

    def __init__(self, batch_shape=torch.Size(), event_shape=torch.Size(), validate_args=None):
        self._batch_shape, self._event_shape = torch.Size(batch_shape), torch.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()
        super().__init__()

    # --- parameters ---------------------------------------------------------------------------------------------------
    def _enter(self, given, event_shape=(), validate_args=None):
        """The constructor of a family: keeps parameters by name (None: not given) as tensors over a common batch shape.

        ``arg_constraints`` says how many trailing dimensions one value of each parameter has.  ValueError for shapes or
        types that do not fit.
        """
        given = {name: value for name, value in given.items() if value is not None}
        self._check_alternatives(given)
        values = as_tensors(*given.values())
        event_dims = [self._event_dim(name) for name in given]
        for name, value, event_dim in zip(given, values, event_dims):
            if value.dim() < event_dim:
                raise ValueError(
                    f"`{name}` of {type(self).__name__} has shape {tuple(value.shape)}: it must be at least "
                    f"{('', 'one', 'two')[event_dim]}-dimensional")
        cuts = [value.dim() - event_dim for value, event_dim in zip(values, event_dims)]
        batch_shape = torch.broadcast_shapes(*[value.shape[:cut] for value, cut in zip(values, cuts)])
        for name, value, cut in zip(given, values, cuts):
            setattr(self, name, value.expand(batch_shape + value.shape[cut:]))
        Distribution.__init__(self, batch_shape, event_shape, validate_args)

    def _event_dim(self, name):
        return (self.arg_constraints if name in self.arg_constraints else self._regions)[name].event_dim

    def _check_alternatives(self, given):
        found = [name for name in self._alternatives if name in given]
        if self._alternatives and len(found) != 1:
            raise ValueError(
                f"{type(self).__name__} takes exactly one of {', '.join(self._alternatives)}, and was given "
                f"{' and '.join(found) or 'none'}")

    @property
    def _param(self):
        """The alternative that was given."""
        return vars(self)[[name for name in self._alternatives if name in vars(self)][0]]

    def _validate_parameters(self):
        """ValueError for parameters outside their regions."""
        try:
            regions = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self).__name__} has no `arg_constraints`, so its parameters are not checked: define them "
                f"({{}} for none) or pass validate_args=False")
            return
        for name, region in regions.items():
            follows = name not in vars(self) and isinstance(getattr(type(self), name, None), lazy_property)
            if not follows and not constraints.is_dependent(region):
                self._require(region, getattr(self, name), f"parameter {name}", "satisfy the constraint")

    def _require(self, region, value, what, wanted):
        if torch.compiler.is_compiling():  # a check would read numbers from a program that is still being written
            return
        if not bool(region.check(value).all()):
            raise ValueError(
                f"Expected {what} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution {self!r} to "
                f"{wanted} {region!r}, "
                f"but found invalid values:\n{value}")

    # --- shapes -------------------------------------------------------------------------------------------------------
    @property
    def batch_shape(self):
        """The shape of independent distributions."""
        return self._batch_shape

    @property
    def event_shape(self):
        """The shape of one value."""
        return self._event_shape

    def expand(self, batch_shape, _instance=None):
        """The same distribution over a larger batch.  NotImplementedError where a subclass keeps tensors that
        ``arg_constraints`` does not name.

        Parameters expand in front of their event dimensions, distributions inside it expand with it, all else stays.
        An ``_instance`` is one that a subclass fills, which then has such tensors from its own ``expand``.
        """
        new = type(self).__new__(type(self)) if _instance is None else _instance
        batch_shape = torch.Size(batch_shape)
        for name, value in vars(self).items():
            computed = isinstance(getattr(type(self), name, None), lazy_property) and name not in self._regions
            if not computed and name not in vars(new) and (_instance is None or self._expands(name, value)):
                setattr(new, name, self._over_batch(name, value, batch_shape))
        new._batch_shape = batch_shape
        return new

    def _expands(self, name, value):
        """Whether it is known how an attribute expands."""
        return (not isinstance(value, torch.Tensor) or name in self._shared or name in self.arg_constraints
                or name in self._regions)

    def _over_batch(self, name, value, batch_shape):
        if isinstance(value, Distribution):
            return value.expand(batch_shape + value.batch_shape[len(self._batch_shape):])
        if not isinstance(value, torch.Tensor) or name in self._shared:
            return value
        if not self._expands(name, value):
            raise NotImplementedError(
                f"{type(self).__name__} keeps a tensor {name!r} that its arg_constraints do not name: define "
                "expand(), or name it in _shared if no place of "
                "the batch has its own")
        return value.expand(batch_shape + value.shape[value.dim() - self._event_dim(name):])

    def _get_checked_instance(self, cls, _instance=None):
        """For ``expand`` of a subclass ``cls``: the instance to fill.  NotImplementedError for a subclass of it with a
        constructor, but no expand(), of its own."""
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"{type(self).__name__} has a constructor of its own, which expand() of {cls.__name__} cannot know: "
                "define expand() too")
        return type(self).__new__(type(self)) if _instance is None else _instance

    def _extended_shape(self, sample_shape=torch.Size()):
        return torch.Size(sample_shape) + self._batch_shape + self._event_shape

    # --- values -------------------------------------------------------------------------------------------------------
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
        """The expected value."""
        raise NotImplementedError(f"the mean of {type(self).__name__} is not defined")

    @property
    def mode(self):
        """The likeliest value."""
        raise NotImplementedError(f"the mode of {type(self).__name__} is not defined")

    @property
    def variance(self):
        """The expected square of the distance from the mean."""
        raise NotImplementedError(f"the variance of {type(self).__name__} is not defined")

    @property
    def stddev(self):
        """The square root of the variance."""
        return self.variance.sqrt()

    def _draw(self, sampler, sample_shape, like):
        """Numbers of a sampler such as ``torch.rand`` in the shape of samples, with the dtype of a parameter."""
        return sampler(self._extended_shape(sample_shape), dtype=like.dtype, device=like.device)

    def sample(self, sample_shape=torch.Size()):
        """Values [*sample_shape, *batch_shape, *event_shape] without gradient."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=torch.Size()):
        """Values whose gradient reaches the parameters.  NotImplementedError where there is none."""
        raise NotImplementedError(f"{type(self).__name__} has no reparameterised samples: use sample()")

    def sample_n(self, n):
        """Deprecated: ``sample((n,))``."""
        deprecated("sample_n(n)", "sample((n,))", FutureWarning)
        return self.sample((n,))

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
        """All values of a distribution with finitely many: [count, *batch_shape, *event_shape], with ``expand=False``
        [count, 1, ..., *event_shape]."""
        raise NotImplementedError(f"the values of {type(self).__name__} cannot be listed")

    def _enumerated(self, values, expand):
        """A list of values [count, *event_shape] in front of the batch dimensions."""
        values = values.reshape(values.shape[:1] + (1,) * len(self._batch_shape) + values.shape[1:])
        return values.expand(values.shape[:1] + self._batch_shape + self._event_shape) if expand else values

    def entropy(self):
        """The expected value of ``-log_prob``, in nats: [*batch_shape]."""
        raise NotImplementedError(f"the entropy of {type(self).__name__} is not defined")

    def perplexity(self):
        """exp of the entropy."""
        return torch.exp(self.entropy())

    def _validate_sample(self, value):
        """ValueError for values of a wrong shape or outside the support."""
        if not isinstance(value, torch.Tensor):
            raise ValueError(f"values of {type(self).__name__} must be tensors, not {type(value).__name__}")
        self._validate_shape(value)
        try:
            region = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self).__name__} has no `support`, so its values are not checked: define it, or pass "
                "validate_args=False")
            return
        self._require(region, value, "value argument", "be within the support")

    def _validate_shape(self, value):
        whole, cut = self._batch_shape + self._event_shape, value.dim() - len(self._event_shape)
        fits = value.shape[cut:] == self._event_shape
        if not fits or any(n != m and 1 not in (n, m) for n, m in zip(reversed(value.shape), reversed(whole))):
            raise ValueError(
                f"values of shape {tuple(value.shape)} do not fit {type(self).__name__} with batch_shape "
                f"{tuple(self._batch_shape)} and event_shape "
                f"{tuple(self._event_shape)}: the last dimensions must be the event's, and those before broadcast "
                "with the batch's")

    def __repr__(self):
        shown = [(name, vars(self)[name]) for name in self.arg_constraints if name in vars(self)]
        written = ", ".join([f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in shown])
        return f"{type(self).__name__}({written})"
