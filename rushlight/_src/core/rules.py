"""Rewrite rules of scalars.  Each states before -> after; none changes the rounding of a result or the sign of a zero.

A rule takes the arguments of an operation (and its result's dtype) and answers a simpler Expr, or None.
"""
from __future__ import annotations

import operator

from .dtypes import FLOATING, bool_, float16, float32, float64, int64
from .expr import Expr, FALSE, TRUE, number, truth

RULES: dict[str, list] = {}


def rule(*ops):
    """Enters a function among the rules of some operations."""

    def enter(function):
        for op in ops:
            RULES.setdefault(op, []).append(function)
        return function

    return enter


def simplify(op: str, args: tuple, arg, dtype) -> Expr | None:
    """The first answer of the operation's rules."""
    for one in RULES.get(op, ()):
        found = one(op, args, dtype)
        if found is not None:
            return found
    return None


@rule("logical_and", "logical_or")
def absorbed(op, args, dtype):
    """a and True -> a;  a and False -> False;  a and a -> a;  likewise of ``or``, with True and False exchanged.

    >>> from .expr import logical_and, lt, size
    >>> c = lt(size("s"), 9)
    >>> logical_and(c, TRUE) is c
    True
    """
    a, b = args
    neutral, absorbing = (TRUE, FALSE) if op == "logical_and" else (FALSE, TRUE)
    if a is b or b is neutral:
        return a
    if a is neutral:
        return b
    return absorbing if absorbing in (a, b) else None


@rule("logical_not")
def double_negation(op, args, dtype):
    """not not a -> a, and of a constant its opposite.

    >>> from .expr import logical_not, lt, size
    >>> c = lt(size("s"), 9)
    >>> logical_not(logical_not(c)) is c
    True
    """
    a, = args
    if a.dtype is not bool_:
        return None
    if a.op == "number":
        return truth(not a.arg)
    return a.args[0] if a.op == "logical_not" and a.args[0].dtype is bool_ else None


FOLDED = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "eq": operator.eq, "ne": operator.ne,
          "lt": operator.lt,
          "le": operator.le, "gt": operator.gt, "ge": operator.ge}


@rule(*FOLDED)
def folded(op, args, dtype):
    """2 + 3 -> 5 for 64-bit integers.

    >>> from .dtypes import int64
    >>> from .expr import number
    >>> number(2, int64) + number(3, int64)
    5
    """
    if not all(a.op == "number" and a.dtype is int64 for a in args):
        return None
    result = FOLDED[op](*(a.arg for a in args))
    if dtype is bool_:
        return truth(result)
    return number(result, dtype) if dtype is int64 and -1 << 63 <= result < 1 << 63 else None


@rule("where")
def chosen(op, args, dtype):
    """where(True, a, b) -> a;  where(False, a, b) -> b;  where(c, a, a) -> a.

    >>> from .expr import number, where
    >>> where(TRUE, number(1, float32), number(2, float32))
    1.0
    """
    condition, a, b = args
    if condition is TRUE or a is b:
        return a
    return b if condition is FALSE else None


@rule("neg")
def negated(op, args, dtype):
    """-(-a) -> a, exact for floats and for wrapping integers.

    >>> from .expr import apply, load
    >>> x = load("x", 0, float32)
    >>> -(-x) is x
    True
    """
    a, = args
    return a.args[0] if a.op == "neg" else None


@rule("mul", "div")
def by_one(op, args, dtype):
    """a * 1 -> a;  1 * a -> a;  a / 1 -> a.

    >>> from .expr import load
    >>> x = load("x", 0, float32)
    >>> (x * 1.0 is x, x / 1.0 is x)
    (True, True)
    """
    a, b = args
    if b.op == "number" and b.arg == 1 and b.dtype is not bool_:
        return a
    return b if op == "mul" and a.op == "number" and a.arg == 1 and a.dtype is not bool_ else None


@rule("sub")
def less_zero(op, args, dtype):
    """a - 0 -> a (but a + 0 stays for floats: -0.0 + 0.0 is 0.0).

    >>> from .expr import load
    >>> x = load("x", 0, float32)
    >>> x - 0.0 is x
    True
    """
    a, b = args
    return a if b.op == "number" and repr(b.arg) in ("0.0", "0") else None


@rule("add")
def plus_zero(op, args, dtype):
    """a + 0 -> a for integers.

    >>> from .dtypes import int64
    >>> from .expr import load
    >>> x = load("x", 0, int64)
    >>> x + 0 is x
    True
    """
    if dtype.category == FLOATING:
        return None
    a, b = args
    if b.op == "number" and b.arg == 0:
        return a
    return b if a.op == "number" and a.arg == 0 else None


EXACT = {(float16, float32), (float16, float64), (float32, float64)}


@rule("convert")
def converted(op, args, dtype):
    """convert(convert(a)) -> convert(a) where the inner step is exact, and convert to the own dtype -> a.

    Halves are held as float32 while computing, so a round trip through wider floats returns the same value.

    >>> from .expr import convert, load
    >>> x = load("x", 0, float32)
    >>> convert(convert(x, float64), float32) is x
    True
    """
    a, = args
    if a.dtype is dtype:
        return a
    if a.op == "convert" and (a.args[0].dtype, a.dtype) in EXACT:
        inner = a.args[0]
        return inner if inner.dtype is dtype else Expr("convert", (inner,), None, dtype)
    return None
