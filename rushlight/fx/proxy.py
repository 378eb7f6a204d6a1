"""Proxies: values that record the operations on them."""
from __future__ import annotations

import dis
import operator
import sys

from .._src.core.native import Op, Tensor
from .._src.core.pytree import tree_map
from . import traceback
from .code import MAGIC, REFLECTABLE, INPLACE
from .graph import Graph
from .node import Node, map_aggregate
from .operator_schemas import check_for_mutable_operation


class TraceError(ValueError):
    """Raised for untraceable code: a branch on an unknown value."""


class TracerBase:
    """Writes nodes for what proxies meet; ``create_arg`` and ``proxy`` are there to be overridden."""

    graph: Graph
    root = None
    param_shapes_constant = False
    proxy_buffer_attributes = False
    trace_asserts = False
    record_stack_traces = False
    check_mutable_operations = False  # whether operators that write into an argument are refused
    module_stack: dict = {}

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None) -> Node:
        """A node in the graph being traced."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if self.module_stack:
            node.meta["nn_module_stack"] = dict(self.module_stack)
        if (notes := traceback.get_current_meta()):
            node.meta["custom"] = notes
        if self.record_stack_traces:
            node.stack_trace = users_line()
        return node

    def proxy(self, node: Node) -> "Proxy":
        """A proxy for a node's value."""
        return Proxy(node, self)

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None) -> "Proxy":
        """A node for an operation on proxies and constants, and the proxy of its result.  RuntimeError for an operator
        that writes, where ``check_mutable_operations`` is set."""
        if kind == "call_function" and self.check_mutable_operations:
            check_for_mutable_operation(target, args, kwargs)
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def create_arg(self, a):
        """An argument as a node holds it: proxies as their nodes, constants as they are.  NotImplementedError for other
        objects."""
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, (tuple, list, dict, slice)):
            return self._container(a)
        if isinstance(a, range):
            return range(*(self.create_arg(v) for v in (a.start, a.stop, a.step)))
        return self._constant(a)

    def _container(self, a):
        if isinstance(a, dict):
            if any(isinstance(k, Proxy) for k in a):
                raise RuntimeError("Keys for dictionaries used as an argument cannot contain a Node.")
            return {k: self.create_arg(v) for k, v in a.items()}
        if isinstance(a, slice):
            return slice(*(self.create_arg(v) for v in (a.start, a.stop, a.step)))
        items = [self.create_arg(v) for v in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items) if isinstance(a, tuple) else items

    def _constant(self, a):
        from .._src.core.convert import layout, memory_format
        from .._src.core.devices import device
        from .._src.core.dtypes import dtype
        if a is None or a is Ellipsis or isinstance(a, (bool, int, float, complex, str, bytes, dtype, device, layout,
                                                        memory_format, Tensor, Node, type, Op)) or callable(a):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: "Proxy") -> bool:
        """Called where a program decides by a proxy."""
        raise TraceError(
            "symbolically traced variables cannot be used as inputs to control flow. What was seen: a decision on the "
            "value of "
            f"'{obj.node.name}'. Use torch.where, pass the number in concrete_args, or make the module a leaf.")

    def iter(self, obj: "Proxy"):
        """Called where a program iterates over a proxy; unpacking into a fixed number of names works."""
        count = unpacked_count(sys._getframe(2))
        if count is not None:
            return iter([obj[k] for k in range(count)])
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. "
            f"What was seen: iteration over '{obj.node.name}', whose length is not known.")

    def keys(self, obj: "Proxy"):
        """Called for ``**proxy``."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Writes at the end of a graph that exists."""

    def __init__(self, graph: Graph):
        self.graph = graph


def users_line() -> str:
    """The innermost line outside this package."""
    from traceback import extract_stack, format_list, walk_stack
    here = __name__.split(".")[0]
    for frame, line in walk_stack(None):
        if frame.f_globals.get("__name__", "").split(".")[0] != here:
            return "".join(format_list([extract_stack(frame, 1)[0]]))
    return ""


def unpacked_count(frame):
    """How many names a frame is about to unpack a value into, or None if it does something else."""
    for one in dis.get_instructions(frame.f_code):
        if one.offset == frame.f_lasti:
            return one.argval if one.opname == "UNPACK_SEQUENCE" else None
    return None


