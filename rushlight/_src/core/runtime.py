"""Run-time scalars as an operator's body sees them while it is traced.

A body may compute with such a scalar, which becomes part of the program; compare it, which uses its current value and
adds a guard; or need its value (a size, an argument of ``math``), which fixes it. The program is valid for all scalars
that satisfy the guards.
"""
from __future__ import annotations

import math
import operator

from .dtypes import float64, int64
from .kinds import P
from .native import Tensor

WIDE = 1 << 63  # beyond the range of int64
ARITHMETIC = {"add": ("+", operator.add, "add"), "sub": ("-", operator.sub, "sub"), "mul": ("*", operator.mul, "mul"),
              "truediv": ("/", operator.truediv, "div"), "pow": ("**", operator.pow, "pow"),
              "floordiv": ("//", operator.floordiv, "floor_divide"), "mod": ("%", operator.mod, "remainder")}
FLOATS_ONLY, INTS_ONLY = {"pow"}, {"floordiv", "mod"}  # results that programs compute as Python does


def alike(value, wanted) -> bool:
    """True if two numbers have the same type and bits."""
    return type(value) is type(wanted) and repr(value) == repr(wanted)


class Conditions:
    """The guards on run-time scalars: ``tests`` (condition on the arguments ``a`` of the call: outcome), and the
    arguments that are ``fixed``."""

    def __init__(self):
        self.tests, self.fixed = {}, set()

    def each(self) -> list:
        """Every condition as Python text."""
        return [text if outcome else f"not {text}" for text, outcome in self.tests.items()]

    @property
    def text(self) -> str:
        """All of them as one; empty where any number will do."""
        return " and ".join(self.each())


def holds(text: str):
    """A predicate on a call's arguments that is True if the conditions hold; ``text`` was written by ``Conditions``."""
    scope = {"alike": alike}
    exec(f"def check(a):\n try:\n  return {text}\n except (ArithmeticError, ValueError):\n  return False", scope)
    return scope["check"]


class Known:
    """A run-time scalar: its ``value`` in the call that is planned, and its derivation from the arguments (``text``,
    ``sources``)."""

    __slots__ = ("value", "text", "sources", "conditions")

    def __init__(self, value, text: str, sources: frozenset, conditions: Conditions):
        self.value, self.text, self.sources, self.conditions = value, text, sources, conditions

    def fix(self):
        """Return the value, and guard on it."""
        self.conditions.fixed |= self.sources
        self.conditions.tests[f"alike({self.text}, {literal(self.value)})"] = True
        return self.value

    def decide(self, text: str, outcome: bool) -> bool:
        """Return the outcome of a condition, and guard on it."""
        self.conditions.tests[text] = outcome
        return outcome


def literal(value) -> str:
    """A number as Python text."""
    return f"float('{value}')" if type(value) is float and not math.isfinite(value) else repr(value)


def is_number(value) -> bool:
    """True if an operand promotes as Python's numbers do: a plain one, or one that is a Tensor while a program is
    traced (``weak``)."""
    return not isinstance(value, Tensor) or getattr(value, "weak", False)


def has_value(value) -> bool:
    """True if a body may compare an operand with others: a number (``is_number``) that is plain or a ``RunTime``.

    Validity checks of scalars use this predicate. ``isinstance(value, Tensor)`` is true for run-time scalars, so it may
    decide how something is computed, but not its validity.
    """
    return isinstance(value, RunTime) or not isinstance(value, Tensor)


def known_of(value) -> Known | None:
    """The Known of a scalar operand, run-time or plain; None for all others."""
    if isinstance(value, RunTime):
        return value.node.number
    return Known(value, literal(value), frozenset(), None) if type(value) in (bool, int, float) else None


def in_program(value, known: Known, dtype):
    """An operand as the program computes it, in float64 or int64."""
    if isinstance(value, RunTime):
        return value if value.dtype is dtype else P.convert(value, dtype=dtype)
    return type(0.0 if dtype is float64 else 0)(known.value)


def arithmetic(name: str):
    symbol, compute, primitive = ARITHMETIC[name]
    unlike = {int: name in FLOATS_ONLY, float: name in INTS_ONLY}

    def method(self, other):
        return combined(self, other, False)

    def reflected(self, other):
        return combined(self, other, True)

    def combined(self, other, turned):
        theirs = known_of(other)
        if theirs is None:
            above = super(RunTime, self)
            return getattr(above, f"__{'r' * turned}{name}__")(other)
        mine = self.node.number
        (x, a), (y, b) = ((other, theirs), (self, mine)) if turned else ((self, mine), (other, theirs))
        value = compute(a.value, b.value)
        if unlike.get(type(value), True) or type(value) is int and not -WIDE <= value < WIDE:
            return compute(*(k.fix() if k.sources else k.value for k in (a, b)))
        dtype = float64 if type(value) is float else int64
        made = getattr(P, primitive)(in_program(x, a, dtype), in_program(y, b, dtype))
        return made.told(Known(value, f"({a.text} {symbol} {b.text})", a.sources | b.sources, mine.conditions))

    return method, reflected


def comparison(symbol: str, compare):
    def method(self, other):
        theirs = known_of(other)
        mine = self.node.number
        if theirs is None:
            return NotImplemented if not hasattr(other, "_rush_meta") else getattr(super(RunTime, self),
                                                                                   method.__name__)(other)
        return mine.decide(f"({mine.text} {symbol} {theirs.text})", compare(mine.value, theirs.value))

    method.__name__ = f"__{compare.__name__}__"
    return method


def fixing(function):
    def method(self, *more):
        return function(self.node.number.fix(), *more)
    return method


class RunTime:
    """Python-number arithmetic for a run-time scalar, as a mixin of Traced."""

    weak = True
    __add__, __radd__ = arithmetic("add")
    __sub__, __rsub__ = arithmetic("sub")
    __mul__, __rmul__ = arithmetic("mul")
    __truediv__, __rtruediv__ = arithmetic("truediv")
    __pow__, __rpow__ = arithmetic("pow")
    __eq__, __ne__ = comparison("==", operator.eq), comparison("!=", operator.ne)
    __lt__, __le__ = comparison("<", operator.lt), comparison("<=", operator.le)
    __gt__, __ge__ = comparison(">", operator.gt), comparison(">=", operator.ge)
    __float__, __int__, __index__, __complex__ = fixing(float), fixing(int), fixing(operator.index), fixing(complex)
    __round__, __trunc__, __floor__, __ceil__ = fixing(round), fixing(math.trunc), fixing(math.floor), fixing(math.ceil)
    __floordiv__, __rfloordiv__ = arithmetic("floordiv")
    __mod__, __rmod__ = arithmetic("mod")
    item = fixing(lambda value: value)
    is_integer = fixing(lambda value: float(value).is_integer())

    def within(self, least, most) -> bool:
        """True if the number is between two others; adds one guard."""
        mine = self.node.number
        return mine.decide(f"({literal(least)} <= {mine.text} <= {literal(most)})", least <= mine.value <= most)

    def __hash__(self):
        return hash(self.node.number.fix())

    def __bool__(self):
        mine = self.node.number
        return mine.decide(f"bool({mine.text})", bool(mine.value))

    def __neg__(self):
        return 0 - self if type(self.node.number.value) is int else -1.0 * self

    def __pos__(self):
        return self

    def __abs__(self):
        return self if self >= 0 else -self

    def __format__(self, spec):
        return format(self.node.number.fix(), spec)
