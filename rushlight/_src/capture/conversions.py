"""Conversions of Values: from Python, to Python, and for framework code."""
from __future__ import annotations

import types

import numpy as np

from ...nested.tensor import Nested
from ...nn.modules.module import Module
from ..core import overriding
from ..core.dtypes import bool_
from ..core.expr import Expr
from ..core.nodes import evaluate
from ..core.meta import Size
from ..core.native import Tensor
from ..transforms.level import Wrapped
from .classes import is_framework
from .equality import is_immutable
from .errors import Break
from .fake import Fake
from .parts import Part
from .reals import Real
from .unbacked import Reading
from .values import (IDENTITIES, NUMBERS_AND_TEXT, PLAIN, ArrayValue, Comparison, Constant, Deferred, ExceptionValue,
                     Key, Lazy, Mapping, Number, Object, RaggedValue, Sequence, SetValue, TensorValue)

FAKE_ARRAYS = f"{__package__}.fake_arrays"


class Conversions(Part, part="values"):
    """Capture component that converts between Values and Python."""

    needs = "classes", "containers", "guarding", "mappings", "nesting", "outside", "transforms", "wrappers"

    def force(self, value):
        """Return the value with a Lazy resolved, and a Comparison decided."""
        if type(value) is Comparison:
            return Constant(bool(value.condition))
        return self.outside.wrap(value.value, value.source) if type(value) is Lazy else value

    # --- values made here ---------------------------------------------------------------------------------------------
    def from_python(self, value):
        """Return a result of Python code as a Value."""
        kind = type(value)
        if kind in PLAIN or kind is slice or isinstance(value, np.generic):
            return Constant(value)
        if kind is Key:
            return value.value
        if kind is Real:
            return value.number
        if kind is Expr:
            return Number(evaluate(value, self.machine.shape_env.hints), value)
        if isinstance(value, Fake):
            if value.weak and isinstance(value.node.op, Reading):
                return Number((float if value.dtype.is_floating_point else bool if value.dtype is bool_ else int)(3),
                              fake=value)
            made = getattr(value, "value", None)
            if made is None:
                made = value.value = TensorValue(value)
            return made
        if isinstance(value, Wrapped):
            return self.transforms.of_level(value)
        if kind.__name__ == "FakeArray" and kind.__module__ == FAKE_ARRAYS:
            value.value = value.value or ArrayValue(value)
            return value.value
        if isinstance(value, Nested):
            return self.nesting.entered(value)
        if isinstance(value, Tensor) and overriding.kind_of(kind) & overriding.DISPATCH:
            return self.wrappers.met(value)
        if isinstance(value, Tensor):
            return self.from_python(self.outside.lift(value))
        if kind in (list, tuple, Size) or isinstance(value, tuple) and hasattr(kind, "_fields"):
            return Sequence(kind, [self.from_python(v) for v in value])
        if kind is dict or kind is types.MappingProxyType:
            return Mapping({k: self.from_python(v) for k, v in value.items()})
        if kind in (set, frozenset):
            return SetValue({k: self.from_python(k) for k in value}, kind=kind)
        known = self.outside.wrapped.get(id(value))
        if known is not None:
            return known
        made = self.outside.wrapped[id(value)] = Object(value, self.guarding.constant_source(value))
        return made

    def known(self, value):
        """Return the Python value of a Value that is known in full; Break if it is not."""
        value = self.force(value)
        if isinstance(value, Constant):
            return value.value
        if isinstance(value, Number):
            if value.expr is not None:
                return self.machine.shape_env.integer(value.expr)
            if value.fake is not None:
                raise Break("RB003", f"a {type(value.hint).__name__} that depends on data must be known here")
            self.guarding.guard(self.guarding.equality(value.text, value.hint))
            return value.hint
        if isinstance(value, Object) and (isinstance(value.value, (*IDENTITIES, *NUMBERS_AND_TEXT))
                                          or is_immutable(value.value)):
            self.outside.pin(value)
            return value.value
        if isinstance(value, Sequence) and value.kind in (list, tuple, Size):
            return value.kind([self.known(self.containers.item(value, k)) for k in range(len(value.items))])
        if isinstance(value, Mapping) and value.kind is dict:
            return {k: self.known(self.mappings.lookup(value, k)) for k in value.items}
        if isinstance(value, SetValue):
            return value.kind(value.items)
        if isinstance(value, ExceptionValue) and not self.classes.python_class(value.cls):
            return value.cls(*map(self.known, value.arguments))
        raise Break("RB003" if isinstance(value, Deferred) else "RB004",
                    f"a {self.describe(value)} where a known value is needed")

    def describe(self, value) -> str:
        if isinstance(value, (TensorValue, Fake)):
            return "tensor"
        if isinstance(value, Deferred):
            return "data-dependent string"
        if isinstance(value, ArrayValue):
            return "array"
        if isinstance(value, Object):
            return type(value.value).__name__
        return type(value).__name__.lower()

    def concrete(self, value):
        """Return the Python value for framework code: tensors as Fakes."""
        value = self.force(value)
        if isinstance(value, TensorValue):
            return value.fake
        if isinstance(value, RaggedValue):
            return value.value
        if isinstance(value, ArrayValue):
            return value.array
        if isinstance(value, Number) and (value.expr is not None or value.fake is not None):
            return value.fake if value.expr is None else value.expr
        if isinstance(value, Sequence) and value.kind is not SetValue and hasattr(value, "items"):
            items = [self.concrete(self.containers.item(value, k)) for k in range(len(value.items))]
            return tuple.__new__(value.kind, items) if issubclass(value.kind, tuple) else value.kind(items)
        if isinstance(value, Mapping):
            return {k: self.concrete(self.mappings.lookup(value, k)) for k in value.items}
        if isinstance(value, Object) and not isinstance(value.value, Module):
            if is_immutable(value.value):
                return self.known(value)
            if is_framework(type(value.value).__module__) or isinstance(value.value, IDENTITIES):
                self.guarding.identify(value.source, value.value)
                return value.value
        return self.known(value)
