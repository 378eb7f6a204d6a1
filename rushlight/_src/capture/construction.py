"""Objects that a program makes: calls of classes."""
from __future__ import annotations

import collections
import copy
import enum
import functools
import operator
import types
import typing

import numpy as np

from ...nn.modules.module import Module
from ..core.devices import device
from ..core.dtypes import finfo, iinfo
from ..core.meta import Size
from ..core.native import Tensor
from ..core.results import is_result
from ..legacy import TypeOfTensors
from . import polyfills
from .classes import ABSENT, HEAP, static
from .containers import raised
from .equality import is_record
from .errors import Break
from .parts import CALLED, Part
from .values import NUMBERS_AND_TEXT, Constant, ExceptionValue, Instance, Mapping, Method, Object, Partial, Sequence

CONTAINERS = (list, tuple, dict, set, frozenset, collections.deque, collections.OrderedDict, collections.defaultdict)
COPYING = ("__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__",
           "__getnewargs_ex__")
GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
ABSTRACT = 1 << 20  # flag of classes with abstract methods
VALUES = (device, Size, finfo, iinfo)  # framework classes whose instances are values


class Construction(Part, part="construction"):
    """Capture component for calls of classes."""

    needs = ("absence", "arithmetic", "calls", "containers", "framework", "guarding", "subclasses", "values",
             "wrappers", "writes")

    def find_member(self, cls, arguments, keywords):
        """Return the member of an Enum that a call finds, or its error; guards the table and the function that decide
        it."""
        self.guarding.rely(cls, "_missing_", self.absence.find(cls, "_missing_"))
        try:
            return self.arithmetic.fold(cls, arguments, keywords)
        finally:
            value = self.values.known(arguments[0]) if len(arguments) == 1 and not keywords else []
            if type(value).__hash__ is not None:
                member, name = cls._value2member_map_.get(value), self.guarding.literal(value)
                self.guarding.guard(f"{name} not in {{0}}" if member is None
                                    else f"{{0}}.get({name}) is {self.guarding.constant_name(member)}",
                                    self.absence.place(cls, "_value2member_map_"))

    def new(self, base, arguments):
        """``base.__new__(cls, ...)`` of a builtin base."""
        cls = self.values.force(arguments[0]).value
        if cls.__flags__ & ABSTRACT:
            raise Break("RB007", f"a new {cls.__name__}, which is abstract")
        if issubclass(cls, BaseException):
            return ExceptionValue(cls, arguments[1:])
        if issubclass(cls, NUMBERS_AND_TEXT):
            return self.arithmetic.fold(base.__new__, arguments)
        if base is tuple:
            return Sequence(cls, self.containers.expanded(arguments[1]) if len(arguments) > 1 else [])
        for kind in (collections.OrderedDict, dict):
            if issubclass(cls, kind):
                return Instance(cls, Mapping({}, None, kind))
        if issubclass(cls, list):
            return Instance(cls, Sequence(list, []))
        if base is object:
            return Instance(cls)
        raise Break("RB001", f"a new {cls.__name__}")

    def instantiate(self, function, arguments, keywords, plain=False):
        """Call a class; ``plain``: without its metaclass's ``__call__``."""
        cls = function.value
        if cls in CONTAINERS:
            return self.containers.make_container(cls, arguments, keywords)
        if typing.is_typeddict(cls):
            return self.containers.make_container(dict, arguments, keywords)
        if cls.__flags__ & ABSTRACT:
            raise Break("RB007", f"a new {cls.__name__}, which is abstract")
        if cls is types.SimpleNamespace and not arguments:
            made = Instance(cls)
            for name, value in keywords.items():
                self.writes.put(made, name, value, True)
            return made
        if issubclass(cls, NUMBERS_AND_TEXT) and static(cls, "__init__") is object.__init__ and not isinstance(
                static(cls, "__new__"), staticmethod):
            return self.arithmetic.fold(cls, arguments, keywords)
        if cls is types.MethodType:
            return Method(*arguments)
        if cls in GETTERS:
            return self.arithmetic.fold(cls, arguments, keywords)
        if issubclass(cls, np.generic):
            return self.arithmetic.fold(cls, arguments, keywords)
        if cls in VALUES or is_record(cls):
            return self.framework.run_framework(cls, arguments, keywords)
        if issubclass(cls, tuple) and is_result(cls) and not keywords:
            given = self.values.force(arguments[0]) if len(arguments) == 1 < len(cls._fields) else None
            parts = self.containers.items_of(given) if isinstance(given, Sequence) else list(arguments)
            if len(parts) == len(cls._fields):
                return Sequence(cls, parts)
        if cls is functools.partial:
            return Partial(arguments[0], list(arguments[1:]), dict(keywords))
        if isinstance(cls, enum.EnumMeta):
            return self.find_member(cls, arguments, keywords)
        if isinstance(cls, TypeOfTensors):
            return self.framework.run_framework(cls, arguments, keywords)
        if cls is np.dtype:
            return self.arithmetic.fold(cls, arguments, keywords)
        if issubclass(cls, Tensor):
            made = self.wrappers.make(cls, arguments, keywords) or self.subclasses.make(cls, arguments, keywords)
            if made is not None:
                return made
            raise Break("RB001", f"a new {cls.__name__}: make it outside, once")
        make = self.absence.find(type(cls), "__call__")
        if isinstance(make, types.FunctionType) and not plain:
            self.guarding.rely(type(cls), "__call__", make)
            return self.calls.call(Object(make, self.guarding.constant_source(make)), [function, *arguments], keywords)
        new, init = self.constructor(cls, "__new__"), self.constructor(cls, "__init__")
        new = new.__func__ if isinstance(new, staticmethod) else new
        python = isinstance(new, types.FunctionType)
        if not python and getattr(new, "__self__", None) not in (object, dict, list, tuple, collections.OrderedDict,
                                                                 int, float, str,
                                                                 bytes) and not issubclass(cls, BaseException):
            raise Break("RB001", f"a new {cls.__name__}")
        if init is object.__init__ and not python:
            if new is object.__new__ and (arguments or keywords):
                raise raised(TypeError, f"{cls.__name__}() takes no arguments")
            return self.new(new.__self__, [function, *arguments])
        if not python and isinstance(init, types.FunctionType):
            made = self.new(new.__self__, [function, *arguments])
            frame = self.machine.frames[-1]
            frame.stack.append(made)
            self.writes.push_dropping(self.values.from_python(init), [made, *arguments], keywords)
            return None
        if not python and issubclass(cls, BaseException):
            return ExceptionValue(cls, arguments)
        known_init = Constant(None) if init is object.__init__ else self.values.from_python(init)
        return self.calls.call_python(polyfills.instantiate,
                                [function, self.values.from_python(new), known_init, Sequence(tuple, arguments),
                                 Mapping(dict(keywords))])

    def constructor(self, cls, name):
        """Return ``__new__`` or ``__init__`` of a class, guarded."""
        raw = self.absence.find(cls, name)
        self.guarding.rely(cls, name, raw)
        return raw

    @CALLED.by(polyfills.check_plain)
    def check_plain(self, cls):
        cls = self.values.known(cls)
        own = any(static(cls, n) not in (ABSENT, getattr(object, n, None)) for n in COPYING)
        if own or not cls.__dictoffset__ or cls.__flags__ & HEAP == 0 or issubclass(cls, (Tensor, Module, list, dict,
                                                                                          tuple, set)):
            raise Break("RB001", f"a copy of a {cls.__name__}")
        return Constant(None)

    @CALLED.by(collections.namedtuple)
    def builtin_namedtuple(self, name, fields, **options):
        """``collections.namedtuple``: the class is made now, once for all calls."""
        options.setdefault("module", self.values.from_python(self.machine.frames[-1]
                                                             .namespace.get("__name__", "__main__")))
        return self.arithmetic.fold(collections.namedtuple, [name, fields], options)

    @CALLED.by(object)
    def builtin_object(self):
        return Instance(object)

    @CALLED.by(copy.copy)
    def copied(self, value):
        return self.calls.call_python(polyfills.copied, [value])

    @CALLED.by(copy.deepcopy)
    def deeply_copied(self, value, memo=Constant(None)):
        return self.calls.call_python(polyfills.deeply_copied, [value, memo])
