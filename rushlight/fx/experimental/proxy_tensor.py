"""make_fx: a function of tensors as a graph of the operators that it calls, whatever Python stands between."""
from __future__ import annotations

import operator

from ..._src.core.native import Tensor
from ..._src.core.pytree import tree_flatten, tree_map, tree_unflatten
from ..._src.core.random import default_generator
from ...utils._python_dispatch import TorchDispatchMode
from .._symbolic_trace import is_fx_tracing
from ..convert import draw, recorded_module
from ..graph import Graph
from ..graph_module import GraphModule
from ..recording import record

MODES = ("real", "fake", "symbolic")
__all__ = ["make_fx", "ProxyTorchDispatchMode", "is_fx_tracing", "get_proxy_mode"]


class StreamPosition(int):
    """A position in the random stream that the traced function draws from, and the node that finds it when the graph
    runs."""

    def at(self, node):
        self.node = node
        return self

    def __add__(self, blocks):
        return StreamPosition(int(self) + blocks).at(self.node.graph.call_function(operator.add, (self.node, blocks)))


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Runs operators and writes them into a graph: tensors that it has not seen become attributes.

    ``table`` maps overloads to functions that are run in their stead.
    """

    def __init__(self, graph: Graph, table=None):
        super().__init__()
        self.graph, self.table, self.constants = graph, table or {}, {}
        self.known: dict = {}  # id of a tensor -> (the tensor, its node)

    def __enter__(self):
        super().__enter__()
        self._place().reserve = self.reserve
        return self

    def reserve(self, blocks):
        """Draws now, and whenever the graph runs."""
        return tuple(StreamPosition(found).at(node)
                     for found, node in zip(default_generator.reserve(blocks), draw(self.graph, blocks)))

    def enter(self, tensor, node):
        """Notes which node a tensor is."""
        self.known[id(tensor)] = tensor, node
        node.meta["val"] = tensor.detach() if tensor.requires_grad else tensor

    def node_of(self, value):
        """An argument as a node's argument."""
        if isinstance(value, StreamPosition):
            return value.node
        if not isinstance(value, Tensor):
            return value
        found = self.known.get(id(value))
        if found is None:
            name = f"_tensor_constant{len(self.constants)}"
            self.constants[name] = value
            self.enter(value, self.graph.get_attr(name))
            found = self.known[id(value)]
        return found[1]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        instead = self.table.get(func) or self.table.get(users_overload(func))
        if instead is not None:
            with self:
                return instead(*args, **kwargs)
        node = self.graph.call_function(func, *self.lowered(args, kwargs))
        result = func(*(int(a) if isinstance(a, StreamPosition) else a for a in args), **kwargs)
        if isinstance(result, Tensor):
            self.enter(result, node)
        elif isinstance(result, (tuple, list)):
            for k, part in enumerate(result):
                if isinstance(part, Tensor):
                    self.enter(part, self.graph.call_function(operator.getitem, (node, k)))
        return result

    def lowered(self, args, kwargs):
        def lower(value):
            if type(value) in (tuple, list):
                return type(value)(map(lower, value))
            return self.node_of(value)

        return tuple(map(lower, args)), {k: lower(v) for k, v in kwargs.items()}


def users_overload(func):
    """The overload that users know for one whose operator is the inner part of theirs: ``silu.default`` for
    ``_silu.default``."""
    from ..._ops import operator_named, ops
    name = func._opname.lstrip("_")
    return getattr(getattr(ops.aten, name),
                   func._overloadname) if name != func._opname and operator_named(name) is not None else None


def get_proxy_mode():
    """The mode that is tracing now, or None."""
    from ...utils._python_dispatch import _get_current_dispatch_mode_stack
    return next((m for m in reversed(_get_current_dispatch_mode_stack()) if isinstance(m, ProxyTorchDispatchMode)),
                None)


def make_fx(f, decomposition_table=None, tracing_mode: str = "real", _allow_non_fake_inputs=False, *,
            pre_dispatch=False, record_module_stack=False,
            _allow_fake_constant=False, _error_on_data_dependent_ops=True):
    """``make_fx(f)(*args)``: the GraphModule of the operators that ``f`` runs for these arguments, gradients that it
    takes included.

    ``tracing_mode``: "real" runs them, "fake" looks at shapes and dtypes only, "symbolic" takes sizes as symbols.
      ``decomposition_table`` maps
    operators (``torch.ops.aten.silu.default``) to functions of simpler ones.  AssertionError for an unknown mode.

    >>> import rushlight as torch
    >>> from rushlight.fx.experimental.proxy_tensor import make_fx
    >>> print(make_fx(lambda x: torch.sin(x) * 2)(torch.ones(3)).code.strip())
    def forward(self, arg0_1):
        sin = torch.ops.aten.sin.default(arg0_1);  arg0_1 = None
        mul = torch.ops.aten.mul.Tensor(sin, 2);  sin = None
        return mul
    """
    if tracing_mode not in MODES:
        raise AssertionError(f"tracing_mode should be one of {', '.join(MODES)}, not {tracing_mode!r}")
    table = decomposition_table or {}

    def traced(*args) -> GraphModule:
        names = [f"arg{k}_1" for k in range(len(tree_flatten(args)[0]))]
        if tracing_mode == "real" or table:
            return run_real(f, args, names, table)
        found = record(f, args, symbolic=tracing_mode == "symbolic")
        leaves = tree_flatten(args)[0]
        return recorded_module(found, [n for n, leaf in zip(names, leaves) if isinstance(leaf, Tensor)],
                               getattr(f, "__name__", "GraphModule"))

    return traced


def run_real(f, args, names, table) -> GraphModule:
    """Runs ``f`` on copies of its arguments and writes down what runs."""
    graph = Graph()
    mode = ProxyTorchDispatchMode(graph, table)
    leaves, spec = tree_flatten(args)
    inputs = [leaf.detach().clone().requires_grad_(leaf.requires_grad) if isinstance(leaf, Tensor) else leaf
              for leaf in leaves]
    for name, value in zip(names, inputs):
        node = graph.placeholder(name)
        if isinstance(value, Tensor):
            mode.enter(value, node)
    with mode:
        result = f(*tree_unflatten(inputs, spec))
    graph.output(tree_map(mode.node_of, result))
    graph.eliminate_dead_code()
    return GraphModule(mode.constants, graph, getattr(f, "__name__", "GraphModule"))
