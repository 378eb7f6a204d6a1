"""Calls: inlined, run by the framework on fakes, evaluated now, or graph breaks."""
from __future__ import annotations

import collections
import functools
import itertools
import logging
import math
import operator
import re
import sys
import threading
import types
import weakref
from importlib import import_module

import numpy as np

from ..._ops import Callable
from ..aot.joint import collects
from ..autograd.function import Function as CustomFunction
from ..core.native import Op
from . import marks, polyfills
from .arrays import DISPATCHED
from .bytecode import COROUTINE, GENERATOR, VARARGS, VARKEYWORDS
from .classes import FRAMEWORK, is_framework, plain_code, static
from .containers import raised
from .construction import CONTAINERS
from .errors import Break, CaptureError
from .parts import CALLED, OBJECTS_CALLED, VALUES_CALLED, OfClass, Part
from .polyfills_of_itertools import chain_from
from .protocols import ASKED
from .transforms import ROOMS
from .unbacked import CONVERSIONS
from .values import (NUMBERS_AND_TEXT, Cell, Constant, ContainerMethod, ExceptionValue, Function, GeneratorValue,
                     Instance, IteratorValue, Lazy, Mapping, Method, Object, Partial, Sequence, SetValue, Source,
                     TensorValue)

APPLY = CustomFunction.__dict__["apply"].__func__
INLINED = tuple(f"{FRAMEWORK}.{room}" for room in (
    "nn.modules", "nn.multihead", "nn.parallel", "nn.utils", "nn._reduction", "_src.checks", "_src.functions",
    "_src.legacy", "func.modules",
    "_src.compiling",
    "_src.controls",
    "_src.autograd.mode", "_src.autograd.saved", "_src.core.decorating", "_src.core.overriding", "amp",
    "_src.capture.polyfills", "utils", "optim", "fx",
    "export.calling", "export.module_calls",
    "distributions", "jit", "library.overloads", "_higher_order_ops", "_src.core.pytree", "_src.compat.devices",
    "_src.compat.torchvision", "tools.warm", "_dynamo", "ao",
    "distributed.pipelining.marks", "distributed.pipelining._IR", "distributed.activations",
    "distributed.fsdp", "distributed.tensor._modules", "distributed.tensor.parallel", "distributed.tensor.experimental",
    "distributed.rpc.remote_module", "_functorch.make_functional", "_C"))
RUN = tuple(f"{FRAMEWORK}.{room}" for room in ("_src.ops", "_src.core", "nn.functional", "nn.init", "_src.api",
                                               "_src.foreach", "special", "linalg", "fft", "_src.capture", "_src.eager",
                                               "_src.compiler", "distributed.functional",
                                               "distributed.tensor", "distributed.device_mesh",
                                               "distributed.pipelining.splitting", "nested"))
# modules whose functions have replacements of the same names, which programs record
RECORDED = dict.fromkeys((f"{FRAMEWORK}.distributed.{room}" for room in ("collectives", "membership", "worlds")),
                         f"{FRAMEWORK}.distributed.functional_in_place")
CALLING = (f"{FRAMEWORK}.nn.attention.flex_attention",)  # framework code that calls functions of the user
SETTINGS = tuple(f"{FRAMEWORK}.{room}" for room in ("_src.determinism", "_src.switches", "backends", "cuda", "cpu",
                                                    "accelerator", "distributed", "_src.autograd.anomaly",
                                                    "_src.devices.cpu.llvm.pool",
                                                        "_src.compat.devices", "_src.core.random"))
FORBIDDEN = {f"{FRAMEWORK}._src.api": ("set_",), f"{FRAMEWORK}._src.functions": ("set_",),
             f"{FRAMEWORK}._C": ("_set_", "_jit_set_", "_cuda_", "_current_", "_will_", "_are_", "_is_"),
             f"{FRAMEWORK}._src.core.random": ("manual_seed", "seed", "set_rng_state", "get_rng_state", "fork_rng"),
             f"{FRAMEWORK}._src.core.printing": ("set_",)}
