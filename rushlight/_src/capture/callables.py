"""User's functions that framework code calls while it is recorded, such as the score_mod of attention: made again
around what is captured."""
from __future__ import annotations

import types

from ..core.native import Tensor
from .attributes import is_framework
from .parts import Part
from .values import Function, Object


class Callables(Part):
    """The part of the Machine that hands functions to framework code."""

    def for_framework(self, value):
        """The Python value that framework code gets which calls functions: these, and objects that hold them, made of
        what is captured."""
        value = self.force(value)
        if isinstance(value, Function) or isinstance(value, Object) and isinstance(value.value, types.FunctionType):
            return self.callable_of(value)
        parts = getattr(type(value.value), "captured_attributes", ()) if isinstance(value, Object) else ()
        if parts:
            made = object.__new__(type(value.value))
            for name in parts:
                setattr(made, name, self.for_framework(self.getattr(value, name)))
            return made
        return self.concrete(value)

    def callable_of(self, value):
        """A function whose closure, defaults and global tensors are those that were captured."""
        if isinstance(value, Object):
            if is_framework(value.value.__module__):
                return value.value
            value = self.as_function(value)
        if id(value) in self.callables:
            return self.callables[id(value)][0]
        cells = [types.CellType() for _ in value.closure]
        made = types.FunctionType(value.code, self.namespace_of(value), value.name,
                                  tuple(map(self.for_framework, value.defaults or ())), tuple(cells))
        made.__kwdefaults__ = {n: self.for_framework(v) for n, v in value.keyword_defaults.items()}
        self.callables[id(value)] = made, value
        for cell, captured in zip(cells, value.closure):
            if captured.content is not None:
                cell.cell_contents = self.for_framework(captured.content)
        return made

    def namespace_of(self, function):
        """The globals of a function, with tensors, numbers and functions among what it reads as they are captured."""
        namespace = dict(function.namespace)
        for name in function.code.co_names:
            value = namespace.get(name)
            if isinstance(value, (Tensor, int, float, list, tuple,
                                  dict)) or isinstance(value, types.FunctionType) and not is_framework(
                                      value.__module__):
                namespace[name] = self.for_framework(self.load_global(function.namespace, name))
        return namespace
