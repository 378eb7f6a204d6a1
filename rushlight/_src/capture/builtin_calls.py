"""Builtins that inspect their arguments, and other functions of the standard library that capture replaces."""
from __future__ import annotations

import collections
import functools
import importlib.metadata
import importlib.util
import inspect
import operator
import os
import sys
import types

from ...nn.modules.module import Module
from ..core.op import OPS
from ..legacy import TypeOfTensors
from . import polyfills
from .classes import ABSENT, is_framework, is_written_by_users, static
from .errors import Break, Raised
from .parts import CALLED, Part
from .protocols import stand_in
from .transforms import kind_of
from .values import (IDENTITIES, ArrayValue, Constant, ContainerMethod, Deferred, ExceptionValue, Function, Identity,
                     Key, Method, Number, Object, Partial, Sequence, Super, TensorValue, WrapperValue)

NUMBER_METHODS = {int: ("__int__", "__index__"), float: ("__float__", "__index__"),
                  complex: ("__complex__", "__float__", "__index__")}
COMPARED = {operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">",
            operator.ge: ">="}


class Builtins(Part, part="builtins"):
    """Capture component for calls of builtins."""

    needs = ("absence", "arithmetic", "arrays", "attributes", "calls", "classes", "containers", "framework", "guarding",
             "iterators", "mappings", "numbers", "output", "outside", "protocols", "values",
             "writes")

    @CALLED.by(isinstance)
    def builtin_isinstance(self, value, classes):
        value, wanted = self.values.force(value), self.values.known(classes)
        if isinstance(value, Object):
            return self.answer_kind(isinstance, value.value, wanted, value.source)
        if isinstance(value, TensorValue):
            kind = self.classes.class_of(value) if isinstance(value, WrapperValue) else kind_of(value.fake)
            if value.source is not None:
                return Constant(isinstance(value.real, wanted))
            by_dtype = [one for one in flat(wanted) if isinstance(one, TypeOfTensors)]
            return Constant(issubclass(kind, wanted) or isinstance(value.fake, tuple(by_dtype)))
        if isinstance(value, Constant):
            return self.answer_kind(isinstance, value.value, wanted, None)
        if any(isinstance(static(type(one), "__instancecheck__"), types.FunctionType) and is_written_by_users(type(one))
               for one in flat(wanted)):
            raise Break("RB004", "isinstance() by a class that answers itself")
        return self.answer_kind(issubclass, self.classes.class_of(value), wanted, None)

    def answer_kind(self, ask, one, wanted, source):
        """Return the result of ``isinstance`` or ``issubclass``, with guards: bases can be replaced, abstract classes
        and protocols evaluate each time."""
        found, cls = ask(one, wanted), one if ask is issubclass else type(one)
        self.absence.keep_bases(cls)
        hook = "__subclasscheck__" if ask is issubclass else "__instancecheck__"
        asked = [kind for kind in flat(wanted) if isinstance(kind, type) and not is_framework(kind.__module__)
                 and self.absence.find(type(kind), hook) is not static(type, hook)]
        if asked and any(map(is_written_by_users, (cls, *asked))):
            place = self.guarding.constant_source(one) if source is None else source
            check = f"{self.guarding.constant_name(ask)}({{0}}, {self.guarding.constant_name(wanted)}) is {found}"
            self.guarding.guard(check, place.each_call())
        return Constant(found)

    @CALLED.by(getattr)
    def builtin_getattr(self, owner, name, default=None):
        name, depth = self.values.known(name), len(self.machine.frames)
        try:
            found = self.attributes.getattr(owner, name)
        except Raised as error:
            if default is None or not issubclass(error.value.cls, AttributeError):
                raise
            return default
        if found is None and default is not None:
            del self.machine.frames[depth:]
            return self.calls.call_python(polyfills.attribute_or, [owner, Constant(name), default])
        return found

    @CALLED.by(hasattr)
    def builtin_hasattr(self, owner, name):
        depth = len(self.machine.frames)
        try:
            self.attributes.getattr(owner, self.values.known(name))
        except Raised as error:
            if not issubclass(error.value.cls, AttributeError):
                raise
            return Constant(False)
        if len(self.machine.frames) > depth:
            del self.machine.frames[depth:]
            return self.calls.call_python(polyfills.has_attribute, [owner, name])
        return Constant(True)

    @CALLED.by(setattr)
    def builtin_setattr(self, owner, name, value):
        depth = len(self.machine.frames)
        self.writes.setattr(owner, self.values.known(name), value)
        return self.after_store(depth)

    @CALLED.by(delattr)
    def builtin_delattr(self, owner, name):
        depth = len(self.machine.frames)
        self.writes.delattr(owner, self.values.known(name))
        return self.after_store(depth)

    def after_store(self, depth):
        """Return the result of a call that stores: None, which the frame of a setter returns too."""
        if len(self.machine.frames) == depth:
            return Constant(None)
        self.machine.frames[depth].discard = False
        return None

    @CALLED.by(vars)
    def builtin_vars(self, *owner):
        if not owner:
            raise Break("RB008", "vars()", native=True)
        return self.attributes.getattr(owner[0], "__dict__")

    @CALLED.by(hash)
    def builtin_hash(self, value):
        key = self.mappings.key(value, hash)
        if not isinstance(key, Key) or key.number == id(key.value):
            return self.arithmetic.fold(hash, [value])
        return Constant(key.number)

    @CALLED.by(type)
    def builtin_type(self, *arguments):
        if len(arguments) != 1:
            raise Break("RB001", "a new class")
        return self.values.from_python(self.classes.class_of(arguments[0]))

    @CALLED.by(super)
    def builtin_super(self, cls=None, owner=None):
        frame = self.machine.frames[-1]
        if cls is None:
            if not frame.code.co_argcount or "__class__" not in frame.cells:
                raise Break("RB007", "super() without an object or class")
            first = frame.code.co_varnames[0]
            cls = frame.cells["__class__"].content
            owner = frame.locals[first] if first in frame.locals else frame.cells[first].content
        return Super(self.values.force(cls).value, self.values.force(owner))

    @CALLED.by(id)
    def builtin_id(self, value):
        value = self.values.force(value)
        if isinstance(value, TensorValue) and value.source is not None and value.source.covered:
            self.guarding.identify(value.source, value.real)
            return Constant(id(value.real))
        if isinstance(value, Object) and isinstance(value.value, (Module, *IDENTITIES)):
            self.outside.pin(value)
            self.guarding.is_tied |= isinstance(value.value, Module)
            return Constant(id(value.value))
        if isinstance(value, (Constant, Number)):
            raise Break("RB001", "id() of a number or text")
        return Identity(value)

    @CALLED.by(len)
    def builtin_len(self, value):
        return self.containers.length(value)

    @CALLED.by(iter)
    def builtin_iter(self, value, *sentinel):
        if sentinel:
            return self.calls.call_python(polyfills.iter_, [value, *sentinel])
        return self.iterators.iterator(value)

    @CALLED.by(next)
    def builtin_next(self, iterator, default=None):
        return self.iterators.next(iterator, default)

    @CALLED.by(range)
    def builtin_range(self, *bounds):
        bounds = [self.numbers.number_in(b, int) if isinstance(self.values.force(b), TensorValue) else b
                  for b in bounds]
        return self.arithmetic.fold(range, list(map(self.protocols.index_of, bounds)))

    @CALLED.by(reversed)
    def builtin_reversed(self, value):
        return self.iterators.reverse_iterator(value)

    @CALLED.by(min, max, told=True)
    def builtin_min_max(self, function, *arguments, **keywords):
        if not keywords and all(isinstance(self.values.force(a), Constant) for a in arguments) and len(arguments) > 1:
            return self.arithmetic.fold(function, arguments)
        if not keywords and self.framework.vary(arguments) and any(self.classes.class_of(a) is float
                                                                   for a in arguments):
            return self.arithmetic.computed_by(function, arguments)
        if len(arguments) > 1 and not keywords and self.numbers.has_unknown(arguments):
            return functools.reduce(functools.partial(self.numbers.extreme, function.__name__),
                                    map(self.values.force, arguments))
        if len(arguments) > 1 and not keywords and self.is_whole_comparison(arguments):
            chosen = map(self.values.from_python, (operator.gt if function is max else operator.lt, OPS["where"]))
            return self.calls.call_python(polyfills.best_tensor, [*chosen, *arguments])
        return self.calls.call_python(polyfills.POLYFILLS[function], arguments, keywords)

    def is_whole_comparison(self, arguments) -> bool:
        """Whether ``min`` or ``max`` of tensors without dimensions, and numbers, must not end the graph."""
        if not self.machine.entry.owner.fullgraph:
            return False
        arguments = list(map(self.values.force, arguments))
        return any(isinstance(a, TensorValue) for a in arguments) and all(
            a.fake.dim() == 0 if isinstance(a, TensorValue) else
            isinstance(a, Constant) and type(a.value) in (int, float) for a in arguments)

    @CALLED.by(callable)
    def builtin_callable(self, value):
        value = self.values.force(value)
        if isinstance(value, (Function, Method, ContainerMethod, Partial)):
            return Constant(True)
        cls = self.classes.class_of(value)
        if isinstance(value, Object) and self.classes.user_class(value):
            self.classes.class_attribute(cls, "__call__")
        return Constant(callable(value.value) if isinstance(value, (Object, Constant))
                        else static(cls, "__call__") is not ABSENT)

    @CALLED.by(bool, operator.truth)
    def builtin_bool(self, value=Constant(False)):
        return Constant(self.arithmetic.truth(value))

    @CALLED.by(int, float, complex, told=True)
    def builtin_number(self, kind, value=None, *more):
        if value is None:
            return Constant(kind())
        value = self.values.force(value)
        if isinstance(value, ArrayValue):
            value = self.arrays.tensor_of_array(value)
        if isinstance(value, TensorValue):
            value = self.numbers.number_in(value, kind)
        if isinstance(value, Number) and type(value.hint) is kind and not more:
            return value
        if self.framework.vary([value]) and not more:
            return self.arithmetic.computed_by(kind, [value])
        if kind is not complex and self.numbers.has_unknown([value]) and not more:
            return self.numbers.convert(kind, value)
        for name in () if more else NUMBER_METHODS[kind]:
            if found := self.protocols.has(value, name):
                made = self.protocols.now_answered(name, found, value)
                return made if name == NUMBER_METHODS[kind][0] else self.builtin_number(kind, made)
            if static(self.classes.class_of(value), name) is not ABSENT:
                break  # that of a builtin
        return self.arithmetic.fold(kind, [value, *more])

    @CALLED.by(str, repr, told=True)
    def builtin_text(self, function, value=Constant(""), *more):
        value = self.values.force(value)
        if isinstance(value, TensorValue):
            raise Break("RB003", "printing a tensor")
        if isinstance(value, Deferred) and function is str:
            return value
        if isinstance(value, Number) and self.numbers.unknown(value) and not more:
            return self.output.deferred(f"{function.__name__}({{0}})", [value], lambda: None)
        if isinstance(value, Object) and isinstance(value.value,
                                                    BaseException) and not self.arithmetic.method(
                                                        value, f"__{function.__name__}__"):
            value = ExceptionValue(type(value.value), self.containers.items_of(self.attributes.getattr(value, "args")))
        if isinstance(value, ExceptionValue):
            if function is str and value.cls.__str__ is BaseException.__str__:
                parts = [self.values.known(a) for a in value.arguments]
                return Constant(str(parts[0]) if len(parts) == 1 else str(tuple(parts)) if parts else "")
            if self.classes.python_class(value.cls) and not self.classes.class_attribute(
                    value.cls, f"__{function.__name__}__"):
                base = next(b for b in value.cls.__mro__ if not self.classes.python_class(b))
                text = self.arithmetic.fold(function, [ExceptionValue(base, value.arguments)]).value
                return Constant(text if function is str else text.replace(base.__name__, value.cls.__name__, 1))
        cls = value.cls if isinstance(value, ExceptionValue) else self.classes.user_class(value)
        own = cls and function is str and self.absence.find(cls, "__str__") is not object.__str__
        if (type(value) is Object and cls and value.source is not None and not own
            and self.absence.find(cls, "__repr__") is object.__repr__
            and isinstance(function, type | types.BuiltinFunctionType)):
            self.guarding.guard(f"{{0}} is {self.guarding.constant_name(value.value)}", value.source)
            return Constant(function(value.value))  # contains the object's address
        for name in (("__str__",) if own else ("__repr__",)):
            found = cls and self.classes.class_attribute(cls, name)
            if found:
                return self.protocols.answered(f"__{function.__name__}__", found, value)
        return self.arithmetic.fold(function, [value, *more])

    @CALLED.by(sys.exception)
    def exception_now(self):
        """``sys.exception()``."""
        return self.machine.handling[-1] if self.machine.handling else Constant(None)

    @CALLED.by(os.fspath)
    def builtin_fspath(self, path):
        """``os.fspath``."""
        method = self.arithmetic.method(self.values.force(path), "__fspath__")
        return self.calls.call(method, [path], {}) if method else self.arithmetic.fold(os.fspath, [path])

    @CALLED.by(sys.exc_info)
    def exception_info(self):
        """``sys.exc_info()``."""
        if self.machine.handling:
            raise Break("RB008", "exc_info() while an exception is handled", native=True)
        return Sequence(tuple, [Constant(None)] * 3)

    @CALLED.by(issubclass)
    def builtin_issubclass(self, cls, classes):
        return self.answer_kind(issubclass, self.values.known(cls), self.values.known(classes), None)

    @CALLED.by(slice)
    def builtin_slice(self, *bounds):
        return Constant(slice(*map(self.protocols.slice_bound, bounds)))

    @CALLED.by(inspect.signature)
    def signature(self, function, **options):
        """``inspect.signature`` of a function that exists: its signature is known now."""
        function = self.values.force(function)
        bound = isinstance(function, Method)
        target = self.values.force(function.function) if bound else function
        if options or not isinstance(target, Object) or not isinstance(target.value,
                                                                       types.FunctionType | types.MethodType):
            raise Break("RB001", f"inspect.signature() of a {self.values.describe(function)}")
        self.outside.pin(target)
        return self.values.from_python(inspect.signature(types.MethodType(target.value, target) if bound
                                                         else target.value))

    # --- other replaced functions -------------------------------------------------------------------------------------
    @CALLED.by(types.MappingProxyType)
    def itself(self, value):
        return value

    @CALLED.by(collections._count_elements)
    def count_elements(self, *arguments):
        return self.calls.call_python(polyfills.count_elements, arguments)

    # installed packages do not change
    @CALLED.by(sys.intern, importlib.util.find_spec, importlib.import_module, importlib.metadata.version,
               importlib.metadata.metadata, importlib.metadata.distribution,
               importlib.metadata.packages_distributions, told=True)
    def called_now(self, function, *arguments, **keywords):
        return self.arithmetic.fold(function, arguments, keywords)

    @CALLED.by(polyfills.no_container)
    def no_container(self, cls):
        return self.arithmetic.fold(operator.contains,
                                    [Constant(stand_in(self.values.known(cls), "", None)), Constant(0)])

    @CALLED.by(operator.getitem)
    def spelled_getitem(self, owner, index):
        return self.containers.subscript(owner, index)

    @CALLED.by(operator.contains)
    def spelled_contains(self, owner, item):
        return self.containers.contains(owner, item)

    @CALLED.by(operator.not_)
    def spelled_not(self, value):
        return self.arithmetic.opposite(value)

    @CALLED.by(*COMPARED, told=True)
    def spelled_comparison(self, function, a, b):
        return self.arithmetic.compare_lazily(COMPARED[function], a, b)


def flat(classes) -> list:
    """Return the classes in an argument of ``isinstance``: one, or nested tuples of them."""
    inner = classes.__args__ if isinstance(classes, types.UnionType) else classes
    return [one for part in inner for one in flat(part)] if isinstance(inner, tuple) else [classes]
