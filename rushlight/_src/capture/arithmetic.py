"""Operators, comparisons and truth."""
from __future__ import annotations

import operator

from ..core.dtypes import Defaults
from ..core.expr import Expr, eq, le, logical_not, lt, ne
from ..core.nodes import INFINITY
from ..core.op import OPS
from .classes import ABSENT, static
from .errors import Again, Break, Raised
from .parts import Part
from .polyfills import UNSUPPORTED, differing, equal_sequences, operated, operated_reflected, unequal_sequences
from .fake import Fake
from .values import (IDENTITIES, ArrayValue, Comparison, Constant, ContainerMethod, Deferred, ExceptionValue, Function,
                     Identity, Instance, Mapping, Method, Number, Object, Partial, Sequence, SetValue, TensorValue,
                     View)

BINARY = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "@": operator.matmul,
          "//": operator.floordiv, "%": operator.mod,
          "**": operator.pow, "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
          ">>": operator.rshift}
INPLACE = {"+": operator.iadd, "-": operator.isub, "*": operator.imul, "/": operator.itruediv, "@": operator.imatmul,
           "//": operator.ifloordiv,
           "%": operator.imod, "**": operator.ipow, "&": operator.iand, "|": operator.ior, "^": operator.ixor,
           "<<": operator.ilshift, ">>": operator.irshift}
COMPARE = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt,
           ">=": operator.ge}
# of integers, as Exprs
CONDITIONS = {"<": lt, "<=": le, "==": eq, "!=": ne, ">": lambda a, b: lt(b, a), ">=": lambda a, b: le(b, a)}
NAMES = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "@": "matmul", "//": "floordiv", "%": "mod", "**": "pow",
         "&": "and", "|": "or", "^": "xor",
         "<<": "lshift", ">>": "rshift"}
COMPARISONS = {"<": ("__lt__", "__gt__"), "<=": ("__le__", "__ge__"), "==": ("__eq__", "__eq__"),
               "!=": ("__ne__", "__ne__"), ">": ("__gt__", "__lt__"),
               ">=": ("__ge__", "__le__")}
WHOLE = frozenset("+-*") | {"//", "%"}  # operators that are closed over integers and known to algebra
JOINTS = {"&": "logical_and", "|": "logical_or"}  # of conditions
SYMBOLIC = WHOLE | JOINTS.keys() | {"/", "**"}
RUN_TIME = frozenset("+-*/")  # operators on a tensor and a number that accept the number at run time


def whole(value) -> bool:
    """True if a value is an int that algebra can use: an Expr or a known int."""
    return isinstance(value, Number) and value.expr is not None and value.expr.dtype is None or isinstance(
        value, Constant) and type(value.value) is int


def exact(value):
    return value.expr if isinstance(value, Number) else value.value


