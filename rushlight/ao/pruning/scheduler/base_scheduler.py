"""Base class of schedulers of sparsity."""
from __future__ import annotations

import warnings
import weakref
from functools import wraps

from ..sparsifier.base_sparsifier import BaseSparsifier

__all__ = ["BaseScheduler"]


class BaseScheduler:
    """Sets ``sparsity_level`` of a sparsifier's groups, at each ``step`` to what ``get_sl`` gives.

    TypeError for what is no sparsifier.
    """

    def __init__(self, sparsifier, last_epoch=-1, verbose=False):
        if not isinstance(sparsifier, BaseSparsifier):
            raise TypeError(f"{type(sparsifier).__name__} is not an instance of torch.ao.pruning.BaseSparsifier")
        self.sparsifier, self.last_epoch, self.verbose = sparsifier, last_epoch, verbose
        self.base_sl = [group["sparsity_level"] for group in sparsifier.groups]
        sparsifier.step = counted(sparsifier)
        sparsifier._step_count, self._step_count = 0, 0
        self._get_sl_called_within_step, self._last_sl = False, list(self.base_sl)
        self.step()

    def state_dict(self) -> dict:
        """Everything but the sparsifier."""
        return {key: value for key, value in vars(self).items() if key != "sparsifier"}

    def load_state_dict(self, state_dict: dict):
        vars(self).update(state_dict)

    def get_last_sl(self) -> list:
        """The levels that were set last."""
        return self._last_sl

    def get_sl(self) -> list:
        """The levels of the groups now; subclasses define it."""
        raise NotImplementedError

    def print_sl(self, is_verbose, group, sl, epoch=None):
        """Prints a level, if wanted."""
        if is_verbose:
            print(f"Adjusting sparsity level of group {group} to {sl:.4e}." if epoch is None
                  else f"Epoch {epoch:5d}: adjusting sparsity level of group {group} to {sl:.4e}.")

    def __repr__(self):
        return f"{type(self).__name__} (\n\nSparsifier {self.sparsifier}\n    base_sl: {self.base_sl}\n)"

    def step(self, epoch=None):
        """One epoch more: sets the levels."""
        if self._step_count == 1 and self.sparsifier._step_count < 1:
            warnings.warn("Detected call of `scheduler.step()` before `sparsifier.step()`. You have to make sure you "
                          "run the sparsifier.step() BEFORE any calls to the scheduler.step().", UserWarning,
                          stacklevel=2)
        self._step_count += 1
        self._get_sl_called_within_step = True
        try:
            self.last_epoch += 1
            levels = self.get_sl()
        finally:
            self._get_sl_called_within_step = False
        for k, (group, level) in enumerate(zip(self.sparsifier.groups, levels)):
            group["sparsity_level"] = level
            self.print_sl(self.verbose, k, level, epoch)
        self._last_sl = [group["sparsity_level"] for group in self.sparsifier.groups]
        self.sparsifier.enable_mask_update = True

    def _make_sure_a_list(self, var):
        """A list with an entry for each group.  ValueError for another count."""
        groups = self.sparsifier.groups
        if not isinstance(var, (list, tuple)):
            return [var] * len(groups)
        if len(var) != len(groups):
            raise ValueError(f"Expected variable of length {len(groups)}, but got {len(var)}")
        return list(var)


def counted(sparsifier):
    """The sparsifier's ``step``, which counts its calls."""
    step, reference = type(sparsifier).step, weakref.ref(sparsifier)

    @wraps(step)
    def call(*args, **kwargs):
        owner = reference()
        owner._step_count += 1
        return step(owner, *args, **kwargs)

    return call
