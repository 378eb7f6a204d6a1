"""Function transforms (``torch.func``): the framework's code runs, and the program's functions that it calls are
captured like any other code.

Transforms are interpreters, so while one is active operators go through it to the recorder.
"""
from __future__ import annotations

import types

from ..core.native import Op, Tensor, mine
from ..transforms.level import Wrapped
from .classes import FRAMEWORK
from .errors import Again, Break
from .parts import Part
from .values import ContainerMethod, Function, Instance, Method, Object, Partial, Sequence, TensorValue

ROOMS = f"{FRAMEWORK}.func.derivatives", f"{FRAMEWORK}.func.jacobians", f"{FRAMEWORK}._src.transforms.vmap"


class Transformed(Object):
    """A function that a transform made here, whose callees are known only while this segment is captured.  ``reason``:
    why it cannot be kept."""

    def __init__(self, value, place, reason="a function made by a transform, which is kept"):
        super().__init__(value)
        self.place, self.reason = place, reason


class Transforms(Part, part="transforms"):
    """Capture component for framework code that calls back."""

    needs = "calls", "classes", "containers", "framework", "outside", "values", "writes"

    def transform(self, function, arguments, keywords):
        """Call a transform, or a function that one made."""
        self.machine.nested = True
        frame = self.machine.frames[-1]
        target = function.value if isinstance(function, Transformed) else self.rebuilt(function)
        modes = self.modes_set()
        try:
            made = self.framework.run_framework(target, arguments, keywords, self.passed)
        finally:
            self.restore_modes(modes)
        if isinstance(made, Object) and isinstance(made.value, types.FunctionType):
            return Transformed(made.value, (frame.code, frame.now.offset))
        if isinstance(made, Sequence):
            made.items = [Transformed(v.value, (frame.code, frame.now.offset)) if isinstance(v, Object)
                          and isinstance(v.value, types.FunctionType) else v
                          for v in made.items]
        return made

    def modes_set(self) -> dict:
        """Return the modes that the program has set, of all attributes."""
        return {key: value for key, value in self.writes.set_attributes.items()
                if isinstance(self.writes.owners[key][0], Object)
                and self.writes.owners[key][0].value is mine}

    def restore_modes(self, before):
        """Drop later settings of modes: a transform has restored them."""
        for key in self.modes_set():
            if key in before:
                self.writes.set_attributes[key] = before[key]
            else:
                del self.writes.set_attributes[key], self.writes.owners[key]

    def passed(self, value):
        """Return a Value as a transform gets it: functions of the program as callbacks into capture."""
        value = self.values.force(value)
        if isinstance(value, Transformed):
            return value.value
        if isinstance(value, Object) and isinstance(value.value,
                                                    types.FunctionType) and value.value.__globals__.get(
                                                        "__name__", "").startswith(ROOMS):
            return self.rebuilt(value)
        if isinstance(value, (Function, Method, Partial,
                              ContainerMethod)) or isinstance(value, (Object, Instance)) and self.calls_back(value):
            return self.callback(value)
        if isinstance(value, Sequence) and value.kind in (tuple, list):
            return value.kind(self.passed(self.containers.item(value, k)) for k in range(len(value.items)))
        return self.values.concrete(value)

    def calls_back(self, value) -> bool:
        """True if a call of an object runs code of the program."""
        if isinstance(value, Instance):
            return self.classes.class_attribute(value.cls, "__call__") is not None
        return callable(value.value) and not isinstance(value.value, (Op, type))

    def callback(self, value):
        """Return a Python function that captures a call of a function of the program."""
        def run(*args, **kwargs):
            result = self.machine.now(value, [self.values.from_python(a) for a in args],
                              {k: self.values.from_python(v) for k, v in kwargs.items()})
            return self.passed(result)

        run.__name__ = run.__qualname__ = self.values.describe(value)
        return run

    def rebuilt(self, function):
        """Return a function that a transform made outside, around callbacks instead of the program's functions."""
        target = function.value
        if not target.__closure__:
            return target
        cells = []
        for name, cell in zip(target.__code__.co_freevars, self.calls.as_function(function).closure):
            if cell.content is None:
                raise Break("RB004", f"a transform whose variable {name!r} has no value")
            cells.append(types.CellType(self.passed(cell.content)))
        made = types.FunctionType(target.__code__, target.__globals__, target.__name__, target.__defaults__,
                                  tuple(cells))
        made.__kwdefaults__ = target.__kwdefaults__
        return made

    def of_level(self, tensor: Wrapped):
        """Return a tensor of an active transform as a Value."""
        known = self.outside.wrapped.get(id(tensor))
        if known is None:
            known = self.outside.wrapped[id(tensor)] = TensorValue(tensor)
            self.outside.alive.append(tensor)
        return known


def outlives(value):
    """Restart capture when a transform's function or tensor would outlive the segment: the call that made it becomes a
    break."""
    raise Again(value.place, Break("RB001", value.reason))


def kind_of(fake):
    """Return the class that a fake tensor, or a tensor of a transform, represents."""
    return getattr(fake, "like", Tensor)