class Arithmetic(Part, part="arithmetic"):
    """Capture component that evaluates operators."""

    needs = ("arrays", "calls", "classes", "containers", "framework", "guarding", "numbers", "output", "outside",
             "protocols", "sets", "values")

    def __init__(self, machine):
        super().__init__(machine)
        self.entered: dict = {}  # source text of a number -> its Fake in the graph

    def binary(self, symbol: str, a, b, inplace=False):
        a, b = self.values.force(a), self.values.force(b)
        if isinstance(a, ArrayValue) or isinstance(b, ArrayValue):
            return self.arrays.array_operation((INPLACE if inplace else BINARY)[symbol],
                                        lambda a, b: self.binary(symbol, a, b, inplace), a, b)
        if isinstance(a, TensorValue) or isinstance(b, TensorValue):
            return self.tensor_binary(symbol, a, b, inplace)
        if isinstance(a, Number) or isinstance(b, Number):
            made = self.number_binary(symbol, a, b)
            if made is not None:
                return made
        answers = not (symbol == "%" and isinstance(a, Constant) and isinstance(a.value, (str, bytes)))
        if answers and (self.classes.user_class(a) or self.classes.user_class(b)):
            name = NAMES[symbol]
            stored = inplace and static(self.classes.class_of(a), f"__i{name}__") is not ABSENT
            own = f"__i{name}__" if stored else f"__{name}__"
            if self.method(a, own) or not stored and self.reflected(a, b, f"__r{name}__"):
                return self.operated(own, f"__r{name}__", a, b, UNSUPPORTED + symbol + inplace * "=")
        if isinstance(a, (Sequence, SetValue, Mapping, View)) or isinstance(b, (Sequence, SetValue, View)):
            made = self.containers.container_binary(symbol, a, b, inplace)
            if made is not None:
                return made
        if symbol == "%" and isinstance(a, Constant) and isinstance(a.value, str):
            later = self.output.percent(a, b)
            if later is not None:
                return later
        if symbol == "+" and (isinstance(a, Deferred)
                              or isinstance(b, Deferred)) and all(self.classes.class_of(v) is str
                                                                  for v in (a, b)):
            return self.output.joined([a, b])
        return self.fold((INPLACE if inplace else BINARY)[symbol], [a, b])

    def tensor_binary(self, symbol, a, b, inplace):
        run_time = symbol in RUN_TIME and not inplace
        first = isinstance(a, Number) and run_time
        a, b = (self.run_time_number(v) if isinstance(v, Number) and (run_time or self.numbers.unknown(v)) else v
                for v in (a, b))
        if first:  # operators take tensors first
            like, number = b.fake.dtype, a.fake.dtype
            dtype = like if like.category >= number.category else Defaults.floating
            a = self.framework.run_framework(OPS["_filled"], [a, Constant(()), self.values.from_python(dtype)], {})
        return self.framework.run_framework((INPLACE if inplace else BINARY)[symbol], [a, b], {})

    def run_time_number(self, number):
        """Return a run-time scalar as an input of the graph."""
        if self.numbers.unknown(number):
            return TensorValue(self.machine.recorder.number_of(number.expr) if number.fake is None else number.fake)
        text = self.guarding.text_of(number)
        fake = self.entered.get(text)
        if fake is None or fake.node not in self.outside.graph_inputs:
            fake = self.entered[text] = self.machine.recorder.number(type(number.hint))
            self.outside.graph_inputs[fake.node] = text, None
        return TensorValue(fake)

    def number_binary(self, symbol, a, b):
        if not all(isinstance(v, Number) or isinstance(v, Constant) and type(v.value) in (int, float) for v in (a, b)):
            return None
        if self.numbers.unknown(a) or self.numbers.unknown(b):
            return self.numbers.unknown_binary(symbol, a, b) if symbol in SYMBOLIC else None
        x, y = (v.hint if isinstance(v, Number) else v.value for v in (a, b))
        if symbol in ("/", "//", "%"):
            if y == 0:
                return None
            if isinstance(b, Number):
                self.truth(b)  # that it is not zero is assumed
            elif symbol == "//" and y > 1 and isinstance(a, Number) and a.expr in self.guarding.symbols and (
                    x % y == 0 and not self.machine.entry.owner.exporting):
                # so that halving and doubling gives the same size; a self-contained program floors instead
                raise Again(("multiple", self.guarding.symbols[a.expr]), y)
        if symbol in WHOLE and whole(a) and whole(b):
            return self.values.from_python(BINARY[symbol](exact(a), exact(b)))
        return self.computed(BINARY[symbol], f"({{}} {symbol} {{}})", [a, b], symbol in RUN_TIME)

    def computed(self, function, template, operands, total=False):
        """Return a function of run-time scalars as Python source; None if it raises or returns no number. ``total``: it
        is defined for all floats."""
        try:
            hint = function(*(v.hint if isinstance(v, Number) else v.value for v in operands))
        except (ArithmeticError, ValueError, TypeError):
            return None
        text = template.format(*map(self.guarding.text_of, operands))
        if type(hint) not in (int, float):
            return None
        if type(hint) is int or not total:
            self.guarding.guard(f"type({text}) is {type(hint).__name__}")
        if type(hint) is float:
            return Number(hint, text=text)
        known = next((symbol for symbol, computed in self.guarding.symbols.items() if computed == text), None)
        return Number(hint, self.guarding.symbol(hint, text, -INFINITY) if known is None else known)

    def computed_by(self, function, operands):
        """Return a function of numbers that ``vary``, called in Python: as source, or between programs if it cannot be
        now."""
        operands = list(map(self.values.force, operands))
        found = self.computed(function, f"{self.guarding.constant_name(function)}({', '.join(['{}'] * len(operands))})",
                              operands)
        return self.fold(function, operands) if found is None else found

    def real_binary(self, symbol, a, b):
        """Evaluate arithmetic of framework code on a varying float."""
        a, b = self.values.from_python(a), self.values.from_python(b)
        found = self.number_binary(symbol, a, b)
        return self.framework.passed_on(self.fold(BINARY[symbol], [a, b]) if found is None else found)

    def real_comparison(self, symbol, a, b) -> bool:
        return self.compare(symbol, self.values.from_python(a), self.values.from_python(b)).value

    def method(self, value, name):
        """Return a special method that a user's class defines, as a Value; None if there is none."""
        cls = self.classes.user_class(value)
        return self.classes.class_attribute(cls, name) if cls else None

    def reflected(self, a, b, name):
        """Return the reflected method of the right operand, which Python tries if the operands' classes differ."""
        return self.method(b, name) if self.classes.class_of(a) is not self.classes.class_of(b) else None

    def operated(self, own, reflected, a, b, otherwise):
        """Evaluate an operator of user classes: the left operand's method, the right one's, or else ``otherwise``."""
        first = self.method(a, own)
        second = self.reflected(a, b, reflected) if reflected.startswith("__r") else self.method(b, reflected)
        sides = [Constant(None) if m is None else m for m in (first, second)]
        swapped = second is not None and self.classes.class_of(a) is not self.classes.class_of(b) and issubclass(
            self.classes.class_of(b),
            self.classes.class_of(a))
        return self.calls.call_python(operated_reflected if swapped else operated,
                                [*sides, a, b, self.values.from_python(otherwise)])

    def compare(self, symbol, a, b):
        a, b = self.values.force(a), self.values.force(b)
        if isinstance(a, ArrayValue) or isinstance(b, ArrayValue):
            return self.arrays.array_operation(COMPARE[symbol], lambda a, b: self.compare(symbol, a, b), a, b)
        if isinstance(a, TensorValue) or isinstance(b, TensorValue):
            if symbol in ("==", "!=") and any(isinstance(v, Constant) and (v.value is None or isinstance(v.value, str))
                                              for v in (a, b)):
                return Constant(symbol == "!=")
            return self.framework.run_framework(COMPARE[symbol], [a, b], {})
        if isinstance(a, Number) or isinstance(b, Number):
            numbers = all(isinstance(v, Number) or isinstance(v, Constant) and type(v.value) in (int, float, bool)
                          for v in (a, b))
            if numbers and (self.numbers.unknown(a) or self.numbers.unknown(b)):
                return self.numbers.unknown_comparison(symbol, a, b)
            if whole(a) and whole(b):
                return Constant(bool(COMPARE[symbol](exact(a), exact(b))))
            if numbers:
                x, y = (v.hint if isinstance(v, Number) else v.value for v in (a, b))
                return self.decide(COMPARE[symbol](x, y),
                                   f"({self.guarding.text_of(a)} {symbol} {self.guarding.text_of(b)})")
        own, reflected = COMPARISONS[symbol]
        if self.method(a, own) or self.method(b, reflected):
            return self.operated(own, reflected, a, b, symbol)
        if symbol == "!=" and (self.negates(a) or self.negates(b)):
            return self.calls.call_python(differing, [a, b])
        if symbol in ("==", "!="):
            return self.equal(symbol, a, b)
        a, b = self.sets.set_of(a), self.sets.set_of(b)
        if isinstance(a, SetValue) and isinstance(b, SetValue):
            return Constant(COMPARE[symbol](set(a.items), set(b.items)))
        return self.fold(COMPARE[symbol], [self.plain(a), self.plain(b)])

    def compare_lazily(self, symbol, a, b):
        """Compare in a way that an exported program may compute: for dynamic sizes, the result is undecided until
        something depends on it."""
        a, b = self.values.force(a), self.values.force(b)
        sizes = whole(a) and whole(b) and any(isinstance(v, Number) for v in (a, b))
        if not sizes or not self.machine.entry.owner.exporting or self.numbers.unknown(a) or self.numbers.unknown(b):
            return self.compare(symbol, a, b)
        return self.undecided(CONDITIONS[symbol](exact(a), exact(b)))

    def undecided(self, condition):
        """Return a condition on sizes as a Value: a Constant if algebra decides it."""
        is_open = isinstance(condition, Expr) and condition.op != "number"
        return Comparison(condition) if is_open else Constant(bool(condition))

    def opposite(self, value):
        """Return ``not value``."""
        if isinstance(value, Comparison):
            return self.undecided(logical_not(value.condition))
        value = self.values.force(value)
        if self.numbers.unknown(value):
            return self.numbers.negate(value)
        return Constant(not self.truth(value))

    def negates(self, value):
        """True if ``!=`` of a value calls an ``__eq__`` of its class: ``object`` does so, other builtins do not."""
        return self.method(value, "__eq__") and static(self.classes.class_of(value), "__ne__") is object.__ne__

    def plain(self, value):
        """Return a named tuple as a plain tuple."""
        return Sequence(tuple, value.items) if isinstance(value, Sequence) and issubclass(value.kind, tuple) else value

    def decide(self, truth: bool, text: str):
        """Guard a fact about varying numbers."""
        self.guarding.guard(f"{text} is {truth}")
        return Constant(truth)

    def equal(self, symbol, a, b):
        a, b = self.sets.set_of(a), self.sets.set_of(b)
        if isinstance(a, Identity) and isinstance(b, Identity):
            return Constant(self.identical(a.of, b.of) is (symbol == "=="))
        if isinstance(a, Sequence) and isinstance(b, Sequence):
            if issubclass(a.kind, tuple) != issubclass(b.kind, tuple):
                return Constant(symbol == "!=")
            if self.decides_by_items(a) or self.decides_by_items(b):
                return self.calls.call_python(equal_sequences if symbol == "==" else unequal_sequences, [a, b])
            return self.fold(COMPARE[symbol], [Sequence(list, a.items), Sequence(list, b.items)])
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            return Constant((self.values.known(Mapping(a.items))
                             == self.values.known(Mapping(b.items))) is (symbol == "=="))
        if isinstance(a, SetValue) and isinstance(b, SetValue):
            return Constant((set(a.items) == set(b.items)) is (symbol == "=="))
        if isinstance(a, Method) and isinstance(b, Method):
            same = self.identical(a.owner, b.owner) and self.identical(a.function, b.function)
            return Constant(same is (symbol == "=="))
        if self.plain_identity(a) or self.plain_identity(b):
            return Constant(self.identical(a, b) is (symbol == "=="))
        return self.fold(COMPARE[symbol], [a, b])

    def decides_by_items(self, sequence) -> bool:
        """True if a comparison has to compare each item: items vary, or define their own comparison."""
        return any(isinstance(self.containers.item(sequence, k), (TensorValue, Number, Instance, Sequence))
                   for k in range(len(sequence.items)))

    def plain_identity(self, value):
        """True if equality with this value is identity."""
        if isinstance(value, (Function, Method, ContainerMethod, ExceptionValue, Partial)):
            return True
        cls = self.classes.class_of(value) if isinstance(value, (Object, Instance)) else None
        return cls is not None and cls.__eq__ is object.__eq__

    def is_same_object(self, a, b) -> bool:
        """``a is b``; guarded for constants from outside, whose guards assume the value alone."""
        a, b = self.values.force(a), self.values.force(b)
        if not (isinstance(a, Constant) and isinstance(b, Constant) and None not in (a.source, b.source)):
            return self.identical(a, b)
        same = a.value is b.value
        if a.source != b.source and not isinstance(a.value, (bool, type(None))):
            self.guarding.guard("{0} is {1}" if same else "{0} is not {1}", a.source, b.source)
        return same

    def identical(self, a, b) -> bool:
        a, b = self.values.force(a), self.values.force(b)
        if isinstance(a, (Constant, Object)) and isinstance(b, (Constant, Object)):
            if a is not b:
                self.outside.pin(a)
                self.outside.pin(b)
            if isinstance(a, Object) and isinstance(
                    b, Object) and a.value is not b.value and a.source is not None and b.source is not None:
                self.guarding.guard("{0} is not {1}", a.source, b.source)
            return a.value is b.value or (type(a.value) in (int, str) and type(a.value) is type(b.value)
                                          and a.value == b.value)
        if isinstance(a, TensorValue) and isinstance(b, TensorValue) and a.fake is b.fake:
            return True
        if a is not b and a.source is not None and b.source is not None:
            self.guarding.guard("{0} is not {1}", a.source, b.source)
        return a is b

    def matches(self, a, b) -> bool:
        """True if a value is another, or equal to it, as containers compare."""
        return self.identical(a, b) or self.truth(self.machine.now(self.values.from_python(operator.eq), [a, b]))

    def truth(self, value) -> bool:
        value = self.values.force(value)
        if isinstance(value, Constant):
            return bool(value.value)
        if isinstance(value, Number):
            if value.fake is not None:
                raise Break("RB002", "a number that depends on data")
            return bool(value.expr) if value.expr is not None else self.decide(bool(value.hint),
                                                                               f"bool({value.text})").value
        if isinstance(value, (Sequence, Mapping, SetValue)):
            found = self.asked_truth(value)
            return bool(value.items) if found is None else found
        if isinstance(value, View):
            return bool(value.mapping.items)
        if isinstance(value, TensorValue) and isinstance(value.fake, Fake) and self.machine.recorder.value_of(
                value.fake) is not None:
            return bool(self.machine.recorder.value_of(value.fake))
        if isinstance(value, (TensorValue, ArrayValue, Deferred)):
            raise Break("RB002", f"bool() of a {self.values.describe(value)}")
        if isinstance(value, (Object, Instance)):
            return self.object_truth(value)
        return True

    def asked_truth(self, value):
        """Return the result of ``__bool__`` or ``__len__`` of a user's class; None if it has neither."""
        for name in ("__bool__", "__len__"):
            if found := self.protocols.has(value, name):
                return self.truth(self.protocols.now_answered(name, found, value))
        return None

    def object_truth(self, value):
        answer = self.asked_truth(value)
        if answer is not None:
            return answer
        if value.payload is not None:
            return self.truth(value.payload)
        cls = self.classes.class_of(value)
        if isinstance(value, Object) and not isinstance(value.value,
                                                        IDENTITIES) and any(static(cls, name) is not ABSENT
                                                                            for name in ("__bool__", "__len__")):
            raise Break("RB004", f"truth of a {cls.__name__}")
        if self.classes.is_class(value) and any(static(cls, name) is not ABSENT for name in ("__bool__", "__len__")):
            raise Break("RB004", f"truth of a {cls.__name__}")
        return True

    def fold(self, function, arguments, keywords=None):
        """Call a function of known values now."""
        known = [self.values.known(a) for a in arguments]
        named = {k: self.values.known(v) for k, v in (keywords or {}).items()}
        try:
            return self.values.from_python(function(*known, **named))
        except Break:
            raise
        except Exception as error:
            raise Raised(ExceptionValue(type(error), [self.values.from_python(a) for a in error.args])) from None
