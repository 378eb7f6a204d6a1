"""Calls that Python makes in place of a program: with other arguments, or by the operator's body."""
from __future__ import annotations

import numpy as np

from ..core.dtypes import INTEGER, meant
from ..core.native import Op, Tensor, mine
from ..core.op import OPS, applied, body_of, respelled
from ..ops.out import into_out
from . import elsewhere


def call_again(op: Op):
    """Return a function that makes a call again, since its key has changed."""
    return lambda args, names: applied(op, args, names)


def call_with_numbers(op: Op):
    """Return a function that replaces 0-dim integer tensors by their values, for an operator of sizes or indices."""
    def run(args, names):
        first = takes_tensor(op)
        given = (*args[:first], *(a.item() if is_count(a) else tuple(v.item() if is_count(v) else v for v in a)
                                  if type(a) in (list, tuple) else a for a in args[first:]))
        return applied(op, given, names)
    return run


def takes_tensor(op: Op) -> bool:
    """True if the first argument of an operator is a tensor, whatever the others are."""
    return op.signature is None or next(iter(op.signature.parameters), "input") == "input"


def is_count(value) -> bool:
    """True if a value may be a size: a 0-dim integer tensor."""
    return isinstance(value, Tensor) and value.dtype.category == INTEGER and not value.dim()


def call_body(op: Op):
    """Return a function that runs a composite operator's body on the tensors themselves."""
    def run(args, names):
        if mine.device is not None:  # tensors that the body creates are on the device of its arguments
            return elsewhere.body_runner(op)(args, names)
        return applied(body_of(op, args), args, names)
    return run


def call_respelled(op: Op):
    """Return a function that calls an operator with its own keyword names, and dtypes and numbers in place of Python
    types and NumPy scalars."""
    def run(args, names):
        if any(type(a) is type and meant(a) is a for a in args):
            raise TypeError(
                f"{op.name}(): expected tensors, numbers and dtypes, but got the class "
                f"{next(a for a in args if type(a) is type and meant(a) is a).__name__}")
        return applied(op, *respelled(op, tuple(meant(in_python(a)) for a in args), names or ()))
    return run


def in_python(value):
    """Return NumPy scalars as Python numbers, in lists and tuples, too; any other value itself."""
    if type(value) in (list, tuple):
        return type(value)(map(in_python, value))
    return value.item() if isinstance(value, np.generic) else value


def call_of_numbers(op: Op):
    """Return a function that calls an operator without tensor arguments with the first one as a tensor."""
    def run(args, names):
        return applied(op, (OPS["full"]((), args[0]), *args[1:]), names)
    return run


def another(op: Op, args, names):
    """Return the replacement for such a call, a function of the first argument; None for most calls."""
    otherwise = op.traits.get("otherwise")
    if otherwise is None or names and getattr(otherwise, "by_position", False):
        return None
    return otherwise(*args[1:])


def writing(op: Op):
    """Return a function that calls an operator and writes its result into ``out``."""
    return lambda args, names: into_out(op, args, names)
