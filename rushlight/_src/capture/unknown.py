"""Data-dependent numbers of the program under capture."""
from __future__ import annotations

import sys
import threading

from ..checks import _check_tensor_all_with, _check_with
from ..core.dtypes import bool_
from ..core.expr import Expr, apply, eq, logical_not, maximum, minimum
from ..core.native import Tensor, mine
from .arithmetic import BINARY, COMPARE, CONDITIONS, JOINTS, exact, whole
from .classes import is_framework
from .errors import Break
from .parts import CALLED, Part
from .unbacked import CONVERSIONS
from .values import Constant, Method, Number, Object, TensorValue

EXIT_BELOW = 1 if sys.version_info < (3, 14) else 2  # a manager's ``__exit__``, counted from its handler's depth
MOST_FACTORS = 16  # of a power that is expanded into multiplications
UNTOLD = "a data-dependent condition does not hold"


def belongs_to_thread(value) -> bool:
    """True if an object is per-thread state of the framework: contexts that set it restore it at their end."""
    return value is mine or isinstance(value, threading.local) and is_framework(type(value).__module__)


class Unknown(Part, part="numbers"):
    """Capture component for data-dependent numbers: ints as symbols, all others in the graph."""

    needs = "arithmetic", "calls", "classes", "framework", "output", "values", "writes"

    def unknown(self, value) -> bool:
        """True if a number depends on data."""
        return isinstance(value, Number) and (value.fake is not None or self.machine.shape_env.unknown(value.expr))

    def has_unknown(self, values) -> bool:
        """True if these are numbers and at least one is data-dependent; conditions on integers do not count."""
        values = list(map(self.values.force, values))
        return any(map(self.unknown, values)) and all(
            whole(v) or isinstance(v, Number) and v.fake is not None and type(v.hint) is float
            or isinstance(v, Constant) and type(v.value) is float for v in values)

    def unknown_binary(self, symbol, a, b):
        """Evaluate arithmetic and comparisons of data-dependent numbers."""
        if symbol in JOINTS:
            return self.join(symbol, a, b)
        if symbol == "**":
            return self.power(a, b)
        if symbol in ("/", "//", "%") and not (isinstance(b, Constant) and b.value):
            self.arithmetic.truth(self.arithmetic.compare("!=", b, Constant(0)))
        kind = type((BINARY.get(symbol) or COMPARE[symbol])(*(v.hint if isinstance(v, Number) else v.value or 1
                                                              for v in (a, b))))
        if symbol != "/" and whole(a) and whole(b):
            found = BINARY[symbol](exact(a), exact(b))
            return Number(kind(3), found) if isinstance(found, Expr) else Constant(found)  # 0 * n is known
        if symbol in ("//", "%"):
            raise Break("RB003", f"{symbol} of a float that depends on data")
        return Number(kind(3), fake=self.machine.recorder.compute(symbol, self.operand(a), self.operand(b), kind))

    def join(self, symbol, a, b):
        """Return ``a & b`` or ``a | b`` of two data-dependent conditions on integers; None for other operands."""
        if not all(isinstance(v, Number) and v.expr is not None and v.expr.dtype is bool_ for v in (a, b)):
            return None
        condition = apply(JOINTS[symbol], a.expr, b.expr)
        found = self.machine.shape_env.proven(condition)
        return Number(True, condition) if found is None else Constant(found)

    def power(self, base, exponent):
        """Return a data-dependent integer to a constant power, expanded into multiplications; None for others."""
        if not (whole(base) and isinstance(exponent, Constant) and 0 <= exponent.value <= MOST_FACTORS
                and type(exponent.value) is int):
            return None
        return self.values.from_python(exact(base) ** exponent.value)

    def extreme(self, symbol, a, b):
        """Return ``min`` or ``max`` of two numbers, at least one data-dependent."""
        if whole(a) and whole(b):
            return self.values.from_python((minimum if symbol == "min" else maximum)(exact(a), exact(b)))
        return Number(3.0, fake=self.machine.recorder.compute(symbol, self.operand(a), self.operand(b), float))

    def negate(self, value):
        """Return ``not value`` of a data-dependent number."""
        if value.fake is not None:
            return self.unknown_binary("==", value, Constant(0))
        condition = logical_not(value.expr) if value.expr.dtype is bool_ else eq(value.expr, 0)
        found = self.machine.shape_env.proven(condition)
        return Number(True, condition) if found is None else Constant(found)

    def convert(self, function, value):
        """Return the result of a function in CONVERSIONS on a data-dependent number."""
        reading, kind = CONVERSIONS[function]
        recorder, given = self.machine.recorder, self.operand(value)
        if kind is int:
            return value if whole(value) else self.values.from_python(
                recorder.symbol(reading, (recorder.lowered(given),)))
        return Number(3.0, fake=recorder.reading(reading, (recorder.lowered(given),), float))

    def ratio(self, symbol, a, b):
        """Return a float that framework code computes from sizes, as a run-time scalar."""
        values = [self.values.from_python(v) for v in (a, b)]
        return self.arithmetic.run_time_number(self.arithmetic.number_binary(symbol, *values)).fake

    def operand(self, number):
        """Return a number as an argument of a node that Python computes between programs."""
        if isinstance(number, Constant):
            return number.value
        return number.expr if whole(number) else self.arithmetic.run_time_number(number).fake

    def unknown_comparison(self, symbol, a, b):
        """Compare data-dependent numbers: a data-dependent bool, unless it is proven."""
        if not (whole(a) and whole(b)):
            return self.unknown_binary(symbol, a, b)
        condition = CONDITIONS[symbol](exact(a), exact(b))
        found = self.machine.shape_env.proven(condition)
        return Number(True, condition) if found is None else Constant(found)

    def number_in(self, tensor, kind):
        """Evaluate ``int(tensor)`` or ``float(tensor)``."""
        dtype = tensor.fake.dtype
        if kind is float and not dtype.is_inexact:
            tensor = self.framework.run_framework(Tensor.double, [tensor], {})
        elif kind is not (float if dtype.is_floating_point else int):
            raise Break("RB003", f"{kind.__name__}() of a {dtype.name} tensor")
        return self.framework.run_framework(type(tensor.fake).item, [tensor], {})

    @CALLED.by(_check_with)
    def check(self, error, condition, message):
        """``torch._check`` and similar functions: the condition holds afterwards; if it is data-dependent, the graph
        checks it at run time."""
        condition = self.values.force(condition)
        if not self.unknown(condition):
            return self.calls.inline(self.calls.as_function(self.values.from_python(_check_with)),
                                     [error, condition, message], {})
        self.require_now(condition, self.values.force(error).value(self.text_now(message)))
        return Constant(None)

    @CALLED.by(_check_tensor_all_with)
    def check_all(self, error, condition, message=Constant(None)):
        """Record ``torch._check_tensor_all``: the graph raises unless all elements of a tensor are True."""
        condition = self.values.force(condition)
        if not isinstance(condition, TensorValue) or condition.fake.dtype is not bool_:
            return self.calls.inline(self.calls.as_function(self.values.from_python(_check_tensor_all_with)),
                                     [error, condition, message], {})
        condition.fake.hold(self.values.force(error).value(self.text_now(message)))
        return Constant(None)

    def asserted(self, frame, value, place) -> bool:
        """True if the next instructions raise an AssertionError unless a data-dependent value holds: then the graph
        checks it, and it holds afterwards."""
        value = self.values.force(value)
        unknown = self.unknown(value) or isinstance(value, TensorValue) and not value.fake._rush_meta.shape
        steps = [one for one in frame.listing.instructions[place:place + 5] if one.op != "NOP"]
        if not unknown or steps[0].arg is not AssertionError or self.effects_pending() or self.within_try():
            return False
        if steps[1].op == "RAISE_VARARGS":
            error = AssertionError()
        elif steps[1].op == "LOAD_CONST" and any(one.op == "RAISE_VARARGS" for one in steps[2:]):
            error = AssertionError(steps[1].arg)
        else:
            return False
        if isinstance(value, TensorValue):
            value.fake.hold(error)
        else:
            self.require_now(value, error)
        return True

    def effects_pending(self) -> bool:
        """True if side effects on objects from outside wait for the end of the segment: they would be lost if the graph
        raised."""
        outside = any(isinstance(owner, TensorValue) or isinstance(owner, Object) and not belongs_to_thread(owner.value)
                      for owner, _ in self.writes.owners.values())
        return bool(self.writes.changed or outside or self.writes.set_globals or self.output.notes)

    def within_try(self) -> bool:
        """True if the program may catch an error of the current instruction, which the graph would raise later."""
        return any(f.listing.caught(f.now.offset) for f in self.machine.frames)

    def misses_errors(self) -> bool:
        """True if an error that the graph raises for the current instruction comes too late: an ``except``, a
        ``finally`` or a context manager of the program would see it, or side effects on objects from outside would be
        lost."""
        return self.effects_pending() or any(
            not ends_with or not self.leaves_plainly(frame.stack[depth - EXIT_BELOW])
            for frame in self.machine.frames for depth, ends_with in frame.listing.catchers(frame.now.offset))

    def leaves_plainly(self, method) -> bool:
        """True if an ``__exit__`` is the framework's, which passes errors on."""
        return isinstance(method, Method) and is_framework(self.classes.class_of(method.owner).__module__)

    def require_now(self, condition, error):
        """Record a check that a condition holds, which is assumed afterwards."""
        if condition.expr is not None and condition.expr.op == "logical_and":
            for part in condition.expr.args:
                self.require_now(Number(True, part), error)
            return
        if condition.expr is not None:
            self.machine.shape_env.assume(condition.expr)
        self.machine.recorder.require(condition.fake if condition.expr is None else condition.expr, error)

    def expected(self, condition, error) -> bool:
        """True if the graph checks what an operator expects of data-dependent numbers; False for a break."""
        if self.effects_pending() or self.within_try():
            return False
        self.require_now(Number(True, condition), error)
        return True

    def text_now(self, message) -> str:
        """Return the string that a function for a message makes; it cannot contain data-dependent numbers."""
        depth = len(self.machine.frames)
        try:
            found = self.machine.now(message, []) if not isinstance(self.values.force(message),
                                                                    Constant) else Constant(None)
        except Break:
            del self.machine.frames[depth:]
            found = Constant(None)
        return (found.value if isinstance(found, Constant) and isinstance(found.value, str)
                else UNTOLD)
