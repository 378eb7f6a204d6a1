"""Users' constraints on sizes: dynamic with bounds, or static."""
from __future__ import annotations

import collections
import re

from ..core.expr import Expr
from ..core.nodes import evaluate
from .errors import ConstraintViolationError


STATIC = "a function that it calls does not accept dynamic sizes"


class ShapeConstraint(collections.namedtuple("ShapeConstraint", "low high strict")):
    """A size is dynamic, from ``low`` to ``high`` (None: without bound); ``strict``: it is an error if the program
    fixes it."""


class VaryingInt(int):
    """An int argument that varies between calls; ``constraint`` is its ShapeConstraint."""

    def __new__(cls, value: int, constraint: ShapeConstraint):
        made = super().__new__(cls, value)
        made.constraint = constraint
        return made


def dimensions(tensor, index) -> set:
    """Return the dimensions of a tensor that None (all), a number or several refer to; those that it has."""
    rank = tensor.dim()
    chosen = range(rank) if index is None else (index,) if isinstance(index, int) else index
    return {k % rank for k in chosen if -rank <= k < rank}


def constraints_of(tensor) -> dict:
    """Return {dimension: ShapeConstraint} of a tensor."""
    return getattr(tensor, "_dynamic_sizes", {})


def constrain(tensor, index, made: ShapeConstraint):
    """Record a ShapeConstraint for some dimensions of a tensor."""
    tensor._dynamic_sizes = {**constraints_of(tensor), **dict.fromkeys(dimensions(tensor, index), made)}
    tensor._static_sizes = still(tensor) - dimensions(tensor, index)


def keep(tensor, index):
    """Mark some sizes of a tensor as static."""
    tensor._static_sizes = still(tensor) | dimensions(tensor, index)
    tensor._dynamic_sizes = {k: made for k, made in constraints_of(tensor).items() if k not in tensor._static_sizes}


def still(tensor) -> frozenset:
    """Return the dimensions that are marked static."""
    return getattr(tensor, "_static_sizes", frozenset())


def checked(machine) -> dict:
    """Return {source of a size marked dynamic: whether it may vary}.  ConstraintViolationError if the program needs a
    single value of it."""
    found, names = {}, machine.entry.places[0].locals + machine.entry.places[0].cells
    for text, (expr, made) in machine.guarding.constrained.items():
        size = evaluate(expr, machine.shape_env.hints) if isinstance(expr, Expr) else expr
        if made.low is not None and size < made.low or made.high is not None and size > made.high:
            raise ConstraintViolationError(
                f"{named(text, names)} is {size}, which is not in range [{made.low}, "
                f"{'oo' if made.high is None else made.high}] that mark_dynamic() gave for it")
        fixing = fixed(machine, next(iter(expr.free))) if isinstance(expr, Expr) else STATIC
        found[text] = not fixing
        if fixing and made.strict:
            error = ConstraintViolationError(
                f"Constraints violated: {named(text, names)} was marked as varying, but the program needs it to be "
                f"{size}: {named(fixing, names)}. "
                "Take the mark away, use maybe_mark_dynamic(), or do not decide by this size.")
            error.constraint = made
            raise error
    return found


def fixed(machine, symbol) -> str:
    """Return the guard that leaves only one value for a symbol; empty if other values satisfy all guards, with or
    without the other symbols changing alike."""
    hints = machine.shape_env.hints
    guards = [(condition, outcome) for condition, outcome in machine.shape_env.guards if symbol in condition.free]
    now = hints[symbol]
    others = [now + k for k in (1, 2, 3, 4, 8, -1, -2)] + [now * k for k in (2, 3, 4, 8)] + [now // 2]
    for other in (o for o in others if o >= symbol.low and o != now):
        for values in ({**hints, symbol: other}, {s: v + other - now for s, v in hints.items()},
                       {s: v * other // now for s, v in hints.items()} if now else {**hints, symbol: other}):
            if all(bool(evaluate(condition, values)) is outcome for condition, outcome in guards):
                return ""
    return " and ".join(f"({machine.guarding.expression(condition)}) is {outcome}" for condition, outcome in guards)


def named(text, names) -> str:
    """Return a guard with the program's variables instead of indices among the values of an entry."""
    return re.sub(r"V\[(\d+)\]", lambda found: names[int(found[1])] if int(found[1]) < len(names) else found[0], text)
