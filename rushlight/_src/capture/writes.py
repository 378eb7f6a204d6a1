"""Mutations by a program: of attributes and containers."""
from __future__ import annotations

import enum
import types

from ...nn.modules.module import Module
from ..core.native import Tensor, mine, state
from . import marks
from .classes import ABSENT, HEAP, is_data_descriptor, is_framework, static
from .errors import Break, Raised
from .parts import Part
from .values import Constant, ExceptionValue, Function, Instance, Namespace, Object, Partial, Sequence, TensorValue


class Writes(Part, part="writes"):
    """Capture component that writes attributes, and records the mutations to replay at a segment's end."""

    needs = "absence", "attributes", "calls", "classes", "framework", "guarding", "training", "values"

    def __init__(self, machine):
        super().__init__(machine)
        self.set_attributes: dict = {}  # (id of a Value, name) -> Value set there; DELETED where deleted
        self.owners: dict = {}  # the same -> (the Value, True if stored as by object.__setattr__)
        self.class_stores: set = set()  # names of attributes that were set on classes
        self.changed: list = []  # containers and cells from outside that were changed
        self.set_globals: dict = {}  # (id of a namespace, name) -> (namespace, Value)

    def mark(self, container):
        """Record that a container from outside is mutated; its contents are read first."""
        if isinstance(container, Namespace):
            raise Break("RB004", "changing the __dict__ of an object")
        if not container.changed:
            container.changed = True
            if container.source is not None:
                self.changed.append(container)

    # --- writing ------------------------------------------------------------------------------------------------------
    def setattr(self, owner, name, value):
        """Return None, or a call that was pushed (its result must be dropped)."""
        owner = self.values.force(owner)
        if isinstance(owner, Function):
            owner.attributes[name] = value
            return
        if self.classes.is_class(owner) and self.stores_on(owner.value):
            self.class_stores.add(name)
            return self.put(owner, name, value, False)
        attributed = isinstance(owner, (Object, Instance, ExceptionValue,
                                        Partial)) or isinstance(owner, Sequence) and owner.kind.__dictoffset__
        if not attributed or isinstance(owner, Object) and isinstance(owner.value, (type, types.ModuleType)):
            if isinstance(owner, TensorValue) and name == "grad":
                return self.training.set_grad(owner, value)
            if isinstance(owner, TensorValue) and name == "requires_grad":
                self.framework.run_framework(Tensor.requires_grad_, [owner, value], {})
                return
            if isinstance(owner, TensorValue) and self.own_store(owner, name):
                return self.put(owner, name, value, False)
            if isinstance(owner, TensorValue):
                raise Break("RB011" if name == "data" else "RB004", f"setting .{name} of a tensor")
            raise Break("RB004", f"setting {name!r} of a {self.values.describe(owner)}")
        cls = self.classes.class_of(owner)
        override = self.absence.find(cls, "__setattr__")
        if isinstance(override, types.FunctionType) and (override is not Module.__setattr__
                                                         or isinstance(owner, Instance)):
            self.push_dropping(Object(override, self.guarding.constant_source(override)),
                               [owner, Constant(name), value])
            return
        if isinstance(owner, Object) and isinstance(owner.value, Module):
            self.check_module_store(owner.value, name, value)
        self.store(owner, name, value, override is object.__setattr__)

    def own_store(self, owner, name) -> bool:
        """True if an attribute of a tensor is the user's own, of a tensor that no module holds."""
        cls = self.classes.class_of(owner)
        return (not (owner.source and owner.source.covered) and static(Tensor, name) is ABSENT
                and not is_data_descriptor(static(cls, name))
                and cls.__setattr__ is Tensor.__setattr__)

    def stores_on(self, cls) -> bool:
        """True if attributes of a class are stored the ordinary way, and found again that way."""
        plain = type(cls).__setattr__ is type.__setattr__ and cls.__flags__ & HEAP and not isinstance(
            cls, enum.EnumMeta)
        return bool(plain and not is_framework(cls.__module__) and not issubclass(cls, (Module, Tensor)))

    def check_module_store(self, module, name, value):
        value = self.values.force(value)
        if isinstance(value, TensorValue) and issubclass(self.classes.class_of(value),
                                                         _parameter()) or isinstance(value, Object) and isinstance(
                                                             value.value, Module):
            raise Break("RB004", f"assigning a parameter or module as {name!r}")
        if name in module._parameters or name in module._modules:
            raise Break("RB004", f"replacing {name!r} of a module")

    def store(self, owner, name, value, raw):
        cls = self.classes.class_of(owner)
        found = self.absence.find(cls, name)
        if isinstance(found, property):
            if found.fset is None:
                raise Raised(ExceptionValue(AttributeError,
                                            [Constant(f"property {name!r} of {cls.__name__!r} object has no setter")]))
            self.push_dropping(self.values.from_python(found.fset), [owner, value])
            return
        setter = static(type(found), "__set__") if found is not ABSENT else ABSENT
        if isinstance(setter, types.FunctionType):
            self.push_dropping(self.values.from_python(setter), [self.values.from_python(found), owner, value])
            return
        self.put(owner, name, value, raw)

    def put(self, owner, name, value, raw):
        cls = self.classes.class_of(owner)
        of_thread = isinstance(owner, Object) and owner.value is mine
        if isinstance(owner, (Object, Instance)) and not of_thread and not self.classes.is_class(
                owner) and not cls.__dictoffset__ and cls.__setattr__ is object.__setattr__ and \
                not isinstance(static(cls, name), types.MemberDescriptorType):
            if static(cls, name) is not ABSENT:
                raise Break("RB007", f"setting {name!r} of a {cls.__name__}, which has slots")
            raise Raised(ExceptionValue(AttributeError,
                                        [Constant(NO_SLOT.replace("Slotted", cls.__name__)
                                                  .replace("'name'", repr(name)))]))
        self.set_attributes[id(owner), name] = value
        self.owners[id(owner), name] = owner, raw
        if of_thread or isinstance(owner, Object) and marks.is_followed(owner.value):
            setattr(owner.value, name, self.values.known(value))

    def delattr(self, owner, name):
        owner = self.values.force(owner)
        cls = self.classes.class_of(owner)
        raw = self.absence.find(cls, name)
        hook = self.classes.class_attribute(cls, "__delattr__")
        deleter = static(type(raw), "__delete__") if raw is not ABSENT else ABSENT
        if (not isinstance(owner, (Instance, Object)) or isinstance(owner, Object)
            and isinstance(owner.value, (type, types.ModuleType, Module))):
            raise Break("RB004", f"deleting attribute {name!r}")
        if hook:
            return self.push_dropping(hook, [owner, Constant(name)])
        if isinstance(raw, property) and raw.fdel is not None:
            return self.push_dropping(self.values.from_python(raw.fdel), [owner])
        if isinstance(deleter, types.FunctionType):
            return self.push_dropping(self.values.from_python(deleter), [self.values.from_python(raw), owner])
        self.remove(owner, name)

    def remove(self, owner, name):
        """Delete an attribute that the object itself has."""
        written = self.set_attributes.get((id(owner), name))
        if isinstance(owner, Object):
            if written is DELETED or written is None and not (name in getattr(owner.value, "__dict__", ())
                                                              or hasattr(type(owner.value), name)):
                raise self.classes.missing(owner, name)
            if written is None:
                self.attributes.getattr(owner, name, False)
            self.set_attributes[id(owner), name] = DELETED
            self.owners[id(owner), name] = owner, True
        elif written is None:
            raise self.classes.missing(owner, name)
        else:
            del self.set_attributes[id(owner), name], self.owners[id(owner), name]

    def push_dropping(self, function, arguments, keywords=None):
        depth = len(self.machine.frames)
        result = self.calls.call(function, arguments, keywords or {})
        if result is None and len(self.machine.frames) > depth:
            self.machine.frames[depth].discard = True


DELETED = Constant(None)


class Slotted:
    __slots__ = ()


try:
    Slotted().name = None
except AttributeError as _error:
    NO_SLOT = str(_error)  # the message of this Python version


def _parameter():
    return state.parameter
