"""Attributes: read and written as Python does, with a guard for what was found and where."""
from __future__ import annotations

import enum
import functools
import sys
import types

import numpy as np

from ..._ops import Callable, Namespace as OperatorNamespace, OpOverloadPacket, Ops
from ..autograd.backward import _tensor_backward
from ..core.epoch import watch
from ..core.meta import Size
from ..core.native import Leaving, Op, Tensor, mine, state
from ...nn.modules.module import DICTS, Module
from . import polyfills
from .errors import Break, Raised
from .parts import ATTRIBUTES, Part
from .record import Fake
from .values import (IDENTITIES, PLAIN, ArrayValue, Constant, ContainerMethod, Deferred, ExceptionValue, Function,
                     GeneratorValue, Identity, Instance, IteratorValue, Lazy, Mapping,
                     Method, Namespace, Number, Object, Partial, Sequence, SetValue, Super, TensorValue, View)

ABSENT = object()
OPERATORS = (Ops, OperatorNamespace, OpOverloadPacket)
HEAP, IMMUTABLE = 1 << 9, 1 << 8  # flags of classes: made at run time; without attributes that can be set
DELETED = Constant(None)
PLACES = ("_parameters", "_buffers", "_modules")
MUTABLE = (list, dict, set)
REPLACEABLE = (types.FunctionType, Op, Callable)  # what programs put others in place of
FUNCTION_FACTS = frozenset(("__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__type_params__",
                            "__wrapped__"))