OUTPUT = frozenset(("print", "input", "open", "exec", "eval", "breakpoint", "warn"))
FRAMES = (locals, dir, globals, sys._getframe)
FOLDED = frozenset((threading.get_ident, abs, divmod, round, pow, ord, chr, bin, hex, oct, format, ascii,
                    hash)) | frozenset(
    v for m in (math, operator) for v in vars(m).values() if isinstance(v, types.BuiltinFunctionType))
# iterate over their arguments
ITERATING = frozenset((math.prod, math.fsum, math.dist, operator.countOf, operator.indexOf))
# need integers
INDEXING = frozenset((bin, oct, hex, chr, operator.index, math.gcd, math.lcm, math.factorial, math.comb, math.perm,
                      math.isqrt))
DESCRIPTORS = (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType)
DISPATCH = functools.singledispatch(len).dispatch.__code__
# NumPy functions that reduce a list to one number
NUMBERS_OF = (np.prod, np.sum, np.mean, np.max, np.min, np.round, np.ndim, np.size)
OPERATORS = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
             operator.mod: "%", operator.matmul: "@"}


class Calls(Part, part="calls"):
    """Capture component for calls.  A result of None means: a frame was pushed, the result comes on the caller's
    stack."""

    needs = ("arithmetic", "arrays", "attributes", "callables", "classes", "construction", "containers", "framework",
             "generators", "guarding", "hooks", "mappings", "numbers", "output", "outside", "protocols", "subclasses",
             "transforms", "values", "writes")

    def __init__(self, machine):
        super().__init__(machine)
        self.of_value, self.of_object = OfClass(VALUES_CALLED, machine), OfClass(OBJECTS_CALLED, machine)

    def call(self, function, arguments, keywords):
        function = self.values.force(function)
        if self.hooks.computing is not None:
            self.hooks.check_computing(function)
        return (self.of_value[type(function)] or self.call_other)(function, arguments, keywords)

    def call_other(self, function, arguments, keywords):
        raise Break("RB001", f"a call of a {self.values.describe(function)}")

    @VALUES_CALLED.by(Method)
    def call_method(self, function, arguments, keywords):
        return self.call(function.function, [function.owner, *arguments], keywords)

    @VALUES_CALLED.by(Partial)
    def call_partial(self, function, arguments, keywords):
        return self.call(function.function, [*function.arguments, *arguments], {**function.keywords, **keywords})

    @VALUES_CALLED.by(Instance)
    def call_instance(self, function, arguments, keywords):
        found = self.classes.class_attribute(function.cls, "__call__")
        if not found:
            return self.call_other(function, arguments, keywords)
        return self.call(found, [function, *arguments], keywords)

    @VALUES_CALLED.by(Constant)
    def call_constant(self, function, arguments, keywords):
        """Raise the error for an object that is not callable."""
        return self.arithmetic.fold(lambda value: value(), [function])

    def call_python(self, function, arguments, keywords=None):
        """Call one of the polyfills."""
        return self.call(self.values.from_python(function), arguments, keywords or {})

    # --- objects from outside, by their classes -----------------------------------------------------------------------
    @VALUES_CALLED.by(Object)
    def call_object(self, function, arguments, keywords):
        mark = marks.of(function.value)
        if mark is not None:
            return self.call_marked(mark, function, arguments, keywords)
        return (self.of_object[type(function.value)] or self.call_other_object)(function, arguments, keywords)

    @OBJECTS_CALLED.by(Op, Callable)
    def call_operator(self, function, arguments, keywords):
        return self.framework.run_framework(function.value, arguments, keywords)

    @OBJECTS_CALLED.by(types.FunctionType)
    def call_function(self, function, arguments, keywords):
        return self.replaced(function, arguments, keywords, self.call_python_function)

    @OBJECTS_CALLED.by(types.BuiltinFunctionType)
    def call_builtin_function(self, function, arguments, keywords):
        return self.replaced(function, arguments, keywords, self.call_builtin)

    def replaced(self, function, arguments, keywords, otherwise):
        """Call a function that the user, a component or a polyfill may replace."""
        target = function.value
        if marks.reordered or marks.ignored:
            self.outside.pin(function)
            if target in marks.ignored:
                return Constant(None)
            if target in marks.reordered:
                return self.output.reordered(function, arguments, keywords)
        handler = self.answer(target)
        return otherwise(function, arguments, keywords) if handler is None else handler(*arguments, **keywords)

    @OBJECTS_CALLED.by(types.MethodType)
    def call_bound(self, function, arguments, keywords):
        return self.call(self.bound_method(function.value, function.source), arguments, keywords)

    @OBJECTS_CALLED.by(type)
    def call_class(self, function, arguments, keywords):
        handler = self.answer(function.value)
        if handler is not None:
            return handler(*arguments, **keywords)
        return self.construction.instantiate(function, arguments, keywords)

    @OBJECTS_CALLED.by(functools._lru_cache_wrapper)
    def call_cached(self, function, arguments, keywords):
        target = function.value
        if arguments and isinstance(getattr(self.values.force(arguments[0]), "value", None), logging.Logger):
            return self.output.reordered(function, arguments, keywords)  # it remembers what it logged
        if self.all_constant(arguments, keywords) and self.settled(target.__wrapped__):
            return self.arithmetic.fold(target, arguments, keywords)
        return self.call(self.values.from_python(target.__wrapped__), arguments, keywords)

    @OBJECTS_CALLED.by(functools.partial)
    def call_partial_object(self, function, arguments, keywords):
        return self.call_partial(self.partial_of(function), arguments, keywords)

    def partial_of(self, function) -> Partial:
        """Return a ``functools.partial`` from outside with its function and arguments."""
        target, source = function.value, function.source
        return Partial(self.outside.wrap(target.func, source.attribute("func")),
                       [self.outside.wrap(a, source.attribute("args").item(str(k))) for k, a in enumerate(target.args)],
                       {n: self.outside.wrap(v, source.attribute("keywords").item(repr(n)))
                        for n, v in target.keywords.items()})

    @OBJECTS_CALLED.by(operator.methodcaller)
    def call_by_name(self, function, arguments, keywords):
        make, parts = function.value.__reduce__()
        named = make.keywords if isinstance(make, functools.partial) else {}
        name, *more = (*make.args, *parts) if named else parts
        return self.call(self.attributes.attribute_now(arguments[0], name),
                         list(map(self.values.from_python, more)),
                         {k: self.values.from_python(v) for k, v in named.items()})

    @OBJECTS_CALLED.by(operator.itemgetter)
    def call_itemgetter(self, function, arguments, keywords):
        got = [self.machine.now(self.values.from_python(operator.getitem), [arguments[0], self.values.from_python(n)])
               for n in function.value.__reduce__()[1]]
        return got[0] if len(got) == 1 else Sequence(tuple, got)

    @OBJECTS_CALLED.by(operator.attrgetter)
    def call_attrgetter(self, function, arguments, keywords):
        got = [functools.reduce(self.attributes.attribute_now, path.split("."), arguments[0])
               for path in function.value.__reduce__()[1]]
        return got[0] if len(got) == 1 else Sequence(tuple, got)

    @OBJECTS_CALLED.by(weakref.ref)
    def call_reference(self, function, arguments, keywords):
        if type(function.value) is not weakref.ref or function.source is None:
            return self.call_other_object(function, arguments, keywords)
        return self.outside.wrap(function.value(), Source(function.source, "()"))

    @OBJECTS_CALLED.by(np.ufunc, DISPATCHED)
    def call_numpy(self, function, arguments, keywords):
        target = function.value
        handler = self.answer(target)
        if handler is not None:
            return handler(*arguments, **keywords)
        if self.arrays.holds_arrays((*arguments, *keywords.values())):
            return self.framework.run_framework(target, arguments, keywords)
        if isinstance(target, np.ufunc) and self.all_constant(arguments, keywords):
            return self.arithmetic.fold(target, arguments, keywords)
        if target in NUMBERS_OF and len(arguments) == 1 and not keywords:
            return self.arithmetic.fold(target, arguments)
        return self.call_other_object(function, arguments, keywords)

    def call_other_object(self, function, arguments, keywords):
        """Call the ``__call__`` of the object's class."""
        kind = type(function.value)
        found = self.classes.class_attribute(kind, "__call__")
        if found is None:
            raise Break("RB001", f"a call of a {kind.__name__}")
        return self.call(found, [function, *arguments], keywords)

    def all_constant(self, arguments, keywords) -> bool:
        return all(isinstance(self.values.force(v), Constant) for v in (*arguments, *keywords.values()))

    def answer(self, target):
        """Return the replacement of a function: a component's method, or a polyfill; None if there is neither."""
        found = CALLED.find(self.machine, target)
        if found is None and target in polyfills.POLYFILLS:
            return lambda *arguments, **keywords: self.call_python(polyfills.POLYFILLS[target], list(arguments),
                                                                   keywords)
        return found

    def settled(self, function) -> bool:
        """True if a function does not use tensors, so that it may be called now."""
        return isinstance(function, types.FunctionType) and plain_code(function.__code__, function.__globals__)

    def call_marked(self, mark, function, arguments, keywords):
        if mark == "compiling":
            return Constant(True)
        if mark == "exporting":
            return Constant(self.machine.entry.owner.exporting)
        if mark == "collecting":
            owner = self.values.known(arguments[0])
            return Constant(any(collects(node) and node.op.traits["collects"] == owner
                                for node in self.machine.recorder.nodes))
        if mark == "break":
            raise Break("RB006", ", ".join(str(self.values.known(a)) for a in arguments) or "graph_break()")
        if mark == "skipped":
            raise Break("RB006", f"{function.value.__name__}()", native=True)
        if mark == "disallowed":
            raise Break("RB006", f"{function.value.__name__}() is not allowed in graphs")
        if mark == "forbidden":
            raise CaptureError(
                f"{function.value.__name__}() was called in compiled code, where forbid_in_graph() forbids it")
        if mark == "disabled":
            name = getattr(function.value, "__name__", type(function.value).__name__)
            raise Break("RB006", f"{name}() is disabled for compilation")
        if mark == "allowed":
            return self.framework.allowed(function.value, arguments, keywords)
        if mark == "constant":
            return self.arithmetic.fold(function.value, arguments, keywords)
        if mark == "following":
            return self.given_back(arguments, keywords)
        return self.call(self.values.from_python(mark.original), arguments, keywords)

    def given_back(self, arguments, keywords):
        """A call of ``compile`` in compiled code: its argument is captured there anyway, so it is returned; with
        options alone, a decorator is returned."""
        given = self.values.force(arguments[0] if arguments else keywords.get("model", Constant(None)))
        return self.values.from_python(polyfills.itself) if isinstance(
            given, Constant) and given.value is None else given

    def call_python_function(self, function, arguments, keywords):
        target = function.value
        if "plain" in vars(target) and is_framework(target.__module__):  # ``overridable``
            return self.call(self.values.from_python(target.plain), arguments, keywords)
        module = target.__globals__.get("__name__") or ""
        if target.__code__ is DISPATCH:
            return self.dispatched(target, *map(self.values.known, arguments))
        if target in FRAMES:
            raise Break("RB008", f"{target.__name__}()", native=True)
        if target is APPLY:
            return self.framework.custom_function(self.values.force(arguments[0]).value, arguments[1:])
        if module.partition(".")[0] == "logging":
            raise Break("RB009", f"{target.__qualname__}()")
        if is_framework(module):
            if any(target.__name__.startswith(n) for n in FORBIDDEN.get(module, ())):
                raise Break("RB001", f"{target.__name__}() changes global state")
            if module.startswith(CALLING):
                return self.framework.run_framework(target, arguments, keywords, self.callables.for_framework)
            if module.startswith(ROOMS):
                return self.transforms.transform(function, arguments, keywords)
            if target.__name__.startswith(("get_", "is_", "are_", "device_count",
                                           "initial_seed")) and module.startswith(
                                               SETTINGS) and not arguments and not keywords:
                return self.framework.setting(target)
            if module in RECORDED and hasattr(recorded := import_module(RECORDED[module]), target.__name__):
                return self.framework.run_framework(getattr(recorded, target.__name__), arguments, keywords)
            if module.startswith(RUN) and not module.startswith(INLINED):
                return self.framework.run_framework(target, arguments, keywords)
            if not module.startswith(INLINED):
                raise Break("RB011" if ".autograd" in module else "RB001", f"{target.__name__}()")
        return self.inline(self.as_function(function), arguments, keywords)

    def dispatched(self, dispatch, cls):
        """Return the function that ``functools.singledispatch`` chooses for a class."""
        found = dispatch(cls)
        self.guarding.guard(
            f"{self.guarding.constant_name(dispatch)}({self.guarding.constant_name(cls)}) is "
            f"{self.guarding.constant_name(found)}")
        return self.values.from_python(found)

    def as_function(self, function) -> Function:
        """Return a function from outside with its closure and defaults, as a Function."""
        target, source = function.value, function.source
        made = Function(target.__code__, target.__globals__, name=target.__name__)
        framework = is_framework(target.__module__)
        if not framework:
            self.guarding.codes[target] = target.__code__
            if not function.loose:
                self.keep_defaults(target, source.each_call())
        if target.__closure__:
            made.closure = [self.outside.wrap(c, source.attribute("__closure__").item(str(k)))
                            for k, c in enumerate(target.__closure__)]
        if target.__defaults__:
            made.defaults = [self.values.from_python(d) if framework
                             else Lazy(d, source.attribute("__defaults__").item(str(k)))
                             for k, d in enumerate(target.__defaults__)]
        if target.__kwdefaults__:
            made.keyword_defaults = {n: self.values.from_python(d) if framework
                                     else Lazy(d, source.attribute("__kwdefaults__").item(repr(n)))
                                     for n, d in target.__kwdefaults__.items()}
        return made

    def keep_defaults(self, target, source):
        """Guard a function's tuple of defaults and the names of its keyword defaults."""
        if target.__defaults__:
            self.guarding.guard(f"{{0}}.__defaults__ is {self.guarding.constant_name(target.__defaults__)}", source)
        if target.__kwdefaults__:
            names = self.guarding.constant_name(list(target.__kwdefaults__))
            self.guarding.guard(f"list({{0}}.__kwdefaults__) == {names}", source)

    def bound_method(self, method, source):
        return Method(self.outside.wrap(method.__func__, source.attribute("__func__")),
                      self.outside.wrap(method.__self__, source.attribute("__self__")))

    # --- builtins -----------------------------------------------------------------------------------------------------
    def call_builtin(self, function, arguments, keywords):
        target = function.value
        name, owner = target.__name__, target.__self__
        if target in FRAMES:
            raise Break("RB008", f"{name}()", native=True)
        if name == "__new__" and isinstance(owner, type):
            return self.construction.new(owner, arguments)
        if isinstance(owner, CONTAINERS):
            source = function.source.attribute("__self__")
            return self.containers.call_container(ContainerMethod(self.outside.wrap(owner, source), name), arguments,
                                                  keywords)
        if owner is itertools.chain and name == "from_iterable":
            return self.call_python(chain_from, arguments)
        if owner in (dict, collections.OrderedDict, collections.defaultdict) and name == "fromkeys":
            default = arguments[1] if len(arguments) > 1 else keywords.get("value", Constant(None))
            return Mapping({self.mappings.key(k): default for k in self.containers.expanded(arguments[0])}, None, owner)
        if target in FOLDED:
            if self.arrays.holds_arrays(arguments):
                return self.framework.run_framework(target, arguments, keywords)
            method = arguments and self.arithmetic.method(self.values.force(arguments[0]), f"__{name}__")
            if method:
                return self.protocols.answered(f"__{name}__", method,
                                     *arguments) if f"__{name}__" in ASKED else self.call(method, arguments, keywords)
            if target in INDEXING:
                arguments = list(map(self.protocols.index_of, arguments))
            if any(isinstance(self.values.force(a), TensorValue) for a in arguments):
                return self.framework.run_framework(target, arguments, keywords)
            if target in OPERATORS:
                return self.arithmetic.binary(OPERATORS[target], *arguments)
            if not keywords and self.framework.vary(arguments):
                return self.arithmetic.computed_by(target, arguments)
            if not keywords and target in CONVERSIONS and self.numbers.has_unknown(arguments):
                return self.numbers.convert(target, *map(self.values.force, arguments))
            return self.arithmetic.fold(target, list(map(self.listed_once, arguments)) if target in ITERATING
                                        else arguments,
                             keywords)
        if isinstance(owner, type) and name in ("fromkeys", "fromhex", "from_bytes", "maketrans"):
            return self.arithmetic.fold(target, arguments, keywords)
        raise Break("RB009" if name in OUTPUT else "RB001", f"{name}()")

    def listed_once(self, value):
        """Return an iterator that builtin code would consume as the list of its items."""
        value = self.values.force(value)
        return Sequence(list, self.containers.expanded(value)) if isinstance(value, (GeneratorValue,
                                                                                     IteratorValue)) else value

    @OBJECTS_CALLED.by(*DESCRIPTORS)
    def call_descriptor(self, function, arguments, keywords):
        """Call a method of a builtin class, through the class or ``super()``."""
        target = function.value
        owner, name = self.values.force(arguments[0]), target.__name__
        if target.__objclass__ is type and name == "__call__":
            return self.construction.instantiate(owner, arguments[1:], keywords, True)
        if target.__objclass__ is object:
            return self.object_method(owner, name, arguments[1:])
        if name == "__get__" and isinstance(owner, Object) and isinstance(owner.value, property):
            found = self.subclasses.read(owner.value, arguments[1])
            if found is not None:
                return found
            return self.call(self.values.from_python(owner.value.fget), arguments[1:2], {})
        if name == "__get__" and isinstance(owner, Object) and isinstance(owner.value,
                                                                          (types.GetSetDescriptorType,
                                                                           types.MemberDescriptorType)):
            return self.read_descriptor(owner, *map(self.values.force, arguments[1:]))
        inner = self.containers.as_container(owner)
        if isinstance(owner, ExceptionValue):
            if name == "__init__":
                owner.arguments = list(arguments[1:])
                return Constant(None)
            if name == "add_note":
                notes = self.writes.set_attributes.get((id(owner), "__notes__")) or Sequence(list, [])
                notes.items.append(arguments[1])
                self.writes.put(owner, "__notes__", notes, True)
                return Constant(None)
        elif isinstance(inner, (Sequence, Mapping, SetValue)):
            if name == "__init__":
                if isinstance(inner, Mapping) and inner.kind is collections.OrderedDict and self.arithmetic.method(
                        owner, "__setitem__"):
                    return self.call_python(polyfills.fill, arguments, keywords)
                if arguments[1:] or keywords:
                    method = {Mapping: "update", SetValue: "update", Sequence: "extend"}[type(inner)]
                    return self.containers.call_container(ContainerMethod(inner, method), arguments[1:], keywords)
                return Constant(None)
            return self.containers.call_container(ContainerMethod(inner, name), arguments[1:], keywords)
        elif isinstance(owner, Constant):
            return self.containers.call_container(ContainerMethod(owner, name), arguments[1:], keywords)
        elif isinstance(owner, Object) and isinstance(owner.value,
                                                      dict) and name == "__getitem__" and self.values.known(
                                                          arguments[1]) in owner.value.keys():
            key = self.values.known(arguments[1])
            return self.outside.wrap(dict.__getitem__(owner.value, key),
                             Source(None, f"dict.__getitem__({owner.source}, {self.guarding.literal(key)})"))
        elif isinstance(owner, TensorValue):
            return self.framework.run_framework(target, arguments, keywords)
        elif isinstance(owner, Object) and isinstance(owner.value, (*NUMBERS_AND_TEXT, re.Pattern, re.Match)):
            return self.arithmetic.fold(target, arguments, keywords)
        raise Break("RB001", f"{target.__objclass__.__name__}.{name}()")

    def object_method(self, owner, name, arguments):
        if name == "__init__":
            return Constant(None)
        if name == "__setattr__":
            self.writes.store(owner, self.values.known(arguments[0]), arguments[1], True)
            return Constant(None)
        if name == "__getattribute__":
            return self.attributes.stored(owner, self.values.known(arguments[0]))
        if name == "__delattr__":
            self.writes.remove(owner, self.values.known(arguments[0]))
            return Constant(None)
        if name in ("__eq__", "__ne__"):
            same = self.arithmetic.identical(owner, arguments[0])
            return Constant(same if name == "__eq__" else not same) if same else Constant(NotImplemented)
        raise Break("RB001", f"object.{name}()")

    def read_descriptor(self, descriptor, of, cls=Constant(None)):
        """``__get__`` of a descriptor that native code defines, for an object."""
        found, kind = descriptor.value, self.classes.class_of(of)
        name, owner = found.__name__, found.__objclass__
        if kind is type(None):
            if self.classes.class_of(cls) is type(None):
                raise raised(TypeError, "__get__(None, None) is invalid")
            return descriptor
        if not issubclass(kind, owner):
            raise raised(TypeError, f"descriptor {name!r} for {owner.__name__!r} objects doesn't apply to a "
                                    f"{kind.__name__!r} object")
        if type(of) is Object and static(type(of.value), name) is found:
            return self.attributes.read_native(of, found, name, falls_back=False)
        return self.attributes.getattr(of, name)

    # --- inlining -----------------------------------------------------------------------------------------------------
    @VALUES_CALLED.by(Function)
    def inline(self, function: Function, arguments, keywords):
        code = function.code
        if code.co_flags & COROUTINE:
            raise Break("RB010", f"{function.name}() is a coroutine")
        frame = self.machine.new_frame(code, function.namespace)
        variables = bound(function, arguments, keywords)
        for name in code.co_cellvars:
            frame.cells[name] = Cell(variables.pop(name, None))
        frame.cells.update(zip(code.co_freevars, function.closure))
        frame.locals = variables
        if code.co_flags & GENERATOR:
            if "generators" in self.machine.rules:
                raise Break("RB010", f"{function.name}() is a generator")
            if "dropped" in self.machine.rules:
                raise Break("RB010", f"{function.name}() is dropped before its end, within try or with", native=True)
            frame.generator = GeneratorValue(frame, function, (arguments, keywords))
            self.generators.made.append(frame.generator)
            return frame.generator
        self.machine.push_frame(frame)
        return None


