"""Chi2: the sum of squares of standard normal variables."""
from __future__ import annotations

from . import constraints
from .gamma import Gamma
from .utils import as_tensors

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The chi-squared distribution with ``df`` degrees of freedom: Gamma(df / 2, 1 / 2)."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df, validate_args=None):
        df, = as_tensors(df)
        super().__init__(df / 2, 0.5, validate_args)

    df = property(lambda self: 2 * self.concentration)
