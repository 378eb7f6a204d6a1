"""Classes with ``__torch_function__``: their answers are captured like other code."""
from __future__ import annotations

import operator
import types

from ..core import overriding
from ..core.meta import Size
from ..core.native import Op, Tensor, mine, state
from .classes import ABSENT, static
from .errors import Break, Raised
from .parts import CALLED, Part
from .values import (IDENTITIES, Constant, ExceptionValue, Instance, Mapping, Method, NestedValue, Number, Object,
                     Sequence, TensorValue, WrapperValue)

SPELLED = {getattr(operator, name): getattr(Tensor, f"__{name.strip('_')}__") for name in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift", "neg",
    "pos", "invert", "abs", "eq", "ne", "lt", "le", "gt", "ge", "getitem", "setitem", "iadd", "isub", "imul",
    "itruediv", "iand", "ior", "ixor") if hasattr(Tensor, f"__{name.strip('_')}__")}
SPELLED[len] = Tensor.__len__
SWAPPED = {operator.add: Tensor.__add__, operator.mul: Tensor.__mul__, operator.sub: Tensor.__rsub__,
           operator.pow: Tensor.__rpow__}  # eager calls with a number on the left call these with the tensor first
PROPERTIES = {value: name for base in reversed(Tensor.__mro__) for name, value in vars(base).items()
              if isinstance(value, property)}
FUNCTIONS = frozenset(value for name in overriding.MEMBERS
                      if isinstance(value := static(Tensor, name), types.FunctionType))