def bound(function: Function, arguments, keywords) -> dict:
    """Return the initial local variables of a call; a Break if the arguments do not fit, so that Python raises its
    error."""
    code, names = function.code, function.code.co_varnames
    count, positional = code.co_argcount, code.co_posonlyargcount
    defaults, keywords, variables = function.defaults, dict(keywords), {}
    wrong = Break("RB007", f"{function.name}() gets arguments that do not fit it")
    for k, name in enumerate(names[:count]):
        if k < len(arguments):
            variables[name] = arguments[k]
        elif k >= positional and name in keywords:
            variables[name] = keywords.pop(name)
        elif k >= count - len(defaults):
            variables[name] = defaults[k - count + len(defaults)]
        else:
            raise wrong
    last = count + code.co_kwonlyargcount
    for name in names[count:last]:
        if name in keywords:
            variables[name] = keywords.pop(name)
        elif name in function.keyword_defaults:
            variables[name] = function.keyword_defaults[name]
        else:
            raise wrong
    if code.co_flags & VARARGS:
        variables[names[last]] = Sequence(tuple, list(arguments[count:]))
        last += 1
    elif len(arguments) > count:
        raise wrong
    if code.co_flags & VARKEYWORDS:
        variables[names[last]] = Mapping(keywords)
    elif keywords:
        raise wrong
    return variables
