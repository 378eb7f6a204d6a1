"""Calls: what is inlined, what the framework runs on fakes, what is evaluated now, and what breaks the graph."""
from __future__ import annotations

import collections
import copy
import enum
import functools
import importlib.metadata
import importlib.util
import inspect
import itertools
import logging
import math
import operator
import os
import re
import sys
import threading
import types
import typing
import weakref

import numpy as np

from ..._ops import Callable
from ..autograd.function import Function as CustomFunction
from ..core.devices import device
from ..core.dtypes import category_of, default_of, finfo, iinfo
from ..core.epoch import changed
from ..core.interpret import Unwatched, recording, top
from ..core.meta import Size
from ..core.native import Op, Tensor, mine
from ..core.op import OPS, declared_scalars
from ..core.pytree import tree_flatten, tree_unflatten
from ..core.results import is_result
from ...nn.modules.container import ModuleList, Sequential
from ...nn.modules.lazy import LazyModuleMixin
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from ...overrides import is_tensor_like
from . import custom, marks, polyfills
from .arrays import DISPATCHED
from .attributes import ABSENT, FRAMEWORK, HEAP, is_framework, plain_code, static
from .bytecode import COROUTINE, GENERATOR, VARARGS, VARKEYWORDS
from .containers import raised
from .errors import Again, Break, CaptureError, Raised
from .parts import CALLED, Part
from .protocols import ASKED, stand_in
from .unbacked import Effect
from .reals import Real
from .transforms import ROOMS, kind_of
from .values import (IDENTITIES, NUMBERS_AND_TEXT, PLAIN, ArrayValue, Cell, Constant, ContainerMethod, Deferred,
                     ExceptionValue, Function, GeneratorValue, Identity, Instance,
                     IteratorValue, Key, Lazy, Mapping, Method, Number,
                     Object, Partial, Sequence, SetValue, Source, Super, TensorValue)

APPLY = CustomFunction.__dict__["apply"].__func__
INLINED = tuple(f"{FRAMEWORK}.{room}" for room in (
    "nn.modules", "nn.multihead", "nn.utils", "_src.checks", "func.modules", "_src.compiling", "_src.controls",
    "_src.autograd.mode", "amp", "_src.capture.polyfills", "utils", "optim", "fx",
    "distributions", "jit", "_higher_order_ops", "_src.core.pytree", "_src.compat.devices", "_dynamo", "ao"))
RUN = tuple(f"{FRAMEWORK}.{room}" for room in ("_src.ops", "_src.core", "nn.functional", "nn.init", "_src.api",
                                               "_src.foreach", "special", "linalg", "fft", "_src.capture", "_src.eager",
                                               "_src.compiler", "distributed.functional"))
CALLING = (f"{FRAMEWORK}.nn.attention.flex_attention",)  # framework code that calls functions of the user
SETTINGS = tuple(f"{FRAMEWORK}.{room}" for room in ("_src.determinism", "_src.switches", "backends", "cuda", "cpu",
                                                    "accelerator", "distributed", "_src.autograd.anomaly",
                                                    "_src.devices.cpu.llvm.pool",
                                                        "_src.compat.devices", "_src.core.random"))
FORBIDDEN = {f"{FRAMEWORK}._src.api": ("set_",),
             f"{FRAMEWORK}._src.core.random": ("manual_seed", "seed", "set_rng_state", "get_rng_state", "fork_rng"),
             f"{FRAMEWORK}._src.core.printing": ("set_",)}
OUTPUT = frozenset(("print", "input", "open", "exec", "eval", "breakpoint", "warn"))
FRAMES = (locals, dir, globals, sys._getframe)
FOLDED = frozenset((threading.get_ident, abs, divmod, round, pow, ord, chr, bin, hex, oct, format, ascii,
                    hash)) | frozenset(
    v for m in (math, operator) for v in vars(m).values() if isinstance(v, types.BuiltinFunctionType))
# which run through what they are given
ITERATING = frozenset((math.prod, math.fsum, math.dist, operator.countOf, operator.indexOf))
# which want whole numbers
INDEXING = frozenset((bin, oct, hex, chr, operator.index, math.gcd, math.lcm, math.factorial, math.comb, math.perm,
                      math.isqrt))
NUMBER_METHODS = {int: ("__int__", "__index__"), float: ("__float__", "__index__"),
                  complex: ("__complex__", "__float__", "__index__")}
CONTAINERS = (list, tuple, dict, set, frozenset, collections.deque, collections.OrderedDict, collections.defaultdict)
COPYING = ("__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__",
           "__getnewargs_ex__")
GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
ABSTRACT = 1 << 20  # flag of classes with abstract methods
VALUES = (device, Size, finfo, iinfo)  # framework classes whose instances are values
DESCRIPTORS = (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType)
DISPATCH = functools.singledispatch(len).dispatch.__code__
# functions of NumPy that make one number of a list
NUMBERS_OF = (np.prod, np.sum, np.mean, np.max, np.min, np.round, np.ndim, np.size)
COMPARED = {operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">",
            operator.ge: ">="}
OPERATORS = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
             operator.mod: "%", operator.matmul: "@"}


