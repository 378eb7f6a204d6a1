"""The older PassManager: functions of a module in an order that constraints allow."""
from __future__ import annotations

import functools
import logging


__all__ = ["PassManager", "inplace_wrapper", "log_hook", "loop_pass", "this_before_that_pass_constraint",
           "these_before_those_pass_constraint"]
log = logging.getLogger("torch.fx.passes.pass_manager")


def inplace_wrapper(fn):
    """A pass of a function that changes its argument."""
    @functools.wraps(fn)
    def run(gm, *args, **kwargs):
        fn(gm, *args, **kwargs)
        return gm

    return run


def log_hook(fn, level: int = logging.INFO):
    """A pass whose result is logged."""
    @functools.wraps(fn)
    def run(gm, *args, **kwargs):
        result = fn(gm, *args, **kwargs)
        log.log(level, "Ran pass %s\n Return value: %s", fn, result)
        return result

    return run


def loop_pass(base_pass, n_iter: int | None = None, predicate=None):
    """A pass run ``n_iter`` times, or while ``predicate`` of the module holds.  AssertionError unless one of them is
    given."""
    if (n_iter is None) == (predicate is None):
        raise AssertionError("Exactly one of `n_iter` or `predicate` must be specified.")

    @functools.wraps(base_pass)
    def run(source):
        left = n_iter
        while left != 0 if predicate is None else predicate(source):
            source, left = base_pass(source), left if left is None else left - 1
        return source

    return run


def this_before_that_pass_constraint(this, that):
    """The constraint that one pass comes before another."""
    return lambda a, b: not (a == that and b == this)


def these_before_those_pass_constraint(these, those):
    """The constraint that passes made of one function come before those made of another."""
    def unwrapped(one):
        while hasattr(one, "__wrapped__"):
            one = one.__wrapped__
        return one

    return lambda a, b: not (unwrapped(a) == those and unwrapped(b) == these)


class PassManager:
    """Runs passes in order; RuntimeError where a constraint forbids it."""

    def __init__(self, passes=None, constraints=None):
        self.passes, self.constraints, self._validated = list(passes or ()), list(constraints or ()), False

    def add_pass(self, _pass):
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint):
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes):
        self.passes = [one for one in self.passes if one.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target, _replacement):
        self.passes = [_replacement if one.__name__ == _target.__name__ else one for one in self.passes]
        self._validated = False

    def validate(self):
        """Check every constraint on every pair of passes."""
        for constraint in () if self._validated else self.constraints:
            for k, first in enumerate(self.passes):
                for second in self.passes[k + 1:]:
                    if not constraint(first, second):
                        raise RuntimeError(
                            f"pass schedule constraint violated. Expected {first} before {second} but found {second} "
                            f"at index {k} and {first} later in the list.")
        self._validated = True

    def __call__(self, source):
        self.validate()
        for one in self.passes:
            source = one(source)
        return source
