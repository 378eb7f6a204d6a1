"""Attributes: read and written as Python does, with guards on the values found and their locations."""
from __future__ import annotations

import enum
import functools
import types
import weakref

import numpy as np

from ..._ops import Callable, Namespace as OperatorNamespace, OpOverloadPacket, Ops
from ...nn.modules.module import DICTS, Module
from ..autograd.backward import _tensor_backward
from ..core.epoch import watch
from ..core.meta import Size
from ..core.native import Leaving, Op, mine
from . import polyfills
from .classes import (ABSENT, HEAP, IMMUTABLE, is_data_descriptor, is_framework, is_written_by_users, static,
                      takes_attributes)
from .errors import Break, Raised
from .fake import Fake
from .module_state import is_told, is_told_table
from .parts import ATTRIBUTES, Bound, Part
from .values import (IDENTITIES, PLAIN, ArrayValue, Constant, ContainerMethod, ExceptionValue, Function,
                     GeneratorValue, Instance, IteratorValue, Lazy, Mapping, Method, Namespace, Number, Object,
                     Partial, Sequence, SetValue, SlotValue, Super, TensorValue, View)
from .writes import DELETED

OPERATORS = (Ops, OperatorNamespace, OpOverloadPacket)
REPLACEABLE = (types.FunctionType, Op, Callable)  # objects that programs replace by others
FUNCTION_FACTS = frozenset(("__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__type_params__",
                            "__wrapped__"))
PARTIAL = functools.partial(len)  # has the attributes that all partials have