class Calls(Part):
    """How the machine calls.  A result of None means: a frame was pushed, the result comes on the caller's stack."""

    def call(self, function, arguments, keywords):
        function = self.force(function)
        if self.computing is not None:
            self.check_computing(function)
        if isinstance(function, Method):
            return self.call(function.function, [function.owner, *arguments], keywords)
        if isinstance(function, Function):
            return self.inline(function, arguments, keywords)
        if isinstance(function, ContainerMethod):
            return self.call_container(function, arguments, keywords)
        if isinstance(function, Partial):
            return self.call(function.function, [*function.arguments, *arguments], {**function.keywords, **keywords})
        if isinstance(function, Object):
            return self.call_object(function, arguments, keywords)
        if isinstance(function, Instance):
            found = self.class_attribute(function.cls, "__call__")
            if found:
                return self.call(found, [function, *arguments], keywords)
        if isinstance(function, Constant):
            return self.fold(lambda value: value(), [function])  # the error of what cannot be called
        raise Break("RB001", f"a call of a {self.describe(function)}")

    def call_python(self, function, arguments, keywords=None):
        """A call of one of the polyfills."""
        return self.call(self.from_python(function), arguments, keywords or {})

    def call_object(self, function, arguments, keywords):
        target = function.value
        mark = marks.of(target)
        if mark is not None:
            return self.call_marked(mark, function, arguments, keywords)
        if isinstance(target, (Op, Callable)):
            return self.run_framework(target, arguments, keywords)
        if (marks.reordered or marks.ignored) and isinstance(target, types.FunctionType | types.BuiltinFunctionType):
            self.pin(function)
            if target in marks.ignored:
                return Constant(None)
            if target in marks.reordered:
                return self.reordered(function, arguments, keywords)
        if isinstance(target, types.FunctionType):
            handler = self.answer(target)
            if handler is not None:
                return handler(*arguments, **keywords)
            return self.call_python_function(function, arguments, keywords)
        if isinstance(target, types.MethodType):
            return self.call(self.bound_method(target, function.source), arguments, keywords)
        if isinstance(target, type) or isinstance(target, types.BuiltinFunctionType):
            handler = self.answer(target)
            if handler is not None:
                return handler(*arguments, **keywords)
        if isinstance(target, type):
            return self.instantiate(function, arguments, keywords)
        if isinstance(target, DESCRIPTORS):
            return self.call_descriptor(target, arguments, keywords)
        if isinstance(target, types.BuiltinFunctionType):
            return self.call_builtin(function, arguments, keywords)
        if isinstance(target, functools._lru_cache_wrapper):
            if arguments and isinstance(getattr(self.force(arguments[0]), "value", None), logging.Logger):
                return self.reordered(function, arguments, keywords)  # it remembers what it logged
            if all(isinstance(self.force(v), Constant)
                   for v in (*arguments, *keywords.values())) and self.settled(target.__wrapped__):
                return self.fold(target, arguments, keywords)
            return self.call(self.from_python(target.__wrapped__), arguments, keywords)
        if isinstance(target, functools.partial):
            return self.call_partial(target, function.source, arguments, keywords)
        if isinstance(target, operator.methodcaller):
            make, parts = target.__reduce__()
            named = make.keywords if isinstance(make, functools.partial) else {}
            name, *more = (*make.args, *parts) if named else parts
            return self.call(self.attribute_now(arguments[0], name), list(map(self.from_python, more)),
                             {k: self.from_python(v) for k, v in named.items()})
        if isinstance(target, (operator.attrgetter, operator.itemgetter)):
            return self.call_getter(target, arguments)
        if type(target) is weakref.ref and function.source is not None:
            return self.wrap(target(), Source(function.source, "()"))
        return self.call_instance(function, target, arguments, keywords)

    def answer(self, target):
        """What is called in place of a function: the method of a part, or a polyfill; None where there is neither."""
        found = CALLED.find(self, target)
        if found is None and target in polyfills.POLYFILLS:
            return lambda *arguments, **keywords: self.call_python(polyfills.POLYFILLS[target], list(arguments), keywords)
        return found

    def settled(self, function) -> bool:
        """Whether a function has nothing to do with tensors, so that it may be called now."""
        return isinstance(function, types.FunctionType) and plain_code(function.__code__, function.__globals__)

    @CALLED.by(LazyModuleMixin._infer_parameters)
    def initialise(self, owner, module, arguments, keywords=Constant(None)):
        """Gives a module the parameters that it makes of its first arguments; capture begins anew."""
        module = self.force(module)
        if not isinstance(module, Object):
            raise Break("RB001", "a module made here, whose parameters are made of its first arguments")
        module = module.value
        leaves, spec = tree_flatten((self.concrete(arguments), self.concrete(keywords) or {}))
        with Unwatched():  # each element of what stands for a tensor is the same number
            leaves = [OPS["empty"]((), dtype=leaf.dtype).expand(tuple(leaf._meta.shape)) if isinstance(leaf, Tensor)
                      else leaf for leaf in leaves]
            args, kwargs = tree_unflatten(leaves, spec)
            module._infer_parameters(module, args, kwargs)
        raise Again(("initialised", id(module)))

    def call_instance(self, function, target, arguments, keywords):
        found = self.class_attribute(type(target), "__call__")
        if isinstance(target, (np.ufunc, DISPATCHED)):
            handler = self.answer(target)
            if handler is not None:
                return handler(*arguments, **keywords)
            if self.holds_arrays((*arguments, *keywords.values())):
                return self.run_framework(target, arguments, keywords)
        if isinstance(target, np.ufunc) and all(isinstance(self.force(a), Constant)
                                                for a in (*arguments, *keywords.values())):
            return self.fold(target, arguments, keywords)
        if type(target) is type(np.prod) and target in NUMBERS_OF and len(arguments) == 1 and not keywords:
            return self.fold(target, arguments)
        if found is None:
            raise Break("RB001", f"a call of a {type(target).__name__}")
        return self.call(found, [function, *arguments], keywords)

    def call_marked(self, mark, function, arguments, keywords):
        if mark == "compiling":
            return Constant(True)
        if mark == "exporting":
            return Constant(self.entry.owner.exporting)
        if mark == "break":
            raise Break("RB006", ", ".join(str(self.known(a)) for a in arguments) or "graph_break()")
        if mark == "skipped":
            raise Break("RB006", f"{function.value.__name__}()", native=True)
        if mark == "disallowed":
            raise Break("RB006", f"{function.value.__name__}() is not allowed in graphs")
        if mark == "forbidden":
            raise CaptureError(
                f"{function.value.__name__}() was called in compiled code, where forbid_in_graph() forbids it")
        if mark == "disabled":
            raise Break("RB006", f"{function.value.__name__}() is disabled for compilation")
        if mark == "allowed":
            return self.allowed(function.value, arguments, keywords)
        if mark == "constant":
            return self.fold(function.value, arguments, keywords)
        if mark == "following":
            return self.given_back(arguments, keywords)
        return self.call(self.from_python(mark.original), arguments, keywords)

    def given_back(self, arguments, keywords):
        """A call of ``compile`` in compiled code: what it is given is followed there anyway, so that is what it
        returns; of options alone, what takes a function."""
        given = self.force(arguments[0] if arguments else keywords.get("model", Constant(None)))
        return self.from_python(polyfills.itself) if isinstance(given, Constant) and given.value is None else given

    def allowed(self, function, arguments, keywords):
        """A function that users allow in graphs: one node, which calls it.  Where it writes, or draws random numbers,
        what it does is recorded."""
        recorder = self.recorder
        start, drawn = len(recorder.nodes), self.drawn
        result, leaves = self.run_framework(function, arguments, keywords), []
        if not isinstance(function, types.FunctionType) or any(map(self.varies, (*arguments, *keywords.values()))):
            return result
        spec = self.flattened(result, leaves)
        if not leaves:
            return self.call_in_place(function, arguments, keywords, result)
        inside = recorder.nodes[start:]
        if self.drawn != drawn or any(n in recorder.writers for n in inside) or any(leaf.fake.node not in inside
                                                                                    for leaf in leaves):
            return result
        del recorder.nodes[start:]
        given, named = [self.concrete(a) for a in arguments], {k: self.concrete(v) for k, v in keywords.items()}
        operator_of_call, tensors = custom.allowed(function, given, named)
        made = self.items_of(self.run_framework(operator_of_call, list(map(self.from_python, tensors)), {}))
        for one, leaf in zip(made, leaves):
            one.fake._needs_grad = leaf.fake._needs_grad
        return self.tree_of(spec, iter(made))

    def call_in_place(self, function, arguments, keywords, result):
        """A function without tensors in its result, as a node that Python calls between programs, in the mode of its
        place."""
        recorder, grad = self.recorder, mine.grad
        leaves, spec = tree_flatten(([self.concrete(a) for a in arguments],
                                     {k: self.concrete(v) for k, v in keywords.items()}))

        def call(*values):
            args, kwargs = tree_unflatten(list(values), spec)
            with recording(grad):
                function(*args, **kwargs)

        node = recorder.node(Effect(function.__name__, call), tuple(map(recorder.lowered, leaves)), None)
        recorder.writers.add(node)
        return result

    def call_python_function(self, function, arguments, keywords):
        target = function.value
        module = target.__globals__.get("__name__") or ""
        if target.__code__ is DISPATCH:
            return self.dispatched(target, *map(self.known, arguments))
        if target in FRAMES:
            raise Break("RB008", f"{target.__name__}()", native=True)
        if target is APPLY:
            return self.custom_function(self.force(arguments[0]).value, arguments[1:])
        if module.partition(".")[0] == "logging":
            raise Break("RB009", f"{target.__qualname__}()")
        if is_framework(module):
            if any(target.__name__.startswith(n) for n in FORBIDDEN.get(module, ())):
                raise Break("RB001", f"{target.__name__}() changes global state")
            if module.startswith(CALLING):
                return self.run_framework(target, arguments, keywords, self.for_framework)
            if module.startswith(ROOMS):
                return self.transform(function, arguments, keywords)
            if target.__name__.startswith(("get_", "is_", "are_", "device_count",
                                           "initial_seed")) and module.startswith(
                                               SETTINGS) and not arguments and not keywords:
                return self.setting(target)
            if module.startswith(RUN) and not module.startswith(INLINED):
                return self.run_framework(target, arguments, keywords)
            if not module.startswith(INLINED):
                raise Break("RB011" if ".autograd" in module else "RB001", f"{target.__name__}()")
        return self.inline(self.as_function(function), arguments, keywords)

    def setting(self, target):
        """What a function of the framework without arguments says: a setting, which is guarded."""
        found = target()
        if type(found) not in PLAIN and not isinstance(found, IDENTITIES):
            raise Break("RB001", f"{target.__name__}()")
        self.guard(f"{self.constant_name(target)}() == {self.constant_name(found)}")
        return self.from_python(found)

    def dispatched(self, dispatch, cls):
        """The function that ``functools.singledispatch`` chooses for a class."""
        found = dispatch(cls)
        self.guard(f"{self.constant_name(dispatch)}({self.constant_name(cls)}) is {self.constant_name(found)}")
        return self.from_python(found)

    def custom_function(self, function, arguments):
        """``autograd.Function.apply``: one node; what the user's functions read from outside is guarded."""
        for written in custom.functions_of(function):
            self.as_function(Object(written, self.constant_source(written)))
            for name in custom.globals_of(written):
                self.load_global(written.__globals__, name)
        given = [self.concrete(a) for a in arguments]
        operator_of_call = custom.operator(function, given)
        made = self.run_framework(operator_of_call, [self.from_python(g) for g in given if isinstance(g, Tensor)], {})
        for k in operator_of_call.facts["constant"]:
            self.item(made, k).fake._needs_grad = 0
        return made

    def as_function(self, function) -> Function:
        """A function from outside with its closure and defaults, as a Function."""
        target, source = function.value, function.source
        made = Function(target.__code__, target.__globals__, name=target.__name__)
        framework = is_framework(target.__module__)
        if not framework:
            self.codes[target] = target.__code__
        if target.__closure__:
            made.closure = [self.wrap(c, source.attribute("__closure__").item(str(k)))
                            for k, c in enumerate(target.__closure__)]
        if target.__defaults__:
            made.defaults = [self.from_python(d) if framework
                             else Lazy(d, source.attribute("__defaults__").item(str(k)))
                             for k, d in enumerate(target.__defaults__)]
        if target.__kwdefaults__:
            made.keyword_defaults = {n: self.from_python(d) if framework
                                     else Lazy(d, source.attribute("__kwdefaults__").item(repr(n)))
                                     for n, d in target.__kwdefaults__.items()}
        return made

    def bound_method(self, method, source):
        return Method(self.wrap(method.__func__, source.attribute("__func__")),
                      self.wrap(method.__self__, source.attribute("__self__")))

    def call_partial(self, target, source, arguments, keywords):
        before = [self.wrap(a, source.attribute("args").item(str(k))) for k, a in enumerate(target.args)]
        named = {n: self.wrap(v, source.attribute("keywords").item(repr(n))) for n, v in target.keywords.items()}
        return self.call(self.wrap(target.func, source.attribute("func")), before + arguments, {**named, **keywords})

    def call_getter(self, target, arguments):
        found, names = arguments[0], target.__reduce__()[1]
        if isinstance(target, operator.itemgetter):
            got = [self.now(self.from_python(operator.getitem), [found, self.from_python(n)]) for n in names]
        else:
            got = [functools.reduce(self.attribute_now, path.split("."), found) for path in names]
        return got[0] if len(got) == 1 else Sequence(tuple, got)

    # --- the framework ------------------------------------------------------------------------------------------------
    def run_framework(self, function, arguments, keywords, concrete=None):
        """Runs framework code on fakes, which ``concrete`` makes of arguments; the operators it calls are recorded."""
        if isinstance(function, Op) and declared_scalars(function):
            arguments, keywords = self.with_numbers(function, arguments, keywords)
        frame = self.frames[-1]
        fixed, varying = ("fixed", frame.code,
                          frame.now.offset), any(map(self.varies, (*arguments, *keywords.values())))
        concrete = concrete or (self.fixed if fixed in self.rules else self.passed_on)
        given = [concrete(a) for a in arguments]
        named = {k: concrete(v) for k, v in keywords.items()}
        try:
            return self.from_python(function(*given, **named))
        except Raised:
            raise
        except Exception as error:
            if varying and fixed not in self.rules:
                raise Again(fixed) from error  # its numbers are as they are now
            if isinstance(error, Break):
                raise
            if self.symbols and "static" not in self.rules:
                raise Again("static") from error
            name = getattr(function, "name", None) or getattr(function, "__name__", type(function).__name__)
            raise Break("RB007", f"{name}: {type(error).__name__}: {error}") from error

    def tensor_of(self, function, arguments, keywords):
        """``torch.tensor(data)``: numbers that vary are filled in one by one when the graph runs."""
        options = {"data": Constant(None), "dtype": Constant(None), "device": Constant("cpu"),
                   **dict(zip(("data", "dtype"), arguments)), **keywords}
        if len(options) > 3 or not self.numbers_in(options["data"]) or str(self.known(options["device"])) not in (
                "cpu", "None"):
            return self.run_framework(function, arguments, keywords)
        numbers, shape = self.nested_numbers(options["data"])
        chosen = self.known(options["dtype"]) or default_of(max(category_of(v.hint if isinstance(v, Number)
                                                                            else v.value) for v in numbers))
        filled = [self.run_framework(OPS["_filled"], [self.run_time_number(v) if isinstance(v, Number) else v,
                                                      Constant(()), self.from_python(chosen)], {}) for v in numbers]
        return self.run_framework(Tensor.view, [self.run_framework(OPS["stack"], [Sequence(list, filled)], {}),
                                                Constant(shape)], {})

    def nested_numbers(self, data):
        """(the numbers in nested lists, row by row; their shape); a Break where they have none."""
        data = self.force(data)
        if isinstance(data, Sequence):
            rows = [self.nested_numbers(self.item(data, k)) for k in range(len(data.items))]
            if len({shape for _, shape in rows}) != 1:
                raise Break("RB007", "torch.tensor() of rows that differ in length")
            return [v for numbers, _ in rows for v in numbers], (len(rows), *rows[0][1])
        if not isinstance(data, Number) and not (isinstance(data, Constant) and type(data.value) in (bool, int, float)):
            raise Break("RB004", "torch.tensor() of numbers that vary and something else")
        return [data], ()

    def vary(self, values) -> bool:
        """Whether these are numbers, of which some vary from call to call."""
        values = list(map(self.force, values))
        return any(map(self.varies, values)) and all(isinstance(v, Number) and not self.unknown(v)
                                                     or isinstance(v, Constant) and type(v.value) in (int, float)
                                                     for v in values)

    def varies(self, value) -> bool:
        """Whether a value is a number that varies from call to call, or holds one."""
        value = self.force(value)
        if isinstance(value, Sequence) and issubclass(value.kind, (list, tuple)):
            return any(map(self.varies, value.items))
        return isinstance(value, Number) and not self.unknown(value)

    def numbers_in(self, value) -> bool:
        """Whether a value is a number that is not known now, or a list that holds one."""
        value = self.force(value)
        if isinstance(value, Sequence) and issubclass(value.kind, (list, tuple)):
            return any(map(self.numbers_in, value.items))
        return isinstance(value, Number)

    def passed_on(self, value):
        """The Python value that framework code gets: floats that vary as Reals."""
        value = self.force(value)
        if isinstance(value, Number) and value.text is not None and top() is self.recorder:
            return Real(self, value)
        if isinstance(value, Sequence) and value.kind in (list, tuple, Size):
            return value.kind([self.passed_on(self.item(value, k)) for k in range(len(value.items))])
        return self.concrete(value)

    def fixed(self, value):
        """The Python value that framework code gets: numbers that vary as they are now."""
        value = self.force(value)
        if isinstance(value, Sequence) and value.kind in (list, tuple, Size):
            return value.kind([self.fixed(self.item(value, k)) for k in range(len(value.items))])
        return self.known(value) if isinstance(value, Number) and not self.unknown(value) else self.concrete(value)

    def with_numbers(self, operator, arguments, keywords):
        """The arguments with floats that vary as inputs of the graph, where the operator takes them at run time."""
        names = list(operator.signature.parameters)

        def entered(value, place):
            value = self.force(value)
            varies = isinstance(value, Number) and value.text is not None and declared_scalars(operator) >> place & 1
            return self.run_time_number(value) if varies else value

        return [entered(v, k) for k, v in enumerate(arguments)], {n: entered(v, names.index(n)) if n in names else v
                                                                  for n, v in keywords.items()}

    # --- builtins -----------------------------------------------------------------------------------------------------
    def call_builtin(self, function, arguments, keywords):
        target = function.value
        name, owner = target.__name__, target.__self__
        if target in FRAMES:
            raise Break("RB008", f"{name}()", native=True)
        if name == "__new__" and isinstance(owner, type):
            return self.new(owner, arguments)
        if isinstance(owner, CONTAINERS):
            source = function.source.attribute("__self__")
            return self.call_container(ContainerMethod(self.wrap(owner, source), name), arguments, keywords)
        if owner is itertools.chain and name == "from_iterable":
            return self.call_python(polyfills.chain_from, arguments)
        if owner in (dict, collections.OrderedDict, collections.defaultdict) and name == "fromkeys":
            default = arguments[1] if len(arguments) > 1 else keywords.get("value", Constant(None))
            return Mapping({self.key(k): default for k in self.expanded(arguments[0])}, None, owner)
        if target in FOLDED:
            if self.holds_arrays(arguments):
                return self.run_framework(target, arguments, keywords)
            method = arguments and self.method(self.force(arguments[0]), f"__{name}__")
            if method:
                return self.answered(f"__{name}__", method,
                                     *arguments) if f"__{name}__" in ASKED else self.call(method, arguments, keywords)
            if target in INDEXING:
                arguments = list(map(self.index_of, arguments))
            if any(isinstance(self.force(a), TensorValue) for a in arguments):
                return self.run_framework(target, arguments, keywords)
            if target in OPERATORS:
                return self.binary(OPERATORS[target], *arguments)
            if not keywords and self.vary(arguments):
                return self.computed_by(target, arguments)
            return self.fold(target, list(map(self.listed_once, arguments)) if target in ITERATING else arguments,
                             keywords)
        if isinstance(owner, type) and name in ("fromkeys", "fromhex", "from_bytes", "maketrans"):
            return self.fold(target, arguments, keywords)
        raise Break("RB009" if name in OUTPUT else "RB001", f"{name}()")

    def listed_once(self, value):
        """An iterator that builtin code would run through as the list of its items."""
        value = self.force(value)
        return Sequence(list, self.expanded(value)) if isinstance(value, (GeneratorValue, IteratorValue)) else value

    def call_descriptor(self, target, arguments, keywords):
        """A method of a builtin class, called through the class or ``super()``."""
        owner, name = self.force(arguments[0]), target.__name__
        if target.__objclass__ is type and name == "__call__":
            return self.instantiate(owner, arguments[1:], keywords, True)
        if target.__objclass__ is object:
            return self.object_method(owner, name, arguments[1:])
        if name == "__get__" and isinstance(owner, Object) and isinstance(owner.value, property):
            return self.call(self.from_python(owner.value.fget), arguments[1:2], {})
        if name == "__get__" and isinstance(owner, Object) and isinstance(owner.value,
                                                                          (types.GetSetDescriptorType,
                                                                           types.MemberDescriptorType)):
            return self.getattr(arguments[1], owner.value.__name__)
        inner = self.as_container(owner)
        if isinstance(owner, ExceptionValue):
            if name == "__init__":
                owner.arguments = list(arguments[1:])
                return Constant(None)
            if name == "add_note":
                notes = self.attributes.get((id(owner), "__notes__")) or Sequence(list, [])
                notes.items.append(arguments[1])
                self.put(owner, "__notes__", notes, True)
                return Constant(None)
        elif isinstance(inner, (Sequence, Mapping, SetValue)):
            if name == "__init__":
                if arguments[1:] or keywords:
                    method = {Mapping: "update", SetValue: "update", Sequence: "extend"}[type(inner)]
                    return self.call_container(ContainerMethod(inner, method), arguments[1:], keywords)
                return Constant(None)
            return self.call_container(ContainerMethod(inner, name), arguments[1:], keywords)
        elif isinstance(owner, Constant):
            return self.call_container(ContainerMethod(owner, name), arguments[1:], keywords)
        elif isinstance(owner, Object) and isinstance(owner.value,
                                                      dict) and name == "__getitem__" and self.known(
                                                          arguments[1]) in owner.value.keys():
            key = self.known(arguments[1])
            return self.wrap(dict.__getitem__(owner.value, key),
                             Source(None, f"dict.__getitem__({owner.source}, {self.literal(key)})"))
        elif isinstance(owner, TensorValue):
            return self.run_framework(target, arguments, keywords)
        elif isinstance(owner, Object) and isinstance(owner.value, (*NUMBERS_AND_TEXT, re.Pattern, re.Match)):
            return self.fold(target, arguments, keywords)
        raise Break("RB001", f"{target.__objclass__.__name__}.{name}()")

    def object_method(self, owner, name, arguments):
        if name == "__init__":
            return Constant(None)
        if name == "__setattr__":
            self.store(owner, self.known(arguments[0]), arguments[1], True)
            return Constant(None)
        if name == "__getattribute__":
            return self.getattr(owner, self.known(arguments[0]), False)
        if name == "__delattr__":
            self.remove(owner, self.known(arguments[0]))
            return Constant(None)
        if name in ("__eq__", "__ne__"):
            same = self.identical(owner, arguments[0])
            return Constant(same if name == "__eq__" else not same) if same else Constant(NotImplemented)
        raise Break("RB001", f"object.{name}()")

    # --- making objects -----------------------------------------------------------------------------------------------
    def new(self, base, arguments):
        """``base.__new__(cls, ...)`` of a builtin base."""
        cls = self.force(arguments[0]).value
        if cls.__flags__ & ABSTRACT:
            raise Break("RB007", f"a new {cls.__name__}, which is abstract")
        if issubclass(cls, BaseException):
            return ExceptionValue(cls, arguments[1:])
        if issubclass(cls, NUMBERS_AND_TEXT):
            return self.fold(base.__new__, arguments)
        if base is tuple:
            return Sequence(cls, self.expanded(arguments[1]) if len(arguments) > 1 else [])
        for kind in (collections.OrderedDict, dict):
            if issubclass(cls, kind):
                return Instance(cls, Mapping({}, None, kind))
        if issubclass(cls, list):
            return Instance(cls, Sequence(list, []))
        if base is object:
            return Instance(cls)
        raise Break("RB001", f"a new {cls.__name__}")

    def instantiate(self, function, arguments, keywords, plain=False):
        """A call of a class; ``plain``: without its metaclass's ``__call__``."""
        cls = function.value
        if cls in CONTAINERS:
            return self.make_container(cls, arguments, keywords)
        if typing.is_typeddict(cls):
            return self.make_container(dict, arguments, keywords)
        if cls.__flags__ & ABSTRACT:
            raise Break("RB007", f"a new {cls.__name__}, which is abstract")
        if cls is types.SimpleNamespace and not arguments:
            made = Instance(cls)
            for name, value in keywords.items():
                self.put(made, name, value, True)
            return made
        if issubclass(cls, NUMBERS_AND_TEXT) and static(cls, "__init__") is object.__init__ and not isinstance(
                static(cls, "__new__"), staticmethod):
            return self.fold(cls, arguments, keywords)
        if cls is types.MethodType:
            return Method(*arguments)
        if cls in GETTERS:
            return self.fold(cls, arguments, keywords)
        if issubclass(cls, np.generic):
            return self.fold(cls, arguments, keywords)
        if cls in VALUES:
            return self.run_framework(cls, arguments, keywords)
        if issubclass(cls, tuple) and is_result(cls) and not keywords:
            given = self.force(arguments[0]) if len(arguments) == 1 < len(cls._fields) else None
            parts = self.items_of(given) if isinstance(given, Sequence) else list(arguments)
            if len(parts) == len(cls._fields):
                return Sequence(cls, parts)
        if cls is functools.partial:
            return Partial(arguments[0], list(arguments[1:]), dict(keywords))
        if isinstance(cls, enum.EnumMeta):
            return self.fold(cls, arguments, keywords)
        if issubclass(cls, Tensor):
            raise Break("RB001", f"a new {cls.__name__}: make it outside, once")
        make = static(type(cls), "__call__")
        if isinstance(make, types.FunctionType) and not plain:
            return self.call(Object(make, self.constant_source(make)), [function, *arguments], keywords)
        new, init = static(cls, "__new__"), static(cls, "__init__")
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
            frame = self.frames[-1]
            frame.stack.append(made)
            self.push_dropping(self.from_python(init), [made, *arguments], keywords)
            return None
        if not python and issubclass(cls, BaseException):
            return ExceptionValue(cls, arguments)
        known_init = Constant(None) if init is object.__init__ else self.from_python(init)
        return self.call_python(polyfills.instantiate,
                                [function, self.from_python(new), known_init, Sequence(tuple, arguments),
                                 Mapping(dict(keywords))])

    # --- inlining -----------------------------------------------------------------------------------------------------
    def inline(self, function: Function, arguments, keywords):
        code = function.code
        if code.co_flags & COROUTINE:
            raise Break("RB010", f"{function.name}() is a coroutine")
        frame = self.new_frame(code, function.namespace)
        variables = bound(function, arguments, keywords)
        for name in code.co_cellvars:
            frame.cells[name] = Cell(variables.pop(name, None))
        frame.cells.update(zip(code.co_freevars, function.closure))
        frame.locals = variables
        if code.co_flags & GENERATOR:
            if "generators" in self.rules:
                raise Break("RB010", f"{function.name}() is a generator")
            frame.generator = GeneratorValue(frame, function, (arguments, keywords))
            return frame.generator
        self.push_frame(frame)
        return None

    # --- builtins that look at their arguments ------------------------------------------------------------------------
    @CALLED.by(isinstance)
    def builtin_isinstance(self, value, classes):
        value, wanted = self.force(value), self.known(classes)
        if isinstance(value, Object):
            return Constant(isinstance(value.value, wanted))
        if isinstance(value, TensorValue):
            kind = kind_of(value.fake)
            return Constant(isinstance(value.real, wanted) if value.source is not None else issubclass(kind, wanted))
        return Constant(issubclass(self.class_of(value), wanted))

    @CALLED.by(getattr)
    def builtin_getattr(self, owner, name, default=None):
        name, depth = self.known(name), len(self.frames)
        try:
            found = self.getattr(owner, name)
        except Raised as error:
            if default is None or not issubclass(error.value.cls, AttributeError):
                raise
            return default
        if found is None and default is not None:
            del self.frames[depth:]
            return self.call_python(polyfills.attribute_or, [owner, Constant(name), default])
        return found

    @CALLED.by(hasattr)
    def builtin_hasattr(self, owner, name):
        depth = len(self.frames)
        try:
            self.getattr(owner, self.known(name))
        except Raised as error:
            if not issubclass(error.value.cls, AttributeError):
                raise
            return Constant(False)
        if len(self.frames) > depth:
            del self.frames[depth:]
            return self.call_python(polyfills.has_attribute, [owner, name])
        return Constant(True)

    @CALLED.by(setattr)
    def builtin_setattr(self, owner, name, value):
        depth = len(self.frames)
        self.setattr(owner, self.known(name), value)
        return self.after_store(depth)

    @CALLED.by(delattr)
    def builtin_delattr(self, owner, name):
        depth = len(self.frames)
        self.delattr(owner, self.known(name))
        return self.after_store(depth)

    def after_store(self, depth):
        """The result of a call that stores: None, which the frame of a setter gives too."""
        if len(self.frames) == depth:
            return Constant(None)
        self.frames[depth].discard = False
        return None

    @CALLED.by(vars)
    def builtin_vars(self, *owner):
        if not owner:
            raise Break("RB008", "vars()", native=True)
        return self.getattr(owner[0], "__dict__")

    @CALLED.by(hash)
    def builtin_hash(self, value):
        key = self.key(value)
        if not isinstance(key, Key) or key.number == id(key.value):
            return self.fold(hash, [value])
        return Constant(key.number)

    @CALLED.by(type)
    def builtin_type(self, *arguments):
        if len(arguments) != 1:
            raise Break("RB001", "a new class")
        return self.from_python(self.class_of(arguments[0]))

    @CALLED.by(super)
    def builtin_super(self, cls=None, owner=None):
        frame = self.frames[-1]
        if cls is None:
            if not frame.code.co_argcount or "__class__" not in frame.cells:
                raise Break("RB007", "super() where there is no object or class")
            first = frame.code.co_varnames[0]
            cls = frame.cells["__class__"].content
            owner = frame.locals[first] if first in frame.locals else frame.cells[first].content
        return Super(self.force(cls).value, self.force(owner))

    @CALLED.by(id)
    def builtin_id(self, value):
        value = self.force(value)
        if isinstance(value, TensorValue) and value.source is not None and value.source.covered:
            return Constant(id(value.real))
        if isinstance(value, Object) and isinstance(value.value, (Module, *IDENTITIES)):
            self.pin(value)
            return Constant(id(value.value))
        if isinstance(value, (Constant, Number)):
            raise Break("RB001", "id() of a number or text")
        return Identity(value)

    @CALLED.by(len)
    def builtin_len(self, value):
        return self.length(value)

    @CALLED.by(iter)
    def builtin_iter(self, value, *sentinel):
        if sentinel:
            return self.call_python(polyfills.iter_, [value, *sentinel])
        return self.iterator(value)

    @CALLED.by(next)
    def builtin_next(self, iterator, default=None):
        return self.next(iterator, default)

    @CALLED.by(range)
    def builtin_range(self, *bounds):
        bounds = [self.number_in(b, int) if isinstance(self.force(b), TensorValue) else b for b in bounds]
        return self.fold(range, list(map(self.index_of, bounds)))

    @CALLED.by(reversed)
    def builtin_reversed(self, value):
        return self.reverse_iterator(value)

    @CALLED.by(min, max, told=True)
    def builtin_min_max(self, function, *arguments, **keywords):
        if not keywords and all(isinstance(self.force(a), Constant) for a in arguments) and len(arguments) > 1:
            return self.fold(function, arguments)
        if not keywords and self.vary(arguments) and any(self.class_of(a) is float for a in arguments):
            return self.computed_by(function, arguments)
        return self.call_python(polyfills.POLYFILLS[function], arguments, keywords)

    @CALLED.by(callable)
    def builtin_callable(self, value):
        value = self.force(value)
        if isinstance(value, (Function, Method, ContainerMethod, Partial)):
            return Constant(True)
        cls = self.class_of(value)
        if isinstance(value, Object) and self.user_class(value):
            self.class_attribute(cls, "__call__")
        return Constant(callable(value.value) if isinstance(value, (Object, Constant))
                        else static(cls, "__call__") is not ABSENT)

    @CALLED.by(bool, operator.truth)
    def builtin_bool(self, value=Constant(False)):
        return Constant(self.truth(value))

    @CALLED.by(int, float, complex, told=True)
    def builtin_number(self, kind, value=None, *more):
        if value is None:
            return Constant(kind())
        value = self.force(value)
        if isinstance(value, ArrayValue):
            value = self.tensor_of_array(value)
        if isinstance(value, TensorValue):
            value = self.number_in(value, kind)
        if isinstance(value, Number) and type(value.hint) is kind and not more:
            return value
        if self.vary([value]) and not more:
            return self.computed_by(kind, [value])
        for name in () if more else NUMBER_METHODS[kind]:
            if found := self.has(value, name):
                made = self.now_answered(name, found, value)
                return made if name == NUMBER_METHODS[kind][0] else self.builtin_number(kind, made)
        return self.fold(kind, [value, *more])

    @CALLED.by(str, repr, told=True)
    def builtin_text(self, function, value=Constant(""), *more):
        value = self.force(value)
        if isinstance(value, TensorValue):
            raise Break("RB003", "printing a tensor")
        if isinstance(value, Deferred) and function is str:
            return value
        if isinstance(value, Number) and self.unknown(value) and not more:
            return self.deferred(f"{function.__name__}({{0}})", [value], lambda: None)
        if isinstance(value, Object) and isinstance(value.value,
                                                    BaseException) and not self.method(
                                                        value, f"__{function.__name__}__"):
            value = ExceptionValue(type(value.value), self.items_of(self.getattr(value, "args")))
        if isinstance(value, ExceptionValue):
            if function is str and value.cls.__str__ is BaseException.__str__:
                parts = [self.known(a) for a in value.arguments]
                return Constant(str(parts[0]) if len(parts) == 1 else str(tuple(parts)) if parts else "")
            if self.python_class(value.cls) and not self.class_attribute(value.cls, f"__{function.__name__}__"):
                base = next(b for b in value.cls.__mro__ if not self.python_class(b))
                text = self.fold(function, [ExceptionValue(base, value.arguments)]).value
                return Constant(text if function is str else text.replace(base.__name__, value.cls.__name__, 1))
        cls = value.cls if isinstance(value, ExceptionValue) else self.user_class(value)
        own = cls and function is str and static(cls, "__str__") is not object.__str__
        if (type(value) is Object and cls and value.source is not None and not own and cls.__repr__ is object.__repr__
            and isinstance(function, type | types.BuiltinFunctionType)):
            self.guard(f"{{0}} is {self.constant_name(value.value)}", value.source)
            return Constant(function(value.value))  # which tells the object's address
        for name in (("__str__",) if own else ("__repr__",)):
            found = cls and self.class_attribute(cls, name)
            if found:
                return self.answered(f"__{function.__name__}__", found, value)
        return self.fold(function, [value, *more])

    @CALLED.by(sys.exception)
    def exception_now(self):
        """``sys.exception()``."""
        return self.handling[-1] if self.handling else Constant(None)

    @CALLED.by(polyfills.check_plain)
    def check_plain(self, cls):
        cls = self.known(cls)
        own = any(static(cls, n) not in (ABSENT, getattr(object, n, None)) for n in COPYING)
        if own or not cls.__dictoffset__ or cls.__flags__ & HEAP == 0 or issubclass(cls, (Tensor, Module, list, dict,
                                                                                          tuple, set)):
            raise Break("RB001", f"a copy of a {cls.__name__}")
        return Constant(None)

    @CALLED.by(polyfills.tensor_copied)
    def tensor_copied(self, tensor):
        """``copy.deepcopy`` of a tensor: another one, with the same elements."""
        tensor = self.force(tensor)
        if tensor.fake._needs_grad or self.class_of(tensor) is not Tensor:
            raise Break("RB001", "a copy of a parameter, or of a tensor with a history")
        return self.run_framework(OPS["clone"], [tensor], {})

    @CALLED.by(collections.namedtuple)
    def builtin_namedtuple(self, name, fields, **options):
        """``collections.namedtuple``: the class is made now, once for all calls."""
        options.setdefault("module", self.from_python(self.frames[-1].namespace.get("__name__", "__main__")))
        return self.fold(collections.namedtuple, [name, fields], options)

    @CALLED.by(os.fspath)
    def builtin_fspath(self, path):
        """``os.fspath``."""
        method = self.method(self.force(path), "__fspath__")
        return self.call(method, [path], {}) if method else self.fold(os.fspath, [path])

    @CALLED.by(sys.exc_info)
    def exception_info(self):
        """``sys.exc_info()``."""
        if self.handling:
            raise Break("RB008", "exc_info() while an exception is handled", native=True)
        return Sequence(tuple, [Constant(None)] * 3)

    @CALLED.by(issubclass)
    def builtin_issubclass(self, cls, classes):
        return Constant(issubclass(self.known(cls), self.known(classes)))

    @CALLED.by(slice)
    def builtin_slice(self, *bounds):
        return Constant(slice(*map(self.slice_bound, bounds)))

    @CALLED.by(ModuleList.__getitem__, Sequential.__getitem__, told=True)
    def part_of_row(self, read, owner, index):
        """An item of a row of modules; a part (``layers[:n]``) is such a row again, the same one at every call, since
        the modules are."""
        owner, index = self.force(owner), self.force(index)
        if not (isinstance(owner, Object) and type(owner.value).__getitem__ is read and isinstance(index, Constant)
                and isinstance(index.value, slice) and type(owner.value) in (ModuleList, Sequential)):
            return self.call_python_function(self.from_python(read), [owner, index], {})
        modules = self.attribute_now(owner, "_modules")
        for name in modules.items:
            self.lookup(modules, name)  # what is there now is assumed
        return self.from_python(owner.value[index.value])

    @CALLED.by(inspect.signature)
    def signature(self, function, **options):
        """``inspect.signature`` of a function that exists: how it is written is known now."""
        function = self.force(function)
        bound = isinstance(function, Method)
        target = self.force(function.function) if bound else function
        if options or not isinstance(target, Object) or not isinstance(target.value,
                                                                       types.FunctionType | types.MethodType):
            raise Break("RB001", f"inspect.signature() of a {self.describe(function)}")
        self.pin(target)
        return self.from_python(inspect.signature(types.MethodType(target.value, target) if bound else target.value))

    @CALLED.by(object)
    def builtin_object(self):
        return Instance(object)

    @CALLED.by(Parameter)
    def new_parameter(self, data=None, requires_grad=Constant(True)):
        """``Parameter(data)``: a leaf over what was made here; memory from outside would be shared."""
        data = self.run_framework(OPS["empty"], [Constant(0)], {}) if data is None else self.force(data)
        if not isinstance(data, TensorValue) or self.recorder.root(data.fake.node).op is None:
            raise Break("RB001", "a Parameter over memory from outside: make it there, once")
        return self.from_python(self.recorder.parameter(data.fake, Parameter, self.truth(requires_grad)))

    @CALLED.by(changed)
    def module_changed(self, module):
        """A module's attributes are set by its own code: nothing is assumed yet of one that is made here."""
        if not isinstance(self.force(module), Instance):
            raise Break("RB004", "changing the parameters or modules of a module from outside")
        return Constant(None)

    # --- other functions that are answered ----------------------------------------------------------------------------
    @CALLED.by(types.MappingProxyType)
    def itself(self, value):
        return value

    @CALLED.by(collections._count_elements)
    def count_elements(self, *arguments):
        return self.call_python(polyfills.count_elements, arguments)

    # what is installed does not change
    @CALLED.by(sys.intern, importlib.util.find_spec, importlib.import_module, importlib.metadata.version,
               importlib.metadata.metadata, importlib.metadata.distribution,
               importlib.metadata.packages_distributions, told=True)
    def called_now(self, function, *arguments, **keywords):
        return self.fold(function, arguments, keywords)

    @CALLED.by(copy.copy)
    def copied(self, value):
        return self.call_python(polyfills.copied, [value])

    @CALLED.by(copy.deepcopy)
    def deeply_copied(self, value, memo=Constant(None)):
        return self.call_python(polyfills.deeply_copied, [value, memo])

    @CALLED.by(Module.__getattr__)
    def module_attribute(self, owner, name):
        return self.part_of_network(self.force(owner), self.known(name))

    @CALLED.by(is_tensor_like)
    def tensor_like(self, value):
        return Constant(isinstance(self.force(value), TensorValue)
                        or hasattr(self.class_of(value), "__torch_function__"))

    @CALLED.by(polyfills.no_container)
    def no_container(self, cls):
        return self.fold(operator.contains, [Constant(stand_in(self.known(cls), "", None)), Constant(0)])

    @CALLED.by(operator.getitem)
    def spelled_getitem(self, owner, index):
        return self.subscript(owner, index)

    @CALLED.by(operator.contains)
    def spelled_contains(self, owner, item):
        return self.contains(owner, item)

    @CALLED.by(operator.not_)
    def spelled_not(self, value):
        return Constant(not self.truth(value))

    @CALLED.by(*COMPARED, told=True)
    def spelled_comparison(self, function, a, b):
        return self.compare(COMPARED[function], a, b)


def bound(function: Function, arguments, keywords) -> dict:
    """The local variables that a call begins with; a Break where the arguments do not fit, so that Python raises its
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
