"""Tracing of programs with operators replaced by a table's functions."""
from __future__ import annotations

from .._ops import aten_call
from .._src.core.interpret import Interpreter, Suspended
from .._src.core.op import body_of


class OperatorSubstitution(Interpreter):
    """Answers calls of the overloads in ``table`` by its functions; all else is for the interpreter below.

    An overload that its own function calls, or whose function returns NotImplemented, is not replaced.
    """

    def __init__(self, table, opening=()):
        self.table, self.opening = table, opening

    def call(self, op, args, kwargs):
        with Suspended(self):
            return self.answer(op, args, kwargs)

    def answer(self, op, args, kwargs):
        called, given, named = overload_call(op, args, kwargs)
        function = self.table.get(called) if called not in self.opening else None
        if function is not None:
            with OperatorSubstitution(self.table, (*self.opening, called)):
                result = function(*given, **named)
            if result is not NotImplemented:
                return result
        if op.kind is not None or op.traits.get("view") or op.traits.get("into") is not None:
            return op(*args, **kwargs)
        with OperatorSubstitution(self.table, self.opening):
            return body_of(op, args)(*args, **kwargs)


def overload_call(op, args, kwargs) -> tuple:
    """Return (overload, its arguments, its keywords) of a call; None as overload where no table has one."""
    packet = op.traits.get("library")
    if packet is not None and op.kind is None:
        return packet.overload(packet.label), args, kwargs
    return aten_call(op, args, kwargs) or (None, args, kwargs)