class Proxy:
    """A value that is not known yet: operators, functions and methods applied to it become nodes of the tracer's
    graph."""

    def __init__(self, node: Node, tracer: TracerBase | None = None):
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self):
        return f"Proxy({self.node.name})"

    def __getattr__(self, name):
        if name in ("tracer", "node") or name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Attribute(self, name)

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self):
        return self.tracer.iter(self)

    def __bool__(self):
        return self.tracer.to_bool(self)

    def __index__(self):
        return self.tracer.to_bool(self)

    def __int__(self):
        raise TraceError(
            f"int() of '{self.node.name}', whose value is not known while tracing. Keep it a tensor or a size.")

    def __float__(self):
        raise TraceError(f"float() of '{self.node.name}', whose value is not known while tracing. Keep it a tensor.")

    def __len__(self):
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope")

    def __contains__(self, item):
        return self.tracer.create_proxy("call_function", operator.contains, (self, item), {})

    def keys(self):
        return self.tracer.keys(self)

    def __getitem__(self, index):
        return self.tracer.create_proxy("call_function", operator.getitem, (self, index), {})

    def __setitem__(self, index, value):
        self.tracer.create_proxy("call_function", operator.setitem, (self, index, value), {})

    def __round__(self, digits=None):
        return self.tracer.create_proxy("call_function", round, (self,) if digits is None else (self, digits), {})

    def __abs__(self):
        return self.tracer.create_proxy("call_function", abs, (self,), {})

    def __deepcopy__(self, memo):
        return self.tracer.create_proxy("call_method", "clone", (self,), {})

    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(cls, orig_method, types, args=(), kwargs=None):
        tracer = tracer_of((args, kwargs or {}))
        name = getattr(orig_method, "name", None) or getattr(orig_method, "__name__", None)
        if isinstance(orig_method, Op):
            from .._src.compat.homes import public_path
            if (public_path(orig_method) or "torch.Tensor.").startswith("torch.Tensor."):
                return tracer.create_proxy("call_method", name, args, kwargs or {})
        elif getattr(Tensor, name or "", None) is orig_method:
            return tracer.create_proxy("call_method", name, args, kwargs or {})
        return tracer.create_proxy("call_function", orig_method, args, kwargs or {},
                                   name=name and name.rpartition(".")[2])


def tracer_of(values) -> TracerBase:
    """The one tracer that the proxies among these values belong to.  ValueError if there are several."""
    found: dict = {}

    def note(value):
        if isinstance(value, Proxy):
            found[id(value.tracer)] = value.tracer
        return value

    tree_map(lambda v: map_aggregate(v, note), values)
    if len(found) != 1:
        raise ValueError(f"a call mixes proxies of {len(found)} tracers: trace one program at a time")
    return next(iter(found.values()))


class Attribute(Proxy):
    """``proxy.name``: a method call once it is called, a node of its own where it is read."""

    def __init__(self, root: Proxy, attr: str):
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self.made = None

    @property
    def node(self):
        if self.made is None:
            self.made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self.made

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)

    def __getattr__(self, name):
        if name in ("made", "root", "attr", "tracer") or name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Attribute(self, name)


class ParameterProxy(Proxy):
    """A proxy for a parameter, whose shape and size are known."""

    def __init__(self, tracer, node, name, param):
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self):
        return f"ParameterProxy({self.name})"

    shape = property(lambda self: self.param.shape)
    ndim = property(lambda self: self.param.ndim)

    def size(self, *args):
        return self.param.size(*args)

    def dim(self):
        return self.param.dim()

    def numel(self):
        return self.param.numel()

    def nelement(self):
        return self.param.nelement()


def recorded(function, swapped=False):
    """A special method of Proxy that records an operator."""
    if swapped:
        def method(self, other):
            return self.tracer.create_proxy("call_function", function, (other, self), {})
    else:
        def method(self, *others):
            return self.tracer.create_proxy("call_function", function, (self, *others), {})
    return method


for _name in (*MAGIC, *INPLACE):
    if _name not in INPLACE or _name == "imatmul":
        setattr(Proxy, f"__{_name.strip('_')}__", recorded(getattr(operator, _name)))
for _name in REFLECTABLE:
    setattr(Proxy, f"__r{_name.strip('_')}__", recorded(getattr(operator, _name), swapped=True))
