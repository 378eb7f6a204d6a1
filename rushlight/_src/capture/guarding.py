"""Guards: assumptions, the constants that checks refer to, and the symbols of run-time scalars."""
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

# types whose ``==`` distinguishes all but the sign of zero and kinds of NaN
REALS = (float, np.integer, np.float16, np.float32)


class Guarding(Part, part="guarding"):
    """Capture component that records assumptions, and expresses values as Python source over a segment's inputs."""

    needs = ()

    def __init__(self, machine):
        super().__init__(machine)
        self.guards: dict = {}
        self.constants: list = []  # objects that the segment refers to
        self.constant_at: dict = {}  # id of a constant -> its index
        self.relied: dict = {}  # (user's class, name) -> the attribute found there
        self.codes: dict = {}  # user's function -> its code, which tools that reload source replace
        self.symbols: dict = {}  # symbol -> source that computes it
        self.is_tied = False  # True if the captured code depends on which modules it was captured for
        self.constrained: dict = {}  # source of a size -> (the size, the constraint that users gave)

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
        """Assume the identity of the object at a source."""
        if source is not None and (source.parent is not None or not source.covered):
            self.guard(f"{{0}} is {self.constant_name(value)}", source)

    def type_name(self, kind) -> str:
        return kind.__name__ if kind in (int, float, str, bytes, list, tuple, dict, set) else self.constant_name(kind)

    def equality(self, text, value) -> str:
        """Return the check that an expression still has this value: the same type and bits."""
        kind = type(value)
        if value is None or kind is bool or value is ... or value is NotImplemented:
            return f"{text} is {value!r}"
        if kind in (int, str, bytes) or isinstance(value, REALS) and value == value != 0:
            return f"type({text}) is {self.type_name(kind)} and {text} == {self.literal(value)}"
        return f"{self.constant_name(is_same)}({text}, {self.constant_name(value)})"

    def items(self, text, values) -> str:
        """Return the check that a tuple has these values as its items."""
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
        """Return metadata with a symbol for each dynamic size."""
        if not free:
            return meta
        return meta.like([self.free_size(size, f"{source}.shape[{k}]", constraints.get(k)) if k in free else size
                          for k, size in enumerate(meta.shape)])

    def free_size(self, size, text, constraint, low=2):
        """Return a symbol for a size of at least ``low``, within the bounds of its constraint."""
        made = self.symbol(size, text, low)
        if constraint is not None:
            self.constrained[text] = made, constraint
            bounds = [str(constraint.low)] * (constraint.low is not None), [str(constraint.high)] * (
                constraint.high is not None)
            if any(bounds):
                self.guard(" <= ".join([*bounds[0], text, *bounds[1]]))
        return made

    def symbol(self, value, text, low):
        """Return a new symbol for an int that ``text`` computes; a multiple of a new symbol if the rules say so."""
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
        """Return Python source over the inputs that computes a Number or Constant."""
        if isinstance(value, Constant):
            return self.literal(value.value)
        return f"({self.expression(value.expr)})" if value.expr is not None else value.text

    def expression(self, expr) -> str:
        return Printer(self.symbols).text(expr)

    def rely(self, cls, name, raw):
        """Guard what a user's class was found to have: methods can be replaced."""
        if is_written_by_users(cls):
            self.relied[cls, name] = raw


dynamic_log = logger("dynamic")
