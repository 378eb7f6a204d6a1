"""Symbolic tracing: run a function or module once on proxies, and record its operations."""
from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import math
import sys
import types
from types import FunctionType

from .._src.core.native import Tensor
from .._src.core.pytree import tree_flatten, tree_unflatten
from ..nn import Module, Parameter
from .graph import Graph
from .graph_module import GraphModule
from .node import has_side_effect
from .proxy import ParameterProxy, Proxy, TracerBase

HAS_VARSTUFF = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_wrapped: list = []  # (globals of a module, name) passed to ``wrap``
_active: list = []  # tracers that are running
_orig_module_call, _orig_module_getattr = Module.__call__, Module.__getattr__  # tracers of other libraries call them


def is_fx_tracing() -> bool:
    """Whether a symbolic trace is running."""
    return bool(_active)


is_fx_symbolic_tracing = is_fx_tracing


class ProxyableClassMeta(type):
    """Metaclass of classes whose construction with proxies becomes a node."""

    def __call__(cls, *args, **kwargs):
        found = next((v for v in (*args, *kwargs.values()) if isinstance(v, Proxy)), None)
        if found is not None:
            return found.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class PH:
    """In ``concrete_args``: this one stays an input."""

    def __repr__(self):
        return "PH"


PH = PH()


def wrap(fn_or_name):
    """Makes calls of a function nodes of their own: ``wrap("len")`` or ``@wrap``, at the top level of the module that
    calls it.

    RuntimeError for something that is neither a function nor a name; NotImplementedError within a function.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name, not "
            f"{type(fn_or_name).__name__}")
    frame = sys._getframe(1)
    if callable(fn_or_name):
        name, space = fn_or_name.__name__, getattr(fn_or_name, "__globals__", frame.f_globals)
    else:
        name, space = fn_or_name, frame.f_globals
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped.append((space, name))
    return fn_or_name


def recording(original):
    """``original``, but calls with a proxy become nodes."""
    @functools.wraps(original)
    def run(*args, **kwargs):
        found = first_proxy((args, kwargs))
        if found is None:
            return original(*args, **kwargs)
        return found.tracer.create_proxy("call_function", original, args, kwargs)
    return run


def first_proxy(values):
    return next((v for v in tree_flatten(values)[0] if isinstance(v, Proxy)), None)


class Tracer(TracerBase):
    """Runs a module on proxies: ``Tracer().trace(root)`` is the graph.  Override ``is_leaf_module``, ``call_module``,
    ``create_arg``.

    Modules of ``torch.nn`` are leaves: calls of them stay calls.
    """

    def __init__(self, autowrap_modules=(math,), autowrap_functions=(), param_shapes_constant=False):
        self._autowrap_functions = [v for module in autowrap_modules for k, v in vars(module).items()
                                    if not k.startswith("_") and callable(v)] + list(autowrap_functions)
        self._autowrap_function_ids = set(map(id, self._autowrap_functions))
        self._autowrap_search = list(autowrap_modules)
        self.submodule_paths, self.tensor_attrs = None, {}  # {module: its path}, {tensor: its name}
        self.param_shapes_constant = param_shapes_constant
        self.root_module_name, self.scope, self.module_stack = "", Scope("", None), {}
        self.num_calls: dict = {}

    # --- what subclasses override -------------------------------------------------------------------------------------
    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether calls of a module stay calls, instead of being traced through."""
        return m.__module__.startswith(("rushlight.nn", "torch.nn",
                                        "rushlight.ao.nn", "torch.ao.nn")) and not isinstance(m, containers())

    def path_of_module(self, mod: Module) -> str:
        """The path of a submodule.  NameError if it is not installed in the root."""
        found = (self.submodule_paths or {}).get(mod)
        if found is None:
            found = next((name for name, module in self.root.named_modules() if module is mod), None)
        if found is None:
            raise NameError(
                f"module is not installed as a submodule: {type(mod).__name__}. Assign it to an attribute of the "
                "traced module.")
        return found

    def call_module(self, m: Module, forward, args, kwargs):
        """Trace a call of a submodule: a node for a leaf, else its traced body."""
        path = self.path_of_module(m)
        before, self.scope = self.scope, Scope(path, type(m))
        key = f"{path}@{self.num_calls[path]}" if self.num_calls.get(path) else path
        self.num_calls[path] = self.num_calls.get(path, 0) + 1
        self.module_stack[key] = (path, type(m))
        try:
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)
        finally:
            self.module_stack.pop(key)
            self.scope = before

    def getattr(self, attr: str, attr_val, parameter_proxy_cache: dict):
        """Trace reading an attribute of a module: parameters (and buffers, if requested) become nodes."""
        if isinstance(attr_val, Parameter):
            return self._state(self.root.named_parameters(), attr_val, parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            return self._state(self.root.named_buffers(), attr_val, parameter_proxy_cache)
        return attr_val

    def _state(self, named, value, cache):
        for name, found in named:
            if found is value:
                if name not in cache:
                    factory = (lambda node: ParameterProxy(self, node, name,
                                                           value)) if self.param_shapes_constant else None
                    cache[name] = self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=factory)
                return cache[name]
        return value

    def create_arg(self, a):
        """As the base class; parameters, buffers and submodules become ``get_attr`` nodes, other tensors constants of
        the module."""
        if isinstance(a, Parameter):
            return self._named(a, self.root.named_parameters(), "parameter")
        if isinstance(a, Tensor):
            return self._tensor(a)
        if isinstance(a, Module):
            return self._named(a, self.root.named_modules(), "module")
        if type(a).__module__ != "builtins" and isinstance(type(a), ProxyableClassMeta):
            return self._object(a)
        return super().create_arg(a)

    def _named(self, value, named, what):
        for name, found in named:
            if found is value:
                return self.create_node("get_attr", name, (), {})
        raise NameError(f"{what} is not a member of this module")

    def _tensor(self, a):
        for name, found in self.root.named_buffers():
            if found is a:
                return self.create_node("get_attr", name, (), {})
        name = self.tensor_attrs.get(a)
        if name is None:
            name = next((f"{path}.{k}" if path else k for path, m in self.root.named_modules()
                         for k, v in vars(m).items() if v is a), None)
        if name is None:
            name = self.get_fresh_qualname("_tensor_constant")
            setattr(self.root, name, a)
        self.tensor_attrs[a] = name
        return self.create_node("get_attr", name, (), {})

    def _object(self, a):
        name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
        setattr(self.root, name, a)
        return self.create_node("get_attr", name, (), {})

    def get_fresh_qualname(self, prefix: str) -> str:
        """An attribute name that the root does not have."""
        k = 0
        while hasattr(self.root, f"{prefix}{k}"):
            k += 1
        return f"{prefix}{k}"

    # --- tracing ------------------------------------------------------------------------------------------------------
    def trace(self, root, concrete_args=None) -> Graph:
        """The graph of a module or function; ``concrete_args`` gives values to parameters, which are no inputs then."""
        if isinstance(root, Module):
            self.root = root
            function = type(root).forward
            self.root_module_name = type(root).__name__
        else:
            self.root, function = Module(), root
        self.submodule_paths = {module: name for name, module in self.root.named_modules()}
        self.tensor_attrs = {}
        self.graph = Graph(tracer_cls=type(self))
        called, arguments = self.create_args_for_root(function, isinstance(root, Module), concrete_args or {})
        _active.append(self)
        try:
            with self.patched(function):
                result = called(*arguments)
            self.create_node("output", "output", (self.create_arg(result),), {},
                             type_expr=getattr(function, "__annotations__", {}).get("return"))
        finally:
            _active.pop()
        return self.graph

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        """A function of positional arguments, and what it is called with: the root, if it is a module, and
        placeholders."""
        function = inspect.unwrap(root_fn)
        signature = inspect.signature(function)
        names, arguments, annotations = in_frame_order(signature), [], getattr(function, "__annotations__", {})
        if is_module:
            if not names:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            arguments.append(self.root)
            names = names[1:]
        unknown = set(concrete_args or ()) - set(names)
        if unknown:
            raise RuntimeError(f"concrete_args names {sorted(unknown)}, but the parameters are {names}")
        self.fixed: list = []
        for name in names:
            arguments.append(self._argument(signature.parameters[name], annotations.get(name), concrete_args or {}))
        for proxy, value in self.fixed:
            self.create_proxy("call_function", _assert,
                              (proxy == value,
                               f"{proxy.node.name} has been specialized to have value {value} but got another value"),
                              {}, name="_assert")
        special = any(p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL, p.VAR_KEYWORD)
                      for p in signature.parameters.values())
        return positional(function, len(arguments)) if special else root_fn, arguments

    def _argument(self, parameter, annotation, concrete):
        name = parameter.name
        if name in concrete:
            leaves, spec = tree_flatten(concrete[name])
            made = [self._placeholder(f"{name}_{k}" if len(leaves) > 1 else name, (), annotation) if leaf is PH
                    else leaf for k, leaf in enumerate(leaves)]
            if not any(leaf is PH for leaf in leaves):
                value = concrete[name]
                proxy = self._placeholder(name, (value,) if constant_like(value) else (), annotation)
                if constant_like(value):
                    self.fixed.append((proxy, value))
            return tree_unflatten(made, spec)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            return self._placeholder(("*" if parameter.kind is parameter.VAR_POSITIONAL else "**") + name, (), None)
        default = () if parameter.default is parameter.empty else (parameter.default,)
        return self._placeholder(name, default, annotation)

    def _placeholder(self, name, default, annotation):
        return self.create_proxy("placeholder", name, default, {}, name=name.lstrip("*"),
                                 type_expr=annotation if not isinstance(annotation, str) else None)

    @contextlib.contextmanager
    def patched(self, function):
        """Makes calls of modules, reads of their parameters and calls of wrapped functions come here, for a block."""
        original_call, original_getattr = Module.__call__, Module.__getattr__
        cache: dict = {}
        depth = []

        def call(module, *args, **kwargs):
            if first_proxy((args, kwargs)) is None and not depth:
                return original_call(module, *args, **kwargs)
            return self.call_module(module, lambda *a, **k: original_call(module, *a, **k), args, kwargs)

        def read(module, name):
            return self.getattr(name, original_getattr(module, name), cache)

        with _Patcher() as patcher:
            patcher.patch_method(Module, "__call__", call, deduplicate=False)
            patcher.patch_method(Module, "__getattr__", read, deduplicate=False)
            _patch_wrapped_functions(patcher)
            for space in (getattr(inspect.unwrap(function), "__globals__", {}), *map(vars, self._autowrap_search)):
                _autowrap_check(patcher, space, self._autowrap_function_ids)
            yield


