"""Floats that vary between calls, as framework code gets them."""
from __future__ import annotations

from ..core.dtypes import FLOATING
from ..core.expr import Expr

NUMBERS = (int, float, Expr)


class Real:
    """A float of the program that varies between calls.

    Computation on it is Python's arithmetic on the inputs, and a decision on it becomes a guard.  An operator accepts
    it at run time; if its value is read, it is fixed.
    """

    __slots__ = ("machine", "number")
    category = FLOATING

    def __init__(self, machine, number):
        self.machine, self.number = machine, number

    def __float__(self):
        return self.machine.values.known(self.number)

    def __int__(self):
        return int(float(self))

    def __bool__(self):
        return self.machine.arithmetic.truth(self.number)

    def __hash__(self):
        return hash(float(self))

    def __neg__(self):
        return 0.0 - self if self else -float(self)  # for the sign of a zero

    def __abs__(self):
        return -self if self < 0 else self

    def __round__(self, digits=None):
        return round(float(self), digits)

    def __repr__(self):
        return f"Real({self.number.text})"


def binary(symbol, reflected):
    def method(self, other):
        if not isinstance(other, (Real, *NUMBERS)):
            return NotImplemented
        return self.machine.arithmetic.real_binary(symbol, *((other, self) if reflected else (self, other)))

    return method


def comparison(symbol):
    def method(self, other):
        if not isinstance(other, (Real, *NUMBERS)):
            return NotImplemented
        return self.machine.arithmetic.real_comparison(symbol, self, other)

    return method


for _name, _symbol in (("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"), ("floordiv", "//"), ("mod", "%"),
                       ("pow", "**")):
    setattr(Real, f"__{_name}__", binary(_symbol, False))
    setattr(Real, f"__r{_name}__", binary(_symbol, True))
for _name, _symbol in (("lt", "<"), ("le", "<="), ("eq", "=="), ("ne", "!="), ("gt", ">"), ("ge", ">=")):
    setattr(Real, f"__{_name}__", comparison(_symbol))