class Subclasses(Part, part="subclasses"):
    """Capture component for classes that override operators."""

    needs = "attributes", "classes", "containers", "values"

    def __init__(self, machine):
        super().__init__(machine)
        self.running = 0  # active calls of ``Tensor.__torch_function__``, on plain tensors
        self.met = False  # True if an input of the graph is of such a class

    # --- classes that answer ------------------------------------------------------------------------------------------
    def of(self, value):
        """Return the class of a Value if it answers operators, else None."""
        value = self.values.force(value)
        if isinstance(value, TensorValue):
            cls = self.classes.class_of(value)
            own = overriding.declared(cls, "__torch_function__") is not overriding.default
            if isinstance(value, NestedValue) or isinstance(value, WrapperValue) and not own:
                return None  # its operators are answered below, by the tensors it wraps
            return None if cls is Tensor or not overriding.kind_of(cls) & overriding.FUNCTION else cls
        if isinstance(value, Instance) or isinstance(value, Object) and not isinstance(value.value, IDENTITIES):
            cls = self.classes.class_of(value)
            return cls if overriding.declared(cls, "__torch_function__") is not None else None
        return None

    def among(self, values, found=()) -> tuple:
        """Return the classes of these that answer: subclasses before their bases, else from left to right."""
        for value in map(self.values.force, values):
            if isinstance(value, Sequence) and value.kind in (list, tuple):
                found = self.among(self.containers.items_of(value), found)
            elif (cls := self.of(value)) is not None and cls not in found:
                at = next((k for k, other in enumerate(found) if issubclass(cls, other)), len(found))
                found = (*found[:at], cls, *found[at:])
        return found

    def disabled(self) -> bool:
        """True if tensors of all classes are plain here."""
        return self.running > 0 or bool(self.values.known(self.attributes.getattr(self.values.from_python(mine),
                                                                                  "plain")))

    def answer(self, function, arguments, keywords):
        """Return the answer of the arguments' classes to an operator; None if no class answers."""
        kinds = self.among((*arguments, *keywords.values()))
        if not kinds or self.disabled():
            return None
        if function in SWAPPED and isinstance(self.values.force(arguments[0]), (Constant, Number)):
            function, arguments = SWAPPED[function], arguments[::-1]
        function = SPELLED.get(function, function)
        if function is getattr:
            return self.attributes.getattr(*arguments[:1], self.values.known(arguments[1]))
        if not isinstance(function, Op) and function not in FUNCTIONS:
            name = getattr(function, "__name__", type(function).__name__)
            raise Break("RB014", f"{kinds[0].__name__}, which {name} is given")
        return self.ask(self.values.from_python(function), kinds, arguments, keywords)

    def ask(self, function, kinds, arguments, keywords):
        """Return the first answer of the classes to a call of ``function`` (a Value); TypeError if there is none."""
        for cls in kinds:
            handler = self.attributes.bound(static(cls, "__torch_function__"), self.values.from_python(cls),
                                            "__torch_function__", cls)
            types_given = Sequence(tuple, list(map(self.values.from_python, kinds)))
            found = self.values.force(self.machine.now(handler, [
                function, types_given, Sequence(tuple, list(arguments)), Mapping(dict(keywords))]))
            if not (isinstance(found, Constant) and found.value is NotImplemented):
                return found
        raise Raised(ExceptionValue(TypeError, [Constant(
            f"Multiple dispatch failed; all __torch_function__ handlers returned NotImplemented: "
            f"{', '.join(k.__name__ for k in kinds)}")]))

    @CALLED.by(overriding.default)
    def default(self, cls, function, kinds, arguments=None, keywords=None):
        """``Tensor.__torch_function__``: the operator on plain tensors; results get the class."""
        cls = self.values.known(cls)
        if not all(issubclass(cls, self.values.known(kind)) for kind in self.containers.items_of(
                self.values.force(kinds))):
            return Constant(NotImplemented)
        given = [] if arguments is None else self.containers.expanded(arguments)
        named = self.values.force(keywords) if keywords is not None else Constant(None)
        self.running += 1
        try:
            result = self.machine.now(function, given, dict(named.items) if isinstance(named, Mapping) else {})
        finally:
            self.running -= 1
        target = getattr(self.values.force(function), "value", None)
        return result if isinstance(target, Op) and target in overriding.UNCHANGED else self.reclassed(result, cls)

    @CALLED.by(static(Tensor, "as_subclass"))
    def as_subclass(self, tensor, cls):
        return self.seen_as(self.values.force(tensor), self.values.known(cls))

    def reclassed(self, value, cls):
        """Return tensors as instances of a class, within lists and tuples."""
        value = self.values.force(value)
        if isinstance(value, WrapperValue) or overriding.kind_of(cls) & overriding.DISPATCH:
            return value
        if isinstance(value, TensorValue):
            own = self.classes.class_of(value)
            return value if issubclass(own, cls) and own is not state.parameter else self.seen_as(value, cls)
        if isinstance(value, Sequence) and issubclass(value.kind, (list, tuple)) and value.kind is not Size:
            made = Sequence(value.kind, [self.reclassed(item, cls) for item in self.containers.items_of(value)])
            return made
        return value

    def seen_as(self, value, cls):
        """Return the same tensor as another object, of another class."""
        if overriding.kind_of(cls) & overriding.DISPATCH:
            raise Break("RB014", cls.__name__)
        fake = value.fake
        made = self.machine.recorder.fake(fake.node, fake._rush_meta, fake._rush_needs_grad, fake.inputs, cls)
        made.weak = fake.weak
        found = made.value = TensorValue(made)
        return found

    def make(self, cls, arguments, keywords):
        """Return a new tensor of a subclass, over the memory of one that is made here; None if the call means something
        else."""
        tensor = self.values.force(arguments[0]) if len(arguments) == 1 and not keywords else None
        plain = static(cls, "__new__") is static(Tensor, "__new__") and static(cls, "__init__") is static(Tensor,
                                                                                                      "__init__")
        if not plain or not isinstance(tensor, TensorValue) or tensor.fake._rush_needs_grad:
            return None
        return self.seen_as(tensor, cls)

    @CALLED.by(overriding.enabled)
    def builtin_enabled(self):
        return Constant(not self.disabled())

    # --- attributes ---------------------------------------------------------------------------------------------------
    def attribute(self, owner, name, cls):
        """Return an attribute of a tensor of a class that answers; NotImplemented if it is a plain tensor's."""
        if name == "__class__" or self.disabled() and static(Tensor, name) is not ABSENT:
            return NotImplemented
        raw = static(cls, name)
        own = getattr(getattr(raw, "fget", raw), "stands_for", None)  # of a member that overriding classes answer
        member = static(Tensor, name)
        if own is None and (raw is ABSENT or raw is not member):
            if owner.source is not None and name in owner.real.__dict__:
                return self.attributes.own_attribute(owner, name)
            if raw is ABSENT:
                return self.attributes.own_attribute(owner, name)
            return self.attributes.bound(raw, owner, name, cls)
        if own is None and name not in overriding.MEMBERS:
            if isinstance(member, (types.FunctionType, Op)):
                return NotImplemented
            raise Break("RB014", f"{name!r} of a {cls.__name__}")
        if not isinstance(member, property):
            return NotImplemented
        get = Method(self.values.from_python(static(property, "__get__")), self.values.from_python(member))
        return self.ask(get, (cls,), [owner], {})

    def read(self, member, owner):
        """Return a property of Tensor on a plain tensor; None for other properties, or if owner is not a tensor."""
        name, owner = PROPERTIES.get(member), self.values.force(owner)
        if name is None or not isinstance(owner, TensorValue):
            return None
        self.running += 1
        try:
            return self.attributes.of_tensor(owner, name)
        finally:
            self.running -= 1
