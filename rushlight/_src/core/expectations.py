"""Operators' preconditions on sizes and numbers: checked immediately, or by the captured program when it runs."""
from __future__ import annotations

from .expr import Expr, eq, le
from .shape_env import ShapeEnv


def expect(condition, error):
    """Raise the result of ``error()`` unless a condition holds (a bool, or an Expr that is not decided yet). A
    data-dependent condition is checked by the captured program when it runs, and assumed afterwards."""
    if isinstance(condition, Expr) and condition.op != "number" and ShapeEnv.present() and ShapeEnv.current().postpones(
            condition, error):
        return
    if not condition:
        raise error()


def at_most(a, b):
    """a <= b, for ``expect``: a bool for numbers, an Expr that nothing was decided of where there are symbols."""
    return le(a, b) if isinstance(a, Expr) or isinstance(b, Expr) else a <= b


def expect_elements(sizes, error):
    """Raise the result of ``error()`` unless every size is at least 1, as ``expect`` does."""
    for size in sizes:
        expect(at_most(1, size), error)


def expect_counts(counts, error):
    """Raise the result of ``error()`` unless every number is at least 0, as ``expect`` does."""
    for count in counts:
        expect(at_most(0, count), error)


def equal(a, b):
    """a == b, for ``expect``: see ``at_most``."""
    return eq(a, b) if isinstance(a, Expr) or isinstance(b, Expr) else a == b
