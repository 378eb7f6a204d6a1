"""From a region to a transform that reaches it: ``biject_to`` (one to one) and ``transform_to`` (perhaps with more
numbers than needed)."""
from __future__ import annotations

from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Factories of transforms by class of constraint."""

    def __init__(self):
        self._registry = {}

    def register(self, constraint, factory=None):
        """Enters ``factory(constraint) -> Transform``; a decorator without it.  TypeError for what is no constraint."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, constraints.Constraint)):
            raise TypeError(f"a transform is registered for a Constraint or a class of them, not for {constraint!r}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint):
        """A transform from unconstrained numbers to the region.  NotImplementedError for a region without one."""
        kind = type(constraint)
        if kind not in self._registry:
            raise NotImplementedError(
                f"no transform to {kind.__name__.lstrip('_')} is registered: register one with "
                f"register({kind.__name__})")
        return self._registry[kind](constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def always(make):
    """A factory that looks at nothing of the constraint."""
    return lambda constraint: make()


def is_number(bound, number):
    return isinstance(bound, (int, float)) and bound == number


def beyond(bound, direction):
    """exp(x) from a bound on, upwards (1) or downwards (-1)."""
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(bound, direction)])


def above(constraint):
    return transforms.ExpTransform() if is_number(constraint.lower_bound, 0) else beyond(constraint.lower_bound, 1)


def between(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if is_number(low, 0) and is_number(high, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


def of_parts(registry):
    """Factories for regions that are made of others, each reached by the same registry."""
    return {
        constraints.independent: lambda c: transforms.IndependentTransform(registry(c.base_constraint),
                                                                           c.reinterpreted_batch_ndims),
        constraints.cat: lambda c: transforms.CatTransform([registry(part) for part in c.cseq], c.dim, c.lengths),
        constraints.stack: lambda c: transforms.StackTransform([registry(part) for part in c.cseq], c.dim),
    }


EITHER_WAY = {
    constraints.real: lambda constraint: transforms.identity_transform,
    constraints.positive: above, constraints.nonnegative: above,
    constraints.less_than: lambda constraint: beyond(constraint.upper_bound, -1),
    constraints.interval: between, constraints.half_open_interval: between,
    constraints.corr_cholesky: always(transforms.CorrCholeskyTransform),
}
ONE_TO_ONE = {constraints.simplex: always(transforms.StickBreakingTransform)}
ONTO = {
    constraints.simplex: always(transforms.SoftmaxTransform),
    constraints.lower_cholesky: always(transforms.LowerCholeskyTransform),
    constraints.positive_definite: always(transforms.PositiveDefiniteTransform),
    constraints.positive_semidefinite: always(transforms.PositiveDefiniteTransform),
}
for registry, own in ((biject_to, ONE_TO_ONE), (transform_to, ONTO)):
    for region, factory in {**EITHER_WAY, **own, **of_parts(registry)}.items():
        registry.register(region, factory)
