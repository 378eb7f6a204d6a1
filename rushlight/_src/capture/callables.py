"""User functions that framework code calls while it is recorded, such as attention's score_mod: rebuilt around captured
values."""
from __future__ import annotations

import types

from ..core.native import Tensor
from .classes import is_framework
from .parts import Part
from .values import Function, Object


class Callables(Part, part="callables"):
    """Capture component that passes functions to framework code."""

    needs = "attributes", "calls", "instructions", "values"

    def __init__(self, machine):
        super().__init__(machine)
        self.made: dict = {}  # id of a Function -> (the callable for framework code, it)

    def for_framework(self, value):
        """Return the Python value for framework code that calls functions: these, and objects that contain them,
        rebuilt from captured values."""
        value = self.values.force(value)
        if isinstance(value, Function) or isinstance(value, Object) and isinstance(value.value, types.FunctionType):
            return self.callable_of(value)
        parts = getattr(type(value.value), "captured_attributes", ()) if isinstance(value, Object) else ()
        if parts:
            made = object.__new__(type(value.value))
            for name in parts:
                setattr(made, name, self.for_framework(self.attributes.getattr(value, name)))
            return made
        return self.values.concrete(value)

    def callable_of(self, value):
        """Return a function whose closure, defaults and global tensors are the captured ones."""
        if isinstance(value, Object):
            if is_framework(value.value.__module__):
                return value.value
            value = self.calls.as_function(value)
        if id(value) in self.made:
            return self.made[id(value)][0]
        cells = [types.CellType() for _ in value.closure]
        made = types.FunctionType(value.code, self.namespace_of(value), value.name,
                                  tuple(map(self.for_framework, value.defaults or ())), tuple(cells))
        made.__kwdefaults__ = {n: self.for_framework(v) for n, v in value.keyword_defaults.items()}
        self.made[id(value)] = made, value
        for cell, captured in zip(cells, value.closure):
            if captured.content is not None:
                cell.cell_contents = self.for_framework(captured.content)
        return made

    def namespace_of(self, function):
        """Return the globals of a function, with the captured tensors, numbers and functions among those it reads."""
        namespace = dict(function.namespace)
        for name in function.code.co_names:
            value = namespace.get(name)
            if isinstance(value, (Tensor, int, float, list, tuple,
                                  dict)) or isinstance(value, types.FunctionType) and not is_framework(
                                      value.__module__):
                namespace[name] = self.for_framework(self.instructions.load_global(function.namespace, name))
        return namespace
