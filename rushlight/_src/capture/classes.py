"""Classes of values, and attribute lookup in them."""
from __future__ import annotations

import functools
import sys
import types
from collections import OrderedDict

import numpy as np

from ..autograd.node import Handle
from ..core.native import Tensor
from .errors import Raised
from .parts import Part
from .values import (IDENTITIES, ArrayValue, Constant, Deferred, ExceptionValue, Function, GeneratorValue, HookHandle,
                     Identity,
                     Instance, IteratorValue, Mapping, Method, Number, Object, Partial, Sequence, SetValue,
                     TensorValue, View, WrapperValue)

ABSENT = object()
HEAP, IMMUTABLE = 1 << 9, 1 << 8  # flags of classes: made at run time; without attributes that can be set


def static(cls, name):
    """Return the raw class attribute, or ABSENT."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return ABSENT


def is_data_descriptor(raw) -> bool:
    return raw is not ABSENT and hasattr(type(raw), "__set__")


def empty_view(view):
    """Return a view of an empty dict, of the class that a View represents."""
    return getattr(OrderedDict() if view.mapping.kind is OrderedDict else {}, view.part)()


def is_written_by_users(cls) -> bool:
    """True if a class was written in Python, outside of the framework and the standard library."""
    return bool(cls.__flags__ & HEAP) and not is_framework(cls.__module__) and str(cls.__module__).split(".")[
        0] not in sys.stdlib_module_names


def takes_attributes(cls) -> bool:
    """True if attributes of a class can be set."""
    return bool(cls.__flags__ & HEAP) and not cls.__flags__ & IMMUTABLE


class Classes(Part, part="classes"):
    """Capture component for classes."""

    needs = "absence", "guarding", "iterators", "values"

    def class_of(self, value):
        """Return the Python class of a Value."""
        value = self.values.force(value)
        if isinstance(value, (Constant, Object)):
            return type(value.value)
        if isinstance(value, Number):
            return type(value.hint)
        if isinstance(value, Deferred):
            return str
        if isinstance(value, ArrayValue):
            return value.array.dtype.type if value.array.scalar else np.ndarray
        if isinstance(value, WrapperValue):
            return type(value.fake)
        if isinstance(value, TensorValue):
            return getattr(value.fake, "like", Tensor)
        if isinstance(value, (Sequence, Mapping, SetValue)):
            return value.kind
        if isinstance(value, (Instance, ExceptionValue)):
            return value.cls
        if isinstance(value, Function):
            return types.FunctionType
        if isinstance(value, Partial):
            return functools.partial
        if isinstance(value, HookHandle):
            return Handle
        if isinstance(value, Identity):
            return int
        if isinstance(value, View):
            return type(empty_view(value))
        if isinstance(value, GeneratorValue):
            return value.kind or types.GeneratorType
        if isinstance(value, IteratorValue):
            return self.iterators.class_of_iterator(value)
        return types.MethodType if isinstance(value, Method) else types.BuiltinMethodType

    def user_class(self, value):
        """Return the class of a Value if it was written in Python and may define operators; else None."""
        if isinstance(value, Instance):
            return value.cls
        if isinstance(value, (Sequence, Mapping, SetValue)):  # named tuples
            return value.kind if value.kind.__flags__ & HEAP and takes_attributes(value.kind) and not is_framework(
                value.kind.__module__) else None
        if isinstance(value, Object) and not isinstance(value.value, IDENTITIES) and type(value.value).__flags__ & HEAP:
            return type(value.value)
        return None

    def class_attribute(self, cls, name):
        """Return a Python function found in a class, as a Value; None if there is none."""
        self.absence.check_stores(cls, name)
        raw = self.absence.find(cls, name)
        if not isinstance(raw, types.FunctionType):
            return None
        self.guarding.rely(cls, name, raw)
        return Object(raw, self.guarding.constant_source(raw))

    def python_class(self, cls) -> bool:
        """True if a class was written in Python."""
        return bool(cls.__flags__ & HEAP) and cls.__module__ != "builtins"

    def missing(self, owner, name):
        """Return Python's error for an attribute that an object does not have."""
        text = f"{self.class_of(owner).__name__!r} object has no attribute {name!r}"
        real = getattr(owner, "real", None) if isinstance(owner, TensorValue) else (
            owner.value if isinstance(owner, Object) else None)
        if real is not None and not isinstance(real, (type, types.ModuleType)):
            try:
                object.__getattribute__(real, name)
            except AttributeError as error:
                text = str(error)  # some classes are named with their module
        return Raised(ExceptionValue(AttributeError, [Constant(text)]))

    def is_class(self, value):
        return isinstance(value, Object) and isinstance(value.value, type)


def is_framework(name) -> bool:
    """True if a module of this name belongs to the framework, whose globals do not change; the name may begin with
    another name that its package is imported under (``torch``)."""
    if not isinstance(name, str):
        return False
    package = name.partition(".")[0]
    return package == FRAMEWORK or sys.modules.get(package) is sys.modules[FRAMEWORK]


FRAMEWORK = __name__.split(".")[0]
PLAIN_CODE: dict = {}  # (file, code) -> True if it does not refer to the framework


def plain_code(code, namespace) -> bool:
    """True if a function does not refer to the framework."""
    key = code.co_filename, code
    known = PLAIN_CODE.get(key)
    if known is None:
        found = (namespace.get(name) for name in code.co_names)
        named = any(is_framework(getattr(v, "__name__" if isinstance(v, types.ModuleType) else "__module__", None))
                    for v in found)
        known = PLAIN_CODE[key] = not named and all(plain_code(c, namespace) for c in code.co_consts
                                                    if isinstance(c, types.CodeType))
    return known
