"""Levels by functions of the epoch."""
from __future__ import annotations

import warnings

from .base_scheduler import BaseScheduler

__all__ = ["LambdaSL"]


class LambdaSL(BaseScheduler):
    """The first level times a function of the epoch: one for all groups, or a list.  ValueError for another count."""

    def __init__(self, sparsifier, sl_lambda, last_epoch=-1, verbose=False):
        groups = len(sparsifier.groups)
        if isinstance(sl_lambda, (list, tuple)) and len(sl_lambda) != groups:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(sl_lambda)}")
        self.sl_lambdas = list(sl_lambda) if isinstance(sl_lambda, (list, tuple)) else [sl_lambda] * groups
        super().__init__(sparsifier, last_epoch, verbose)

    def get_sl(self):
        if not self._get_sl_called_within_step:
            warnings.warn("To get the last sparsity level computed by the scheduler, please use `get_last_sl()`.",
                          stacklevel=2)
        return [base * function(self.last_epoch) for base, function in zip(self.base_sl, self.sl_lambdas)]