def _patch_wrapped_functions(patcher):
    """Patch functions passed to ``wrap`` to record their calls."""
    for space, name in _wrapped:
        found = space.get(name, getattr(builtins, name, None))
        if found is not None:
            patcher.patch(space, name, recording(found))


def _autowrap_check(patcher, frame_dict, function_ids):
    """Functions of these ids that a namespace names record their calls, unless it has been looked through."""
    if patcher.visit_once(frame_dict):
        for name, value in list(frame_dict.items()):
            if id(value) in function_ids and not name.startswith("_"):
                patcher.patch(frame_dict, name, recording(value))


def in_frame_order(signature) -> list:
    """Parameter names in the order in which a frame holds them: ``*args`` after those that follow it."""
    kinds = {name: p.kind for name, p in signature.parameters.items()}
    return sorted(kinds, key=lambda name: kinds[name] in (inspect.Parameter.VAR_POSITIONAL,
                                                          inspect.Parameter.VAR_KEYWORD))


def positional(function, count: int):
    """The function with all its parameters positional: ``*args`` is then one value, which may be a proxy."""
    code = function.__code__
    plain = code.replace(co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0,
                         co_flags=code.co_flags & ~HAS_VARSTUFF)
    return FunctionType(plain, function.__globals__, function.__name__, None, function.__closure__)


