"""Scalar arithmetic of TorchScript's operators: integers have 64 bits, floats are as in C."""
from __future__ import annotations

import cmath
import math
import operator

import numpy

SIGN = 1 << 63
PLAIN = (int, float, bool)


class CodeError(RuntimeError):
    """Code in a file that is not in the language."""


class ScriptError(RuntimeError):
    """An error that a program of a file raises, or that its operators meet."""


def wrapped(value):
    """Return an integer wrapped to 64 bits."""
    return (value + SIGN) % (2 * SIGN) - SIGN if type(value) is int and not -SIGN <= value < SIGN else value


def arithmetic(run):
    """An operator on numbers: others are refused, whole results have 64 bits."""
    def call(*args):
        for one in args:
            if isinstance(one, (str, list, tuple, dict)) or one is None:
                raise CodeError(f"the file's code computes with a {type(one).__name__}")
        return wrapped(run(*args))
    return call


def in_c(run, *args):
    """A function of numpy on 64-bit numbers, which has no errors."""
    with numpy.errstate(all="ignore"):
        return float(run(*map(numpy.float64, args)))


def divided(a, b):
    try:
        return a / b
    except ZeroDivisionError:
        return in_c(numpy.divide, a, b)


def floored(a, b):
    if float not in (type(a), type(b)):
        return a // b
    return in_c(lambda x, y: numpy.floor(x / y), a, b)


def remainder(a, b):
    if float not in (type(a), type(b)):
        return a % b
    return in_c(lambda x, y: numpy.fmod(y + numpy.fmod(x, y), y), a, b)


def power(a, b):
    """Not whole even where both numbers are."""
    if type(a) not in PLAIN or type(b) not in PLAIN:
        return a ** b
    if a == 0 and b < 0:
        raise ScriptError(f"{float(a)} cannot be raised to a negative power")
    try:
        return math.pow(a, b)
    except ValueError:
        return math.nan
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf


def left(a, b):
    """Shift left; the shift count is taken modulo 64, as CPUs do."""
    return a << (b & 63)


def right(a, b):
    return a >> (b & 63)


def rounded(value):
    return in_c(numpy.rint, value)


def whole(value):
    """A number as a whole one.  ScriptError for one that has none in 64 bits."""
    if isinstance(value, float) and not -SIGN <= value < SIGN:
        raise ScriptError(f"Cannot convert float {value} to integer")
    return int(value)


def floor(value):
    return whole(in_c(numpy.floor, value)) if type(value) in PLAIN else math.floor(value)


def ceil(value):
    return whole(in_c(numpy.ceil, value)) if type(value) in PLAIN else math.ceil(value)


def function(name):
    """A function of ``math``: nan and infinities where that has errors."""
    run, other, vast = getattr(math, name), getattr(numpy, name), getattr(cmath, name, None)

    def call(*args):
        if vast is not None and any(isinstance(one, complex) for one in args):
            return vast(*args)
        try:
            return run(*args)
        except (ValueError, OverflowError):
            return in_c(other, *args)
    return call


def of_one_type(values):
    """Numbers as floats where one of them is."""
    return [float(v) if type(v) is int else v for v in values] if any(type(v) is float for v in values) else values


def largest(*values):
    if len(values) != 2:
        return max(*values)
    a, b = of_one_type(values)
    return a if a > b else b


def smallest(*values):
    if len(values) != 2:
        return min(*values)
    a, b = of_one_type(values)
    return a if a < b else b


def shown(value) -> str:
    """A value as programs print it."""
    if isinstance(value, float):
        fits = -SIGN <= value < SIGN and value == int(value)
        return f"{int(value)}." if fits else f"{value:.17g}"
    if type(value) is list:
        return f"[{', '.join(map(shown, value))}]"
    if type(value) is tuple:
        return f"({', '.join(map(shown, value))}{',' * (len(value) == 1)})"
    if type(value) is dict:
        return "{" + ", ".join(f"{shown(k)}: {shown(v)}" for k, v in value.items()) + "}"
    return str(value)


def negated(value):
    return wrapped(operator.neg(value))


COMPARED = {name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")}
NUMBERS = {
    **COMPARED, **{name: function(name) for name in ("sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan",
                                                     "tanh", "fmod")},
    **{name: arithmetic(run) for name, run in (
        ("add", operator.add), ("sub", operator.sub), ("mul", operator.mul), ("div", divided), ("floordiv", floored),
        ("remainder", remainder), ("neg", operator.neg), ("__and__", operator.and_), ("__or__", operator.or_),
        ("__xor__", operator.xor), ("__lshift__", left), ("__rshift__", right), ("pow", power), ("abs", abs),
        ("add_", operator.add), ("floor_divide", floored), ("round", rounded), ("floor", floor), ("ceil", ceil),
        ("__derive_index", lambda index, start, step: start + index * step),
        ("__range_length", lambda start, stop, step: len(range(start, stop, step))))},
    "isnan": math.isnan, "isinf": math.isinf, "isfinite": math.isfinite, "Complex": complex, "Int": whole,
    "Float": float, "Bool": bool, "__not__": operator.not_, "max": largest, "min": smallest}
