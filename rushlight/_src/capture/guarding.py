"""Guards: what is assumed, the constants that checks name, and the symbols of numbers that vary."""
from __future__ import annotations

import numpy as np

from ..core.expr import Expr, size
from ..core.expr_text import Printer
from ..core.log import logger
from ..core.native import has_items
from .classes import is_written_by_users
from .equality import is_same
from .guards import Guard
from .parts import Part
from .values import Constant, Source

REALS = (float, np.integer, np.float16, np.float32)  # whose ``==`` tells all but the sign of zero and kinds of NaN


class Guarding(Part, part="guarding"):
    """Notes assumptions, and writes values as text over the inputs of a segment."""

    needs = ()

    def __init__(self, machine):
        super().__init__(machine)
        self.guards: dict = {}
        self.constants: list = []  # what the segment refers to
        self.constant_at: dict = {}  # id of a constant -> its place
        self.relied: dict = {}  # (user's class, name) -> what it was found to have
        self.codes: dict = {}  # user's function -> its code, which tools that reload source replace
        self.symbols: dict = {}  # symbol -> text that computes it
        self.is_tied = False  # whether what was captured depends on which modules it was captured for
        self.constrained: dict = {}  # text of a size -> (the size, the constraint that users gave)

    def constant_name(self, value) -> str:
        at = self.constant_at.get(id(value))
        if at is None:
            at = self.constant_at[id(value)] = len(self.constants)
            self.constants.append(value)
        return f"k{at}"

    def constant_source(self, value) -> Source:
        return Source(None, self.constant_name(value), True)

    def guard(self, check: str, *sources):
        key = check, sources
        if key not in self.guards:
            self.guards[key] = Guard(check, sources, self.machine.where_text())

    def identify(self, source, value):
        """Assumes that a source holds this very object."""
        if source is not None and (source.parent is not None or not source.covered):
            self.guard(f"{{0}} is {self.constant_name(value)}", source)

    def type_name(self, kind) -> str:
        return kind.__name__ if kind in (int, float, str, bytes, list, tuple, dict, set) else self.constant_name(kind)

    def equality(self, text, value) -> str:
        """The check that an expression still has this value: of this type, and the same in every bit."""
        kind = type(value)
        if value is None or kind is bool or value is ... or value is NotImplemented:
            return f"{text} is {value!r}"
        if kind in (int, str, bytes) or isinstance(value, REALS) and value == value != 0:
            return f"type({text}) is {self.type_name(kind)} and {text} == {self.literal(value)}"
        return f"{self.constant_name(is_same)}({text}, {self.constant_name(value)})"

    def items(self, text, values) -> str:
        """The check that a tuple has these values as its items."""
        if not values:
            return f"not {text}"
        return f"{self.constant_name(has_items)}({text}, {self.constant_name(tuple(values))}, " \
               f"{self.constant_name(is_same)})"

    def literal(self, value) -> str:
        if type(value) in (int, bool, type(None)) or type(value) in (str, bytes) and "{" not in (
                text := repr(value)) and "}" not in text or \
                type(value) is float and abs(value) < float("inf"):
            return repr(value)  # no braces: checks are templates
        return self.expression(value) if type(value) is Expr else self.constant_name(value)

    def symbolic(self, meta, free, source, constraints):
        """The metadata with a symbol for each size that varies."""
        if not free:
            return meta
        return meta.like([self.free_size(size, f"{source}.shape[{k}]", constraints.get(k)) if k in free else size
                          for k, size in enumerate(meta.shape)])

    def free_size(self, size, text, constraint, low=2):
        """A symbol for a size of at least ``low``, within the bounds of its constraint."""
        made = self.symbol(size, text, low)
        if constraint is not None:
            self.constrained[text] = made, constraint
            bounds = [str(constraint.low)] * (constraint.low is not None), [str(constraint.high)] * (
                constraint.high is not None)
            if any(bounds):
                self.guard(" <= ".join([*bounds[0], text, *bounds[1]]))
        return made

    def symbol(self, value, text, low):
        """A new symbol for an int that ``text`` computes; a multiple of a new symbol, where it is to be taken as
        one."""
        unit = self.machine.rules.get(("multiple", text), 1)
        if unit > 1 and value % unit == 0:
            self.guard(f"{text} % {unit} == 0")
            return unit * self.symbol(value // unit, f"({text} // {unit})", 1 if low > 0 else low)
        made = size(f"n{len(self.symbols)}", low)
        self.symbols[made] = text
        dynamic_log.debug("%s stands for %s, which is %s now", made.arg[0], text, value)
        self.machine.shape_env.hints[made] = value
        self.machine.recorder.symbolic = True
        return made

    def text_of(self, value) -> str:
        """Python text over the inputs that computes a Number or Constant."""
        if isinstance(value, Constant):
            return self.literal(value.value)
        return f"({self.expression(value.expr)})" if value.expr is not None else value.text

    def expression(self, expr) -> str:
        return Printer(self.symbols).text(expr)

    def rely(self, cls, name, raw):
        """Notes what a user's class was found to have, which is guarded: methods can be replaced."""
        if is_written_by_users(cls):
            self.relied[cls, name] = raw


dynamic_log = logger("dynamic")