def constant_like(value) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


@functools.cache
def containers():
    """Modules that only hold others: their calls are traced through."""
    from ..nn import Sequential
    return (Sequential,)


@has_side_effect
def _assert(condition, message: str):
    """AssertionError for an argument that the trace was not made for."""
    assert condition, message


class _Patcher:
    """Attributes of classes and items of dicts, replaced for a block; with ``deduplicate`` what has been replaced once
    stays."""

    MISSING = object()

    def __enter__(self):
        self.undo, self.visited = [], set()
        return self

    def patch_method(self, cls, name, new_fn, deduplicate=True):
        """Replaces a method of a class."""
        before = cls.__dict__.get(name, self.MISSING)
        if deduplicate and self.replaced(before, new_fn):
            return
        self.undo.append(lambda: delattr(cls, name) if before is self.MISSING else setattr(cls, name, before))
        setattr(cls, name, new_fn)

    def patch(self, frame_dict, name, new_fn, deduplicate=True):
        """Replaces what a name stands for in a namespace."""
        before = frame_dict.get(name, self.MISSING)
        if deduplicate and self.replaced(before, new_fn):
            return
        self.undo.append(lambda: frame_dict.pop(name) if before is self.MISSING
                         else frame_dict.__setitem__(name, before))
        frame_dict[name] = new_fn

    @staticmethod
    def replaced(before, new_fn) -> bool:
        """Replace a function by ``new_fn``; return True if it was replaced already."""
        new_fn._fx_stands_in = True
        return getattr(before, "_fx_stands_in", False)

    def visit_once(self, thing) -> bool:
        """Return True on the first call for an object."""
        first = id(thing) not in self.visited
        self.visited.add(id(thing))
        return first

    def __exit__(self, *exception):
        for one in reversed(self.undo):
            one()


class Scope:
    """The module that is being traced: its path and class."""

    def __init__(self, module_path, module_type):
        self.module_path, self.module_type = module_path, module_type


def symbolic_trace(root, concrete_args=None) -> GraphModule:
    """A module or function as a GraphModule: one graph of what it does to its inputs.

    ``concrete_args`` fixes parameters by name.  TraceError (a ValueError) where the program decides by a value of its
    inputs.

    >>> import rushlight as torch
    >>> print(torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1).code.strip())
    def forward(self, x):
        relu = torch.relu(x);  x = None
        add = relu + 1;  relu = None
        return add
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "function")
    return GraphModule(tracer.root, graph, name)


__all__ = ["Tracer", "symbolic_trace", "wrap", "PH", "ProxyableClassMeta", "is_fx_tracing"]
