"""Levels that rise fast first, by a cubic polynomial (Zhu and Gupta 2017, "To prune, or not to prune")."""
from __future__ import annotations

import warnings

from .base_scheduler import BaseScheduler

__all__ = ["CubicSL"]


class CubicSL(BaseScheduler):
    """From ``init_sl`` at epoch ``init_t`` to the sparsifier's level after ``total_t`` steps of ``delta_t`` epochs;
    before, 0 (``initially_zero``) or ``init_sl``. Numbers, or lists with one for each group."""

    def __init__(self, sparsifier, init_sl=0.0, init_t=0, delta_t=10, total_t=100, initially_zero=False, last_epoch=-1,
                 verbose=False):
        self.sparsifier = sparsifier
        self.init_sl, self.init_t, self.delta_t, self.total_t, self.initially_zero = map(
            self._make_sure_a_list, (init_sl, init_t, delta_t, total_t, initially_zero))
        super().__init__(sparsifier, last_epoch, verbose)

    def get_sl(self):
        if not self._get_sl_called_within_step:
            warnings.warn("To get the last sparsity level computed by the scheduler, please use `get_last_sl()`.",
                          stacklevel=2)
        return [level(self.last_epoch, *row) for row in zip(self.base_sl, self.init_sl, self.init_t, self.delta_t,
                                                            self.total_t, self.initially_zero)]


def level(epoch, last, first, start, step, count, zero):
    """The level at an epoch."""
    if epoch < start:
        return 0 if zero else first
    share = max(0.0, 1 - (epoch - start) / (count * step))
    return max(min(last + (first - last) * share**3, max(first, last)), min(first, last))
