"""Operations of Exprs as expressions of a device's language: what all languages write alike."""

from __future__ import annotations


class Operation:
    """One operation being written: its operands ``x``, the type that computes it, and that of the result.

    A language has ``floats``, its types of floats, ``boolean``, that of truth values, and may have more of its own.
    """

    floats: tuple
    boolean: str

    def __init__(self, e, x, kind, result):
        self.e, self.x, self.kind, self.dtype, self.result = e, x, kind, e.args[-1].dtype, result
        self.is_float, self.is_truth = kind in self.floats, kind == self.boolean

    def as_truth(self, x: str) -> str:
        """An operand as a truth value."""
        raise NotImplementedError

    def stored(self, text: str) -> str:
        """Wrap an integer that is computed in a wider type to the width of its dtype."""
        return text


def infix(symbol):
    """Return the emitter of an infix operation."""
    return lambda o: o.stored(f"({o.x[0]} {symbol} {o.x[1]})")


def logical(symbol):
    """Return the emitter of an operation on two bools."""
    return lambda o: f"({o.as_truth(o.x[0])} {symbol} {o.as_truth(o.x[1])})"


def rounding(name):
    """Return the emitter of a rounding, which leaves integers unchanged."""
    return lambda o: f"{name}({o.x[0]})" if o.is_float else o.x[0]


def extreme(of_truths, of_floats, of_wholes):
    """Return the emitter of a minimum or maximum: a symbol for bools, names of functions for others."""
    def write(o):
        if o.is_truth:
            return f"({o.x[0]} {of_truths} {o.x[1]})"
        return f"{(of_floats if o.is_float else of_wholes).format(o.kind)}({', '.join(o.x)})"

    return write


def fused(name):
    """Return the emitter of a multiply-add, which rounds floats once."""
    return lambda o: f"{name}({', '.join(o.x)})" if o.is_float else o.stored(f"({o.x[0]} * {o.x[1]} + {o.x[2]})")


COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
