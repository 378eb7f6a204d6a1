"""ShapeEnv: decisions that depend on sizes, made by example values and noted as guards."""
from __future__ import annotations

import operator
import threading

from .nodes import Node, evaluate


class Active(threading.local):
    """The active ShapeEnvs of a thread, the innermost last."""

    def __init__(self):
        self.stack = []


class ShapeEnv:
    """Decides conditions that algebra leaves open, from example values of the symbols, and records them as guards.

    ``guards`` lists (condition, outcome): the program made under this ShapeEnv is valid wherever they have the same
    outcome.

    >>> from .expr import size
    >>> s = size("s")
    >>> with ShapeEnv({s: 10}) as shape_env:
    ...     s > 7
    True
    >>> shape_env.guards
    [(7 < s, True)]
    """

    _active = Active()

    def __init__(self, hints=None):
        self.hints, self.guards, self._known, self.programs = dict(hints or {}), [], {}, {}
        self.estimating = False  # True if scalars that only affect results may be estimates: see ``estimated``

    @classmethod
    def known_programs(cls, otherwise: dict) -> dict:
        """The programs compiled under the active ShapeEnv, which may depend on its guards; ``otherwise`` if there are
        no guards."""
        return cls._active.stack[-1].programs if cls._active.stack else otherwise

    @classmethod
    def current(cls) -> "ShapeEnv":
        if not cls._active.stack:
            raise RuntimeError("the value of a symbolic size is needed, but no example values are known here")
        return cls._active.stack[-1]

    @classmethod
    def present(cls) -> bool:
        """True if a ShapeEnv is active."""
        return bool(cls._active.stack)

    def __enter__(self):
        ShapeEnv._active.stack.append(self)
        return self

    def __exit__(self, *exception):
        ShapeEnv._active.stack.remove(self)

    def decide(self, condition: Node) -> bool:
        """True if the condition holds for the example values; recorded once."""
        outcome = self._known.get(condition)
        if outcome is None:
            outcome = self._known[condition] = bool(evaluate(condition, self.hints))
            self.guards.append((condition, outcome))
        return outcome

    def integer(self, e: Node) -> int:
        """The value of e for the example values; adds a guard that e equals it."""
        value = evaluate(e, self.hints)
        self.decide(e.equals(value))
        return value

    def real(self, symbol: str, a, b):
        """A non-integral function of sizes, for the example values; these become guards unless only shapes are
        computed."""
        if self.estimating:
            return REAL[symbol](evaluate(a, self.hints), evaluate(b, self.hints))
        return REAL[symbol](*(self.integer(e) if isinstance(e, Node) else e for e in (a, b)))

    def postpones(self, condition: Node, error) -> bool:
        """True if a check is postponed until the program runs: see ``expect``."""
        return False


def guess(e):
    """The value of an integer for the example values, without a guard: for heuristics, which affect speed, not
    results."""
    return evaluate(e, ShapeEnv.current().hints) if isinstance(e, Node) else e


REAL = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
        "**": operator.pow}


def real(symbol: str, a, b):
    """Arithmetic on integers that gives a float, such as a / b: by the active ShapeEnv."""
    return ShapeEnv.current().real(symbol, a, b)


def estimated(e):
    """A scalar operand as a number if only shapes are computed, since any number of its kind is valid then; else
    unchanged."""
    if isinstance(e, Node) and ShapeEnv._active.stack and ShapeEnv._active.stack[-1].estimating:
        return evaluate(e, ShapeEnv._active.stack[-1].hints)
    return e


def decide(condition) -> bool:
    """A condition as a bool: by algebra, else by the active ShapeEnv (RuntimeError without)."""
    if condition.op == "number":
        return bool(condition.arg)
    return ShapeEnv.current().decide(condition)