def static(cls, name):
    """The raw class attribute, or ABSENT."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return ABSENT


class Slotted:
    __slots__ = ()


try:
    Slotted().name = None
except AttributeError as _error:
    NO_SLOT = str(_error)  # as this version of Python says it


PARTIAL = functools.partial(len)  # which has the attributes that all have


def is_data_descriptor(raw) -> bool:
    return raw is not ABSENT and hasattr(type(raw), "__set__")


class Attributes(Part):
    """How the machine reads and writes attributes.  A result of None means: a frame was pushed, its result comes on the
    stack."""

    # --- classes ------------------------------------------------------------------------------------------------------
    def class_of(self, value):
        """The Python class of a Value."""
        value = self.force(value)
        if isinstance(value, (Constant, Object)):
            return type(value.value)
        if isinstance(value, Number):
            return type(value.hint)
        if isinstance(value, Deferred):
            return str
        if isinstance(value, ArrayValue):
            return value.array.dtype.type if value.array.scalar else np.ndarray
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
        if isinstance(value, Identity):
            return int
        if isinstance(value, View):
            return type(getattr({}, value.part)())
        if isinstance(value, GeneratorValue):
            return value.kind or types.GeneratorType
        if isinstance(value, IteratorValue):
            return self.class_of_iterator(value)
        return types.MethodType if isinstance(value, Method) else types.BuiltinMethodType

    def user_class(self, value):
        """The class of a Value if it was written in Python and may define operators; else None."""
        if isinstance(value, Instance):
            return value.cls
        if isinstance(value, Object) and not isinstance(value.value, IDENTITIES) and type(value.value).__flags__ & HEAP:
            return type(value.value)
        return None

    def class_attribute(self, cls, name):
        """A Python function found in a class, as a Value; None where there is none."""
        raw = static(cls, name)
        if not isinstance(raw, types.FunctionType):
            return None
        self.rely(cls, name, raw)
        return Object(raw, self.constant_source(raw))

    def rely(self, cls, name, raw):
        """Notes what a user's class was found to have, which is guarded: methods can be replaced."""
        if not is_framework(cls.__module__) and cls.__flags__ & HEAP and cls.__module__.split(".")[
                0] not in sys.stdlib_module_names:
            self.relied[cls, name] = raw

    def lack(self, owner, cls, name):
        """Notes that neither an object nor its class was found to have an attribute."""
        place = getattr(owner.value, "__dict__",
                        None) if isinstance(owner, Object) and owner.source is not None else None
        if isinstance(place, dict) and name not in place:
            self.guard(f"{name!r} not in {{0}}.__dict__", owner.source)
        if static(cls, name) is ABSENT and not is_framework(
                cls.__module__) and cls.__flags__ & HEAP and cls.__module__.split(".")[
                    0] not in sys.stdlib_module_names:
            self.guard(f"{self.constant_name(static)}({self.constant_name(cls)}, {name!r}) is "
                       f"{self.constant_name(ABSENT)}")

    def python_class(self, cls) -> bool:
        """Whether a class was written in Python."""
        return bool(cls.__flags__ & HEAP) and cls.__module__ != "builtins"

    def missing(self, owner, name):
        return Raised(ExceptionValue(AttributeError,
                                     [Constant(f"{self.class_of(owner).__name__!r} object has no attribute {name!r}")]))

    # --- reading ------------------------------------------------------------------------------------------------------
    def getattr(self, owner, name, intercept=True):
        """An attribute as ``owner.name`` finds it; without ``intercept``, as ``object.__getattribute__`` does."""
        owner = self.force(owner)
        if intercept and isinstance(owner, (Instance, Object)):
            cls = self.class_of(owner)
            hook = self.class_attribute(cls, "__getattribute__")
            if hook:
                fallback = self.class_attribute(cls, "__getattr__")
                arguments = [owner, Constant(name)]
                return self.call_python(polyfills.intercepted,
                                        [hook, fallback, *arguments]) if fallback else self.call(hook, arguments, {})
        written = self.attributes.get((id(owner), name))
        if written is not None:
            if written is not DELETED:
                return self.force(written)
            if static(self.class_of(owner), name) is not ABSENT:
                raise Break("RB004", f"reading {name!r} after it was deleted")
            return self.fallback(owner, self.class_of(owner), name)
        if name in self.class_stores:
            found = self.stored_on_class(owner, name)
            if found is not None:
                return found
        return (self.reader_of[type(owner)] or self.of_other)(owner, name)

    def attribute_now(self, owner, name):
        """An attribute, within one instruction."""
        return self.now(self.from_python(getattr), [owner, Constant(name)])

    def stored_on_class(self, owner, name):
        """What the program stored on a class that the owner has the attribute from; None where it has its own."""
        if isinstance(owner, Object) and not self.is_class(owner) and name in getattr(owner.value, "__dict__", ()):
            return None
        for base in (owner.value if self.is_class(owner) else self.class_of(owner)).__mro__:
            written = self.attributes.get((id(self.wrapped.get(id(base))), name))
            if written is not None:
                if written is DELETED or isinstance(written, (Function, Object)):
                    raise Break("RB004", f"reading {name!r} after it was set on a class")
                return self.force(written)
            if name in base.__dict__:
                return None
        return None

    def dict_of(self, owner):
        """The ``__dict__`` of an object."""
        items = {}
        if isinstance(owner, Object):
            place = owner.value.__dict__
            source = owner.source.attribute("__dict__")
            self.guard(f"list({{0}}) == {self.constant_name(list(place))}", source)
            items = {k: Lazy(v, source.item(repr(k))) for k, v in place.items()}
        for (owner_id, name), value in self.attributes.items():
            if owner_id == id(owner):
                items[name] = value
        return Namespace({k: v for k, v in items.items() if v is not DELETED}, owner)

    def of_other(self, owner, name):
        if name == "__class__":
            return self.from_python(self.class_of(owner))
        raise Break("RB004", f"attribute {name!r} of a {self.describe(owner)}")

    @ATTRIBUTES.by(Constant)
    def of_constant(self, owner, name):
        found = getattr(owner.value, name, ABSENT)
        if found is ABSENT:
            raise self.missing(owner, name)
        return ContainerMethod(owner, name) if callable(found) and not isinstance(found, type) else self.from_python(
            found)

    @ATTRIBUTES.by(ArrayValue)
    def of_array(self, owner, name):
        if name == "__class__":
            return self.from_python(self.class_of(owner))
        if callable(getattr(np.ndarray, name, None)):
            return ContainerMethod(owner, name)
        if not hasattr(np.ndarray, name):
            raise Break("RB007", f"reading {name!r} of an array")  # in whose words NumPy says so
        return self.run_framework(getattr, [owner, Constant(name)], {})

    @ATTRIBUTES.by(Number)
    def of_number(self, owner, name):
        return self.of_constant(Constant(self.known(owner)), name)

    @ATTRIBUTES.by(Sequence, Mapping, SetValue, Namespace)
    def of_container(self, owner, name):
        if name == "__class__":
            return self.from_python(owner.kind)
        fields = getattr(owner.kind, "_fields", ())
        if name in fields:
            return self.item(owner, fields.index(name))
        raw = static(owner.kind, name)
        if raw is ABSENT:
            if getattr(owner, "outer", None) is not None:
                if name in owner.outer.__dict__:
                    return self.wrap(owner.outer.__dict__[name], owner.source.attribute(name))
                self.guard(f"{name!r} not in {{0}}.__dict__", owner.source)
            raise self.missing(owner, name)
        if isinstance(raw, (types.FunctionType, property, classmethod, staticmethod)):
            return self.bound(raw, owner, name, owner.kind)
        if name == "maxlen":
            return Constant(owner.limit)
        if name == "default_factory":
            return owner.factory or Constant(None)
        if isinstance(raw, types.GetSetDescriptorType):
            raise Break("RB004", f"attribute {name!r} of a {owner.kind.__name__}")
        return ContainerMethod(owner, name) if callable(raw) else self.from_python(raw)

    @ATTRIBUTES.by(View)
    def of_view(self, owner, name):
        if name == "mapping":
            raise Break("RB004", "the mapping of a view")
        return ContainerMethod(owner, name) if hasattr(self.class_of(owner), name) else self.of_other(owner, name)

    @ATTRIBUTES.by(GeneratorValue)
    def of_generator(self, owner, name):
        if name in (("__next__", "__iter__") if owner.kind else ("send", "throw", "close", "__next__", "__iter__")):
            return ContainerMethod(owner, name)
        if name != "__class__" and not hasattr(self.class_of(owner), name):
            raise self.missing(owner, name)
        return self.of_other(owner, name)

    @ATTRIBUTES.by(IteratorValue)
    def of_iterator(self, owner, name):
        if name != "__class__" and not hasattr(self.class_of(owner), name):
            raise self.missing(owner, name)
        return ContainerMethod(owner, name) if name in ("__next__", "__iter__") else self.of_other(owner, name)

    @ATTRIBUTES.by(Function)
    def of_function(self, owner, name):
        if name in owner.attributes:
            return owner.attributes[name]
        if name in FUNCTION_FACTS:
            closed = tuple(types.CellType() for _ in owner.code.co_freevars)
            return self.from_python(getattr(types.FunctionType(owner.code, owner.namespace, owner.name, None, closed),
                                            name))
        if not hasattr(types.FunctionType, name):
            raise self.missing(owner, name)
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
            raise self.missing(owner, name)
        return ContainerMethod(owner, name) if callable(found) else self.from_python(found) if type(
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
        if not self.python_class(owner.cls) and isinstance(static(owner.cls, name),
                                                           (types.MemberDescriptorType, types.GetSetDescriptorType)):
            return self.from_python(getattr(self.known(owner), name))
        if name == "with_traceback":
            return ContainerMethod(owner, name)
        return self.of_made(owner, name)

    @ATTRIBUTES.by(Super)
    def of_super(self, owner, name):
        of_class = self.is_class(owner.owner) and issubclass(owner.owner.value, owner.cls)
        mro = (owner.owner.value if of_class else self.class_of(owner.owner)).__mro__
        for base in mro[mro.index(owner.cls) + 1:]:
            if name in base.__dict__:
                return self.bound(base.__dict__[name], owner.owner, name, base)
        raise self.missing(owner.owner, name)

    def is_class(self, value):
        return isinstance(value, Object) and isinstance(value.value, type)

    @ATTRIBUTES.by(Instance)
    def of_made(self, owner, name):
        cls = owner.cls
        if name == "__class__":
            return self.from_python(cls)
        if name == "__dict__":
            return self.dict_of(owner)
        raw = static(cls, name)
        if raw is not ABSENT and not isinstance(raw, types.MemberDescriptorType):
            return self.bound(raw, owner, name, cls)
        return self.fallback(owner, cls, name)

    def fallback(self, owner, cls, name):
        """``__getattr__``, or an AttributeError."""
        # torch.ops and what is below it
        if isinstance(owner, Object) and (cls in OPERATORS or isinstance(owner.value, Op)):
            found = getattr(owner.value, name, ABSENT)
            if found is ABSENT:
                raise self.missing(owner, name)
            return self.from_python(found)
        self.lack(owner, cls, name)
        found = self.class_attribute(cls, "__getattr__")
        if found is None:
            raise self.missing(owner, name)
        return self.call(found, [owner, Constant(name)], {})

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
            return self.wrap(getattr(mine, name), owner.source.attribute(name))
        return self.of_instance(owner, name)

    def of_module(self, owner, name):
        module = owner.value
        stored = self.stores.get((id(module.__dict__), name))
        if stored is not None:  # a function of that module has set its global
            return self.force(stored[1])
        if name == "__dict__" and any(space is module.__dict__ for space, _ in self.stores.values()):
            raise Break("RB004", "the __dict__ of a module whose globals were set")
        found = module.__dict__.get(name, ABSENT)
        if found is ABSENT or is_framework(module.__package__):
            try:
                found = getattr(module, name)
            except AttributeError:
                raise Raised(ExceptionValue(AttributeError,
                                            [Constant(f"module {module.__name__!r} has no attribute {name!r}")])) from None
            if isinstance(found, REPLACEABLE) or type(found) in (bool, int, float, str):
                self.guard(f"{{0}} is {self.constant_name(found)}" if isinstance(found, REPLACEABLE)
                           else self.equality("{0}", found),
                           self.constant_source(module).attribute(name, watch(module)))
            return self.from_python(found)
        return self.wrap(found, owner.source.attribute(name))

    def of_class(self, owner, name):
        cls = owner.value
        if name in ("__name__", "__qualname__", "__module__", "__doc__", "__mro__", "__dict__"):
            return self.from_python(getattr(cls, name))
        raw = static(cls, name)
        if raw is ABSENT:
            raw = static(type(cls), name)
            if raw is ABSENT:
                raise Raised(ExceptionValue(AttributeError,
                                            [Constant(f"type object {cls.__name__!r} has no attribute {name!r}")]))
            return self.bound(raw, owner, name, type(cls))
        if isinstance(raw, (staticmethod, classmethod)):
            return self.bound(raw, owner, name, cls)
        if isinstance(raw, types.FunctionType):
            return Object(raw, self.constant_source(raw))
        if isinstance(cls, enum.EnumMeta) or is_framework(cls.__module__) or cls.__flags__ & IMMUTABLE:
            return self.from_python(getattr(cls, name))
        return self.wrap(getattr(cls, name), owner.source.attribute(name))

    def of_network(self, owner, name):
        """An attribute of an nn.Module: sources are covered by the epoch."""
        module, cls = owner.value, type(owner.value)
        raw = static(cls, name)
        if name == "__class__":
            return self.from_python(cls)
        if name == "__dict__":
            return self.dict_of(owner)
        if is_data_descriptor(raw):
            return self.bound(raw, owner, name, cls)
        place = module.__dict__
        if name == "_compiled_call_impl":
            return Constant(None)  # a captured call is compiled already
        if name in place:
            found = place[name]
            covered = name in DICTS or type(found) not in MUTABLE and static(cls, "__setattr__") is Module.__setattr__
            return self.wrap(found, owner.source.attribute(name, covered))
        self.guard(f"{name!r} not in {{0}}.__dict__", owner.source)
        if raw is not ABSENT:
            return self.bound(raw, owner, name, cls)
        if cls.__getattr__ is not Module.__getattr__:
            return self.fallback(owner, cls, name)
        return self.part_of_network(owner, name)

    def part_of_network(self, owner, name):
        """A parameter, buffer or module of a module: what ``Module.__getattr__`` finds."""
        if not isinstance(owner, Object):
            return self.inline(self.as_function(self.from_python(Module.__getattr__)), [owner, Constant(name)], {})
        place = owner.value.__dict__
        for where in PLACES:
            changed = self.wrapped.get(id(place.get(where)))
            if isinstance(changed, Mapping) and changed.changed:
                if name in changed.items:
                    return self.lookup(changed, name)
                continue
            if name in place.get(where, ()):
                return self.wrap(place[where][name], owner.source.attribute(where, True).item(repr(name), True))
            self.guard(f"{name!r} not in {{0}}", owner.source.attribute(where, True))
        raise self.missing(owner, name)

    def of_instance(self, owner, name):
        value, cls = owner.value, type(owner.value)
        if self.later and not isinstance(static(cls, name), types.FunctionType):
            self.check_later(value)
        if name == "__class__":
            return self.from_python(cls)
        if isinstance(value, enum.Enum) or is_framework(cls.__module__) and not cls.__flags__ & HEAP:
            return self.from_python(getattr(value, name))
        if name == "__dict__" and isinstance(getattr(value, "__dict__", None), dict):
            return self.dict_of(owner)
        if owner.payload is not None and not isinstance(static(cls, name),
                                                        types.FunctionType) and hasattr(owner.payload.kind, name):
            return ContainerMethod(owner.payload, name)
        raw = static(cls, name)
        if isinstance(raw, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            return self.read_native(owner, name)
        if is_data_descriptor(raw):
            return self.bound(raw, owner, name, cls)
        place = getattr(value, "__dict__", None)
        if isinstance(place, dict) and name in place:
            return self.wrap(place[name], owner.source.attribute(name))
        if raw is ABSENT:
            if isinstance(value, IDENTITIES) and hasattr(value, name):
                return self.wrap(getattr(value, name), owner.source.attribute(name))
            return self.fallback(owner, cls, name)
        if isinstance(place, dict):
            self.guard(f"{name!r} not in {{0}}.__dict__", owner.source)
        return self.bound(raw, owner, name, cls)

    def read_native(self, owner, name):
        try:
            found = getattr(owner.value, name)
        except AttributeError:
            raise self.missing(owner, name) from None
        return self.wrap(found, owner.source.attribute(name))

    def bound(self, raw, owner, name, cls):
        """A class attribute as it is seen through an object."""
        seen = owner.value if self.is_class(owner) else self.class_of(owner)
        self.rely(seen if static(seen, name) is raw else cls, name, raw)  # super() looks further on
        if isinstance(raw, Leaving):
            raw = polyfills.left
        if isinstance(raw, (types.FunctionType, Op)):
            return Method(Object(raw, self.constant_source(raw)), owner)
        if isinstance(raw, staticmethod):
            return self.from_python(raw.__func__)
        if isinstance(raw, classmethod):
            of = owner if self.is_class(owner) else self.from_python(self.class_of(owner))
            return Method(self.from_python(raw.__func__), of)
        if isinstance(raw, property):
            if raw.fget is None:
                raise Break("RB007", f"reading {name!r}, which has no getter")
            other = None if self.is_class(owner) else self.class_attribute(self.class_of(owner), "__getattr__")
            if other is not None:
                return self.call_python(polyfills.property_or,
                                        [self.from_python(raw.fget), other, owner, Constant(name)])
            return self.call(self.from_python(raw.fget), [owner], {})
        if isinstance(raw, functools.cached_property):
            return self.call_python(polyfills.cached, [owner, Constant(raw.attrname), self.from_python(raw.func)])
        if isinstance(raw, (types.WrapperDescriptorType, types.MethodDescriptorType, functools._lru_cache_wrapper)):
            return Method(Object(raw, self.constant_source(raw)), owner)
        if isinstance(raw, types.ClassMethodDescriptorType):
            return Method(Object(raw, self.constant_source(raw)), owner)
        get = static(type(raw), "__get__")
        if isinstance(get, types.FunctionType):
            return self.call(self.from_python(get),
                             [self.from_python(raw), owner, self.from_python(self.class_of(owner))], {})
        if get is ABSENT:
            of = self.from_python(cls)
            return self.from_python(raw) if type(raw) in PLAIN and is_framework(cls.__module__) else self.wrap(
                raw, of.source.attribute(name))
        raise Break("RB004", f"attribute {name!r} of class {cls.__name__}")

    # --- tensors ------------------------------------------------------------------------------------------------------
    @ATTRIBUTES.by(TensorValue)
    def of_tensor(self, owner, name):
        fake = owner.fake
        if name == "shape" and owner.source is not None:
            return self.shape_of(owner)
        if name == "__class__":
            return self.from_python(self.class_of(owner))
        if name == "grad" and owner.source is not None:
            return self.wrap(owner.real.grad, self.place_of(owner).attribute("grad"))
        if name == "retains_grad" and owner.source is None:
            return Constant(self.retains(owner))
        if name == "grad" and (fake.node in self.recorder.leaves or self.retains(owner)):
            return Constant(None)
        if name == "backward":
            return Method(self.from_python(_tensor_backward), owner)
        if name == "is_leaf" and owner.source is not None:
            self.guard(f"{{0}}.is_leaf is {owner.real.is_leaf}", owner.source)
            return Constant(owner.real.is_leaf)
        if name == "grad_fn" and not fake._needs_grad:
            return Constant(None)
        raw = static(Fake, name)
        if raw is ABSENT:
            return self.own_attribute(owner, name)
        if callable(raw) and not isinstance(raw, type):
            return ContainerMethod(owner, name)
        return self.run_framework(getattr, [owner, Constant(name)], {})

    def place_of(self, owner):
        """Where a tensor from outside is found; one that a module holds is known, while the guards hold."""
        return self.constant_source(owner.real) if owner.source.covered else owner.source

    def own_attribute(self, owner, name):
        """What a user put on a tensor, or what its class adds."""
        if owner.source is not None:
            place = owner.real.__dict__
            if name in place:
                return self.wrap(place[name], owner.source.attribute(name))
            raw = static(type(owner.real), name)
            if raw is not ABSENT:
                return self.bound(raw, owner, name, type(owner.real))
            self.guard(f"{name!r} not in {{0}}.__dict__", owner.source)
        raise self.missing(owner, name)

    def shape_of(self, owner):
        shape = owner.fake._meta.shape
        source = owner.source.attribute("shape", owner.source.covered)
        return Sequence(Size, [Lazy(size, source.item(str(k), source.covered)) if type(size) is int
                               else self.from_python(size) for k, size in enumerate(shape)])

    # --- writing ------------------------------------------------------------------------------------------------------
    def setattr(self, owner, name, value):
        """None, or a call that was pushed (its result is to be dropped)."""
        owner = self.force(owner)
        if isinstance(owner, Function):
            owner.attributes[name] = value
            return
        if self.is_class(owner) and self.stores_on(owner.value):
            self.class_stores.add(name)
            return self.put(owner, name, value, False)
        attributed = isinstance(owner, (Object, Instance, ExceptionValue,
                                        Partial)) or isinstance(owner, Sequence) and owner.kind.__dictoffset__
        if not attributed or isinstance(owner, Object) and isinstance(owner.value, (type, types.ModuleType)):
            if isinstance(owner, TensorValue) and name == "grad":
                return self.set_grad(owner, value)
            if isinstance(owner, TensorValue) and name == "requires_grad":
                self.run_framework(Tensor.requires_grad_, [owner, value], {})
                return
            if isinstance(owner, TensorValue):
                raise Break("RB011" if name == "data" else "RB004", f"setting .{name} of a tensor")
            raise Break("RB004", f"setting {name!r} of a {self.describe(owner)}")
        cls = self.class_of(owner)
        override = static(cls, "__setattr__")
        if isinstance(override, types.FunctionType) and (override is not Module.__setattr__
                                                         or isinstance(owner, Instance)):
            self.push_dropping(Object(override, self.constant_source(override)), [owner, Constant(name), value])
            return
        if isinstance(owner, Object) and isinstance(owner.value, Module):
            self.check_module_store(owner.value, name, value)
        self.store(owner, name, value, override is object.__setattr__)

    def stores_on(self, cls) -> bool:
        """Whether attributes of a class are stored the ordinary way, and found again that way."""
        plain = type(cls).__setattr__ is type.__setattr__ and cls.__flags__ & HEAP and not isinstance(
            cls, enum.EnumMeta)
        return bool(plain and not is_framework(cls.__module__) and not issubclass(cls, (Module, Tensor)))

    def check_module_store(self, module, name, value):
        value = self.force(value)
        if isinstance(value, TensorValue) and issubclass(value.fake.like,
                                                         _parameter()) or isinstance(value, Object) and isinstance(
                                                             value.value, Module):
            raise Break("RB004", f"assigning a parameter or module as {name!r}")
        if name in module._parameters or name in module._modules:
            raise Break("RB004", f"replacing {name!r} of a module")

    def store(self, owner, name, value, raw):
        cls = self.class_of(owner)
        found = static(cls, name)
        if isinstance(found, property):
            if found.fset is None:
                raise Raised(ExceptionValue(AttributeError,
                                            [Constant(f"property {name!r} of {cls.__name__!r} object has no setter")]))
            self.push_dropping(self.from_python(found.fset), [owner, value])
            return
        setter = static(type(found), "__set__") if found is not ABSENT else ABSENT
        if isinstance(setter, types.FunctionType):
            self.push_dropping(self.from_python(setter), [self.from_python(found), owner, value])
            return
        self.put(owner, name, value, raw)

    def put(self, owner, name, value, raw):
        cls = self.class_of(owner)
        of_thread = isinstance(owner, Object) and owner.value is mine
        if isinstance(owner, (Object, Instance)) and not of_thread and not self.is_class(
                owner) and not cls.__dictoffset__ and cls.__setattr__ is object.__setattr__ and \
                not isinstance(static(cls, name), types.MemberDescriptorType):
            if static(cls, name) is not ABSENT:
                raise Break("RB007", f"setting {name!r} of a {cls.__name__}, which has slots")
            raise Raised(ExceptionValue(AttributeError,
                                        [Constant(NO_SLOT.replace("Slotted", cls.__name__)
                                                  .replace("'name'", repr(name)))]))
        self.attributes[id(owner), name] = value
        self.owners[id(owner), name] = owner, raw
        if of_thread:
            setattr(mine, name, self.known(value))

    def delattr(self, owner, name):
        owner = self.force(owner)
        cls = self.class_of(owner)
        raw = static(cls, name)
        hook = self.class_attribute(cls, "__delattr__")
        deleter = static(type(raw), "__delete__") if raw is not ABSENT else ABSENT
        if (not isinstance(owner, (Instance, Object)) or isinstance(owner, Object)
            and isinstance(owner.value, (type, types.ModuleType, Module))):
            raise Break("RB004", f"deleting attribute {name!r}")
        if hook:
            return self.push_dropping(hook, [owner, Constant(name)])
        if isinstance(raw, property) and raw.fdel is not None:
            return self.push_dropping(self.from_python(raw.fdel), [owner])
        if isinstance(deleter, types.FunctionType):
            return self.push_dropping(self.from_python(deleter), [self.from_python(raw), owner])
        self.remove(owner, name)

    def remove(self, owner, name):
        """Deletes an attribute that the object itself has."""
        written = self.attributes.get((id(owner), name))
        if isinstance(owner, Object):
            if written is DELETED or written is None and not (name in getattr(owner.value, "__dict__", ())
                                                              or hasattr(type(owner.value), name)):
                raise self.missing(owner, name)
            if written is None:
                self.getattr(owner, name, False)
            self.attributes[id(owner), name] = DELETED
            self.owners[id(owner), name] = owner, True
        elif written is None:
            raise self.missing(owner, name)
        else:
            del self.attributes[id(owner), name], self.owners[id(owner), name]

    def push_dropping(self, function, arguments, keywords=None):
        depth = len(self.frames)
        result = self.call(function, arguments, keywords or {})
        if result is None and len(self.frames) > depth:
            self.frames[depth].discard = True


def _parameter():
    return state.parameter


def is_framework(name) -> bool:
    """Whether a module of this name is the framework's own, whose globals do not change."""
    return isinstance(name, str) and name.split(".")[0] == FRAMEWORK


FRAMEWORK = __name__.split(".")[0]
PLAIN_CODE: dict = {}  # (file, code) -> whether it names nothing of the framework


def plain_code(code, namespace) -> bool:
    """Whether a function names nothing of the framework."""
    key = code.co_filename, code
    known = PLAIN_CODE.get(key)
    if known is None:
        found = (namespace.get(name) for name in code.co_names)
        named = any(is_framework(getattr(v, "__name__" if isinstance(v, types.ModuleType) else "__module__", None))
                    for v in found)
        known = PLAIN_CODE[key] = not named and all(plain_code(c, namespace) for c in code.co_consts
                                                    if isinstance(c, types.CodeType))
    return known