class Attributes(Part, part="attributes"):
    """Capture component that reads and writes attributes.  A result of None means: a frame was pushed, its result comes
    on the stack."""

    needs = ("absence", "calls", "classes", "containers", "framework", "guarding", "hooks", "outside", "subclasses",
             "training", "values", "writes")

    def __init__(self, machine):
        super().__init__(machine)
        self.reader_of = Bound(ATTRIBUTES, machine)

    def getattr(self, owner, name, intercept=True):
        """Return an attribute as ``owner.name`` finds it; without ``intercept``, as ``object.__getattribute__``
        does."""
        owner = self.values.force(owner)
        if intercept and isinstance(owner, (Instance, Object)):
            cls = self.classes.class_of(owner)
            hook = self.classes.class_attribute(cls, "__getattribute__")
            if hook:
                fallback = self.classes.class_attribute(cls, "__getattr__")
                arguments = [owner, Constant(name)]
                return self.calls.call_python(polyfills.intercepted,
                                        [hook, fallback, *arguments]) if fallback else self.calls.call(hook, arguments,
                                                                                                       {})
        written = self.writes.set_attributes.get((id(owner), name))
        if written is not None:
            if written is not DELETED:
                return self.values.force(written)
            if static(self.classes.class_of(owner), name) is not ABSENT:
                raise Break("RB004", f"reading {name!r} after it was deleted")
            return self.fallback(owner, self.classes.class_of(owner), name)
        if name in self.writes.class_stores:
            found = self.stored_on_class(owner, name)
            if found is not None:
                return found
        return (self.reader_of[type(owner)] or self.of_other)(owner, name)

    def stored(self, owner, name):
        """Return an attribute as ``object.__getattribute__`` finds it, which calls no ``__getattr__``."""
        owner = self.values.force(owner)
        if (not isinstance(owner, (Instance, Object)) or self.classes.is_class(owner)
                or name in self.writes.class_stores):
            return self.getattr(owner, name, False)
        cls, written = self.classes.class_of(owner), self.writes.set_attributes.get((id(owner), name))
        raw, place = self.absence.find(cls, name), getattr(getattr(owner, "value", None), "__dict__", None)
        place = place if isinstance(place, dict) else {}
        if written is None or written is DELETED:
            if isinstance(owner, Object) and isinstance(raw, types.MemberDescriptorType):
                return self.read_native(owner, raw, name, falls_back=False)
            if raw is ABSENT and (written is DELETED or name not in place):
                self.absence.lack_in_object(owner, name)
                self.absence.lack_in_class(cls, name)
                raise self.classes.missing(owner, name)
            if (isinstance(owner, Object) and name in place and not isinstance(owner.value, Module)
                    and not self.absence.is_data_descriptor(raw)):
                return self.outside.wrap(place[name], owner.source.attribute("__dict__").item(
                    self.guarding.literal(name)))
        return self.getattr(owner, name, False)

    def attribute_now(self, owner, name):
        """Return an attribute, within one instruction."""
        return self.machine.now(self.values.from_python(getattr), [owner, Constant(name)])

    def stored_on_class(self, owner, name):
        """Return the attribute that the program stored on the owner's class; None if the owner has its own."""
        if isinstance(owner, Object) and not self.classes.is_class(owner) and name in getattr(owner.value, "__dict__",
                                                                                              ()):
            return None
        cls = self.classes.class_of(owner)
        for base in (*owner.value.__mro__, *cls.__mro__) if self.classes.is_class(owner) else cls.__mro__:
            written = self.writes.set_attributes.get((id(self.outside.wrapped.get(id(base))), name))
            if written is not None:
                if written is DELETED or isinstance(written, (Function, Object)):
                    raise Break("RB004", f"reading {name!r} after it was set on a class")
                return self.values.force(written)
            if name in base.__dict__:
                return None
        return None

    def dict_of(self, owner):
        """Return the ``__dict__`` of an object."""
        items = {}
        if isinstance(owner, Object):
            place = owner.value.__dict__
            source = owner.source.attribute("__dict__")
            self.guarding.guard(self.guarding.items("tuple({0})", place), source)
            items = {k: Lazy(v, source.item(repr(k))) for k, v in place.items()}
        for (owner_id, name), value in self.writes.set_attributes.items():
            if owner_id == id(owner):
                items[name] = value
        return Namespace({k: v for k, v in items.items() if v is not DELETED}, owner)

    def of_other(self, owner, name):
        if name == "__class__":
            return self.values.from_python(self.classes.class_of(owner))
        raise Break("RB004", f"attribute {name!r} of a {self.values.describe(owner)}")

    @ATTRIBUTES.by(Constant)
    def of_constant(self, owner, name):
        found = getattr(owner.value, name, ABSENT)
        if found is ABSENT:
            raise self.classes.missing(owner, name)
        is_method = callable(found) and not isinstance(found, type) and not is_data_descriptor(
            static(type(owner.value), name))
        return ContainerMethod(owner, name) if is_method else self.values.from_python(found)

    @ATTRIBUTES.by(ArrayValue)
    def of_array(self, owner, name):
        if name == "__class__":
            return self.values.from_python(self.classes.class_of(owner))
        if callable(getattr(np.ndarray, name, None)):
            return ContainerMethod(owner, name)
        if not hasattr(np.ndarray, name):
            raise Break("RB007", f"reading {name!r} of an array")  # for NumPy's own message
        return self.framework.run_framework(getattr, [owner, Constant(name)], {})

    @ATTRIBUTES.by(Number)
    def of_number(self, owner, name):
        return self.of_constant(Constant(self.values.known(owner)), name)

    @ATTRIBUTES.by(Sequence, Mapping, SetValue, Namespace)
    def of_container(self, owner, name):
        if name == "__class__":
            return self.values.from_python(owner.kind)
        fields = getattr(owner.kind, "_fields", ())
        if name in fields:
            return self.containers.item(owner, fields.index(name))
        raw = self.absence.find(owner.kind, name)
        if raw is ABSENT:
            if getattr(owner, "outer", None) is not None:
                if name in owner.outer.__dict__:
                    return self.outside.wrap(owner.outer.__dict__[name], owner.source.attribute(name))
                self.absence.lack(name, owner.source.attribute("__dict__"))
            self.absence.lack_in_class(owner.kind, name)
            if fallback := self.classes.user_class(owner) and self.classes.class_attribute(owner.kind, "__getattr__"):
                return self.calls.call(fallback, [owner, Constant(name)], {})
            raise self.classes.missing(owner, name)
        if isinstance(raw, (types.FunctionType, property, classmethod, staticmethod)):
            return self.bound(raw, owner, name, owner.kind)
        if name == "maxlen":
            return Constant(owner.limit)
        if name == "default_factory":
            return owner.factory or Constant(None)
        if isinstance(raw, types.GetSetDescriptorType):
            raise Break("RB004", f"attribute {name!r} of a {owner.kind.__name__}")
        self.guarding.rely(owner.kind, name, raw)
        return ContainerMethod(owner, name) if callable(raw) else self.values.from_python(raw)

    @ATTRIBUTES.by(View)
    def of_view(self, owner, name):
        if name == "mapping":
            raise Break("RB004", "the mapping of a view")
        return ContainerMethod(owner, name) if hasattr(self.classes.class_of(owner),
                                                       name) else self.of_other(owner, name)

    @ATTRIBUTES.by(GeneratorValue)
    def of_generator(self, owner, name):
        if name in (("__next__", "__iter__") if owner.kind else ("send", "throw", "close", "__next__", "__iter__")):
            return ContainerMethod(owner, name)
        if name != "__class__" and not hasattr(self.classes.class_of(owner), name):
            raise self.classes.missing(owner, name)
        return self.of_other(owner, name)

    @ATTRIBUTES.by(IteratorValue)
    def of_iterator(self, owner, name):
        if name != "__class__" and not hasattr(self.classes.class_of(owner), name):
            raise self.classes.missing(owner, name)
        return ContainerMethod(owner, name) if name in ("__next__", "__iter__") else self.of_other(owner, name)

    @ATTRIBUTES.by(Function)
    def of_function(self, owner, name):
        if name in owner.attributes:
            return owner.attributes[name]
        if name in FUNCTION_FACTS:
            closed = tuple(types.CellType() for _ in owner.code.co_freevars)
            return self.values.from_python(getattr(types.FunctionType(owner.code, owner.namespace, owner.name, None,
                                                                      closed),
                                            name))
        if not hasattr(types.FunctionType, name):
            raise self.classes.missing(owner, name)
        if name == "__code__":
            return Constant(owner.code)
        if name == "__dict__":
            return Mapping(owner.attributes)
        raise Break("RB004", f"attribute {name!r} of a function")

    @ATTRIBUTES.by(Method)
    def of_method(self, owner, name):
        if name in ("__func__", "__self__"):
            return owner.function if name == "__func__" else owner.owner
        return self.getattr(owner.function, name)

    @ATTRIBUTES.by(Partial)
    def of_partial(self, owner, name):
        parts = {"func": owner.function, "args": Sequence(tuple, owner.arguments),
                 "keywords": Mapping(dict(owner.keywords))}
        if name in parts or name == "__class__":
            return parts[name] if name in parts else self.of_other(owner, name)
        found = getattr(PARTIAL, name, ABSENT)
        if found is ABSENT:
            raise self.classes.missing(owner, name)
        return ContainerMethod(owner, name) if callable(found) else self.values.from_python(found) if type(
            found) in PLAIN else self.of_other(owner, name)

    @ATTRIBUTES.by(ExceptionValue)
    def of_exception(self, owner, name):
        if name == "args":
            return Sequence(tuple, list(owner.arguments))
        if name == "__cause__":
            return owner.cause or Constant(None)
        if name == "__context__":
            return owner.context or Constant(None)
        if name == "__suppress_context__":
            return Constant(owner.suppress)
        if name == "value" and issubclass(owner.cls, StopIteration):
            return owner.arguments[0] if owner.arguments else Constant(None)
        if not self.classes.python_class(owner.cls) and isinstance(static(owner.cls, name),
                                                           (types.MemberDescriptorType, types.GetSetDescriptorType)):
            return self.values.from_python(getattr(self.values.known(owner), name))
        if name == "with_traceback":
            return ContainerMethod(owner, name)
        return self.of_made(owner, name)

    @ATTRIBUTES.by(Super)
    def of_super(self, owner, name):
        of_class = self.classes.is_class(owner.owner) and issubclass(owner.owner.value, owner.cls)
        mro = (owner.owner.value if of_class else self.classes.class_of(owner.owner)).__mro__
        base = self.absence.find_after(mro, owner.cls, name)
        if base is None:
            raise Raised(ExceptionValue(AttributeError, [Constant(f"'super' object has no attribute {name!r}")]))
        return self.bound(base.__dict__[name], owner.owner, name, base)

    @ATTRIBUTES.by(Instance)
    def of_made(self, owner, name):
        cls = owner.cls
        if name == "__class__":
            return self.values.from_python(cls)
        if name == "__dict__":
            return self.dict_of(owner)
        raw = self.absence.find(cls, name)
        if raw is not ABSENT and not isinstance(raw, types.MemberDescriptorType):
            return self.bound(raw, owner, name, cls)
        return self.fallback(owner, cls, name)

    def fallback(self, owner, cls, name):
        """Call ``__getattr__``, or raise an AttributeError."""
        # torch.ops and its namespaces
        if isinstance(owner, Object) and (cls in OPERATORS or isinstance(owner.value, Op)):
            found = getattr(owner.value, name, ABSENT)
            if found is ABSENT:
                raise self.classes.missing(owner, name)
            return self.values.from_python(found)
        self.absence.lack_in_object(owner, name)
        self.absence.lack_in_class(cls, name)
        found = self.classes.class_attribute(cls, "__getattr__")
        if found is None:
            raise self.classes.missing(owner, name)
        return self.calls.call(found, [owner, Constant(name)], {})

    @ATTRIBUTES.by(Object)
    def of_object(self, owner, name):
        value = owner.value
        if isinstance(value, types.ModuleType):
            return self.of_module(owner, name)
        if isinstance(value, type):
            return self.of_class(owner, name)
        if isinstance(value, Module):
            return self.of_network(owner, name)
        if value is mine:
            return self.outside.wrap(getattr(mine, name), owner.source.attribute(name))
        return self.of_instance(owner, name)

    def of_module(self, owner, name):
        module = owner.value
        stored = self.writes.set_globals.get((id(module.__dict__), name))
        if stored is not None:  # a function of that module has set its global
            return self.values.force(stored[1])
        if name == "__dict__" and any(space is module.__dict__ for space, _ in self.writes.set_globals.values()):
            raise Break("RB004", "the __dict__ of a module whose globals were set")
        found = module.__dict__.get(name, ABSENT)
        if found is ABSENT or is_framework(module.__package__):
            try:
                found = getattr(module, name)
            except AttributeError as error:
                self.absence.lack_in_module(module, name)
                raise Raised(ExceptionValue(AttributeError, list(map(Constant, error.args)))) from None
            if not is_framework(module.__package__) and static(types.ModuleType, name) is ABSENT:
                return self.outside.wrap(found, owner.source.attribute(name))  # the result of the module's __getattr__
            if isinstance(found, REPLACEABLE) or type(found) in (bool, int, float, str):
                self.guarding.guard(f"{{0}} is {self.guarding.constant_name(found)}" if isinstance(found, REPLACEABLE)
                           else self.guarding.equality("{0}", found),
                           self.guarding.constant_source(module).attribute(name, watch(module)))
            return self.values.from_python(found)
        return self.outside.wrap(found, owner.source.attribute(name))

    def of_class(self, owner, name):
        cls = owner.value
        if name == "__dict__" and takes_attributes(cls):
            return self.dict_of_class(owner)
        if name in ("__name__", "__qualname__", "__module__", "__doc__", "__mro__", "__dict__"):
            if name == "__mro__":
                self.absence.keep_bases(cls)
            elif is_written_by_users(cls):
                return self.outside.wrap(getattr(cls, name), self.absence.place(cls, name))
            return self.values.from_python(getattr(cls, name))
        above = self.absence.find(type(cls), name)
        if is_written_by_users(type(cls)) and self.absence.is_data_descriptor(above):
            return self.bound(above, owner, name, type(cls))
        raw = self.absence.find(cls, name)
        if raw is ABSENT:
            return self.of_metaclass(owner, above, name)
        if isinstance(raw, (staticmethod, classmethod)):
            return self.bound(raw, owner, name, cls)
        if isinstance(raw, types.FunctionType):
            self.guarding.rely(cls, name, raw)
            return Object(raw, self.guarding.constant_source(raw))
        found = getattr(cls, name)
        is_member = isinstance(cls, enum.EnumMeta) and isinstance(found, cls)  # these cannot be replaced
        if is_member or is_framework(cls.__module__) or cls.__flags__ & IMMUTABLE:
            return self.values.from_python(found)
        return self.outside.wrap(found, owner.source.attribute(name))

    def of_metaclass(self, owner, raw, name):
        """Return an attribute that a class itself does not have: from its metaclass (``raw``) or ``__getattr__``."""
        cls = owner.value
        if raw is not ABSENT:
            return self.bound(raw, owner, name, type(cls))
        self.absence.lack_in_class(cls, name)
        self.absence.lack_in_class(type(cls), name)
        fallback = self.classes.class_attribute(type(cls), "__getattr__")
        if fallback is not None:
            return self.calls.call(fallback, [owner, Constant(name)], {})
        raise Raised(ExceptionValue(AttributeError,
                                    [Constant(f"type object {cls.__name__!r} has no attribute {name!r}")]))

    def dict_of_class(self, owner):
        """Return the ``__dict__`` of a class, with what the program set there."""
        place, source = owner.value.__dict__, owner.source.attribute("__dict__")
        self.guarding.guard(f"list({{0}}) == {self.guarding.constant_name(list(place))}", source)
        items = {k: Lazy(v, source.item(self.guarding.literal(k))) for k, v in place.items()}
        items.update((name, value) for (owner_id, name), value in self.writes.set_attributes.items()
                     if owner_id == id(owner))
        return Mapping(items)

    def of_network(self, owner, name):
        """Return an attribute of an nn.Module: sources are covered by the epoch."""
        module, cls = owner.value, type(owner.value)
        raw = self.absence.find(cls, name)
        if name == "__class__":
            return self.values.from_python(cls)
        if name == "__dict__":
            return self.dict_of(owner)
        if self.absence.is_data_descriptor(raw):
            return self.bound(raw, owner, name, cls)
        place = module.__dict__
        if name == "_compiled_call_impl":
            return Constant(None)  # a captured call is compiled already
        if name in place:
            found = place[name]
            covered = (is_told_table(found) if name in DICTS
                       else is_told(found) and static(cls, "__setattr__") is Module.__setattr__)
            return self.outside.wrap(found, owner.source.attribute(name, covered))
        self.absence.lack_in_object(owner, name)
        if raw is not ABSENT:
            return self.bound(raw, owner, name, cls)
        if self.absence.find(cls, "__getattr__") is not Module.__getattr__:
            return self.fallback(owner, cls, name)
        return self.framework.part_of_network(owner, name)

    def of_instance(self, owner, name):
        value, cls = owner.value, type(owner.value)
        if cls in weakref.ProxyTypes:
            raise Break("RB004", f"reading {name!r} of a proxy")
        if self.training.later and not isinstance(static(cls, name), types.FunctionType):
            self.training.check_later(value)
        if name == "__class__":
            return self.values.from_python(cls)
        if is_framework(cls.__module__) and not cls.__flags__ & HEAP:
            return self.values.from_python(getattr(value, name))
        if name == "__dict__" and isinstance(getattr(value, "__dict__", None), dict):
            return self.dict_of(owner)
        raw = self.absence.find(cls, name)
        if owner.payload is not None and raw is not ABSENT and raw is static(owner.payload.kind, name):
            return ContainerMethod(owner.payload, name)
        if isinstance(raw, types.DynamicClassAttribute):  # of an Enum
            return self.calls.call(self.values.from_python(raw.fget), [owner], {}) if raw.fget else \
                self.values.from_python(getattr(value, name))
        if isinstance(raw, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            return self.read_native(owner, raw, name)
        if self.absence.is_data_descriptor(raw):
            return self.bound(raw, owner, name, cls)
        place = getattr(value, "__dict__", None)
        if isinstance(place, dict) and name in place:
            return self.outside.wrap(place[name], owner.source.attribute(name))
        if raw is ABSENT:
            if isinstance(value, IDENTITIES) and hasattr(value, name):
                return self.outside.wrap(getattr(value, name), owner.source.attribute(name))
            return self.fallback(owner, cls, name)
        self.absence.lack_in_object(owner, name)
        return self.bound(raw, owner, name, cls)

    def read_native(self, owner, raw, name, falls_back=True):
        """Read a slot, or another attribute that a class written in C computes."""
        self.guarding.rely(type(owner.value), name, raw)
        try:
            found = raw.__get__(owner.value, type(owner.value))
        except AttributeError:
            self.absence.lack_in_slot(owner, raw)
            fallback = self.classes.class_attribute(type(owner.value), "__getattr__")
            if fallback is None or not falls_back:
                raise self.classes.missing(owner, name) from None
            return self.calls.call(fallback, [owner, Constant(name)], {})
        return self.outside.wrap(found, owner.source.attribute(name) if falls_back
                                 else SlotValue(owner.source, self.guarding.constant_name(raw)))

    def bound(self, raw, owner, name, cls):
        """Return a class attribute as seen through an object."""
        seen = owner.value if self.classes.is_class(owner) else self.classes.class_of(owner)
        self.guarding.rely(seen if static(seen, name) is raw else cls, name, raw)  # super() looks further along the MRO
        if isinstance(raw, Leaving):
            raw = polyfills.left
        if isinstance(raw, (types.FunctionType, Op)):
            return Method(Object(raw, self.guarding.constant_source(raw)), owner)
        if isinstance(raw, staticmethod):
            return self.values.from_python(raw.__func__)
        if isinstance(raw, classmethod):
            of = owner if self.classes.is_class(owner) else self.values.from_python(self.classes.class_of(owner))
            return Method(self.values.from_python(raw.__func__), of)
        if isinstance(raw, property):
            if raw.fget is None:
                raise Break("RB007", f"reading {name!r}, which has no getter")
            other = None if self.classes.is_class(owner) else self.classes.class_attribute(self.classes.class_of(owner),
                                                                                           "__getattr__")
            if other is not None:
                return self.calls.call_python(polyfills.property_or,
                                        [self.values.from_python(raw.fget), other, owner, Constant(name)])
            return self.calls.call(self.values.from_python(raw.fget), [owner], {})
        if isinstance(raw, functools.cached_property):
            return self.calls.call_python(polyfills.cached,
                                          [owner, Constant(raw.attrname), self.values.from_python(raw.func)])
        if isinstance(raw, (types.WrapperDescriptorType, types.MethodDescriptorType, functools._lru_cache_wrapper)):
            return Method(Object(raw, self.guarding.constant_source(raw)), owner)
        if isinstance(raw, types.ClassMethodDescriptorType):
            return Method(Object(raw, self.guarding.constant_source(raw)), owner)
        get = self.absence.descriptor_method(raw, "__get__")
        if isinstance(get, types.FunctionType):
            return self.calls.call(self.values.from_python(get),
                             [self.values.from_python(raw), owner,
                              self.values.from_python(self.classes.class_of(owner))], {})
        if get is ABSENT:
            of = self.values.from_python(cls)
            return self.values.from_python(raw) if type(raw) in PLAIN and is_framework(
                cls.__module__) else self.outside.wrap(
                raw, of.source.attribute(name))
        raise Break("RB004", f"attribute {name!r} of class {cls.__name__}")

    # --- tensors ------------------------------------------------------------------------------------------------------
    @ATTRIBUTES.by(TensorValue)
    def of_tensor(self, owner, name):
        fake, cls = owner.fake, self.subclasses.of(owner)
        if cls is not None and (found := self.subclasses.attribute(owner, name, cls)) is not NotImplemented:
            return found
        if name == "shape" and owner.source is not None:
            return self.shape_of(owner)
        if name == "__class__":
            return self.values.from_python(self.classes.class_of(owner))
        if name == "_base" and owner.source is not None:
            return self.outside.wrap(owner.real._base, self.place_of(owner).attribute("_base"))
        if name == "grad" and owner.source is not None:
            return self.outside.wrap(owner.real.grad, self.place_of(owner).attribute("grad"))
        if name == "retains_grad" and owner.source is None:
            return Constant(self.hooks.retains(owner))
        if name == "grad" and (fake.node in self.machine.recorder.leaves or self.hooks.retains(owner)):
            return Constant(None)
        if name == "backward":
            return Method(self.values.from_python(_tensor_backward), owner)
        if name == "is_leaf" and owner.source is not None:
            self.guarding.guard(f"{{0}}.is_leaf is {owner.real.is_leaf}", owner.source.each_call())
            return Constant(owner.real.is_leaf)
        if name == "grad_fn" and not fake._rush_needs_grad:
            return Constant(None)
        raw = static(Fake, name)
        if raw is ABSENT:
            return self.own_attribute(owner, name)
        if callable(raw) and not isinstance(raw, type):
            return ContainerMethod(owner, name)
        return self.framework.run_framework(getattr, [owner, Constant(name)], {})

    def place_of(self, owner):
        """Return the source of a tensor from outside; a guard fixes the identity of one that a module holds."""
        if not owner.source.covered:
            return owner.source
        self.guarding.identify(owner.source, owner.real)
        return self.guarding.constant_source(owner.real)

    def own_attribute(self, owner, name):
        """Return an attribute that a user put on a tensor, or that its class adds."""
        if owner.source is not None:
            place = owner.real.__dict__
            if name in place:
                return self.outside.wrap(place[name], owner.source.attribute(name))
            raw = self.absence.find(type(owner.real), name)
            if raw is not ABSENT:
                return self.bound(raw, owner, name, type(owner.real))
            self.absence.lack(name, owner.source.attribute("__dict__"))
        self.absence.lack_in_class(self.classes.class_of(owner), name)
        raise self.classes.missing(owner, name)

    def shape_of(self, owner):
        shape = owner.fake._rush_meta.shape
        source = owner.source.attribute("shape", owner.source.covered)
        return Sequence(Size, [Lazy(size, source.item(str(k), source.covered)) if type(size) is int
                               else self.values.from_python(size) for k, size in enumerate(shape)])
