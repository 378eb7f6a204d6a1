"""make_fx: trace a function of tensors to a graph of the operators that it calls, through any Python code."""
from __future__ import annotations

import contextlib
import inspect
import operator

from ..._src.autograd.mode import set_recording
from ..._src.core.interpret import is_recording
from ..._src.core.native import Tensor
from ..._src.core.options import accept_only
from ..._src.core.pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from ..._src.core.random import default_generator
from ...utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from .._symbolic_trace import is_fx_tracing  # noqa: F401
from ..convert import draw, recorded_module
from ..graph import Graph
from ..graph_module import GraphModule
from ..recording import record

MODES = ("real", "fake", "symbolic")


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

    ``table`` maps overloads to functions that are run in their stead; one that returns NotImplemented leaves the call
    as it is.  With ``switches`` the graph says where gradients are recorded and where not.
    """

    _derives = True

    def __init__(self, graph: Graph, table=None, switches=False):
        super().__init__()
        self.graph, self.table, self.constants = graph, table or {}, {}
        self.recorded = is_recording() if switches else None  # the mode in which the graph's last node runs
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
        if id(value) not in self.known:
            self.meet(value)
        return self.known[id(value)][1]

    def knows(self, value) -> bool:
        """Whether a tensor is the result of a node, or an input."""
        return id(value) in self.known

    def meet(self, value):
        """Notes a tensor that no node made: an attribute of the module."""
        self.enter(value, self.graph.get_attr(self.attribute("_tensor_constant", value)))

    def attribute(self, stem, value) -> str:
        """The name of a new attribute of the module."""
        name = f"{stem}{sum(known.startswith(stem) for known in self.constants)}"
        self.constants[name] = value
        return name

    def choose(self, pred, branches, operands):
        """Trace both functions of a ``cond`` as submodules, with the call that chooses between them, and return the
        results of the one that ``pred`` chooses now."""
        parts, found, outside = self.written(branches, operands)
        alike("cond: Expected true_fn and false_fn to give tensors alike", *found)
        graphs = self.submodules(("true_graph_", "false_graph_"), parts)
        given = tuple(map(self.node_of, (*tree_leaves(operands), *outside)))
        with _disable_current_modes():
            leaves, spec = found[0 if bool(pred) else 1]
        return self.results("cond", (self.node_of(pred), *graphs, given), leaves, spec)

    def repeat(self, loop, functions, carried, additional):
        """Trace both functions of a ``while_loop`` as submodules, running each once, with the call that repeats them,
        and return the result of ``loop()`` now.  RuntimeError if a carried value is not a tensor."""
        leaves, spec = tree_flatten(tuple(carried))
        if not all(isinstance(leaf, Tensor) for leaf in leaves):
            raise RuntimeError(
                f"make_fx: while_loop needs tensors in carried_inputs to trace it, but got {carried}")
        parts, found, outside = self.written(functions, (*carried, *additional))
        alike("while_loop: Expected body_fn to give tensors alike to carried_inputs", found[1], (leaves, spec))
        graphs = self.submodules(("while_loop_cond_graph_", "while_loop_body_graph_"), parts)
        with _disable_current_modes():
            results = tree_leaves(loop())
        given = [tuple(map(self.node_of, values)) for values in (leaves, (*tree_leaves(tuple(additional)), *outside))]
        return self.results("while_loop", (*graphs, *given), results, spec)

    def written(self, functions, operands):
        """Each function as a Branch, what it gave, and the tensors that they read besides their operands."""
        outside: list = []
        with _disable_current_modes():
            parts = [Branch(self, outside) for _ in functions]
            found = [part.run(function, operands) for part, function in zip(parts, functions)]
        for part in parts:
            part.finish()
        return parts, found, outside

    def submodules(self, stems, parts):
        return [self.graph.get_attr(self.attribute(stem, GraphModule(part.constants, part.graph)))
                for stem, part in zip(stems, parts)]

    def results(self, name, args, leaves, spec):
        """The tree of tensors that a call of a higher-order operator gives, each one known."""
        from ..._ops import ops
        node = self.graph.call_function(getattr(ops.higher_order, name), args)
        for k, leaf in enumerate(leaves):
            self.enter(leaf, self.graph.call_function(operator.getitem, (node, k)))
            if leaf.requires_grad:
                leaf.register_hook(refuse_gradient)
        return tree_unflatten(leaves, spec)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        instead = self.table.get(func) or self.table.get(users_overload(func))
        if instead is not None:
            with self:
                result = instead(*args, **kwargs)
            if result is not NotImplemented:
                return result
        self.switch()
        node = self.graph.call_function(func, *self.lowered(args, kwargs))
        result = func(*(int(a) if isinstance(a, StreamPosition) else a for a in args), **kwargs)
        if isinstance(result, Tensor):
            self.enter(result, node)
        elif isinstance(result, (tuple, list)):
            for k, part in enumerate(result):
                if isinstance(part, Tensor):
                    self.enter(part, self.graph.call_function(operator.getitem, (node, k)))
        return result

    def switch(self):
        """Has the graph record gradients, or not, as the program does now."""
        if self.recorded not in (None, is_recording()):
            self.recorded = is_recording()
            self.graph.call_function(set_recording, (self.recorded,))

    def lowered(self, args, kwargs):
        def lower(value):
            if type(value) in (tuple, list):
                return type(value)(map(lower, value))
            return self.node_of(value)

        return tuple(map(lower, args)), {k: lower(v) for k, v in kwargs.items()}


class Branch(ProxyTorchDispatchMode):
    """Trace one function of a ``cond`` or ``while_loop``.  Tensors of the enclosing program become inputs, the same
    ones for both functions: ``outside``."""

    def __init__(self, around: ProxyTorchDispatchMode, outside: list):
        super().__init__(Graph(), around.table)
        self.around, self.outside, self.inputs = around, outside, 0

    def input(self, tensor=None):
        """A further input."""
        first = next((n for n in self.graph.nodes if n.op != "placeholder"), None)
        with self.graph.inserting_before(first) if first is not None else contextlib.nullcontext():
            node = self.graph.placeholder(f"arg{self.inputs}_1")
        self.inputs += 1
        if tensor is not None:
            self.enter(tensor, node)

    def knows(self, value) -> bool:
        return super().knows(value) or self.around.knows(value)

    def meet(self, value):
        if not self.around.knows(value):
            return super().meet(value)
        self.outside.append(value)
        self.take_outside()

    def take_outside(self):
        """Has an input for each tensor from outside."""
        for tensor in self.outside[self.inputs - self.own:]:
            self.input(tensor)

    def run(self, function, operands):
        """Return the leaves and the tree spec of the function's results for copies of its operands.  RuntimeError if
        it mutates them, or returns a non-tensor."""
        leaves, spec = tree_flatten(operands)
        copies = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self.own = len(leaves)
        for leaf in copies:
            self.input(leaf if isinstance(leaf, Tensor) else None)
        self.take_outside()
        before = [leaf._version for leaf in copies if isinstance(leaf, Tensor)]
        with self:
            results, nested = tree_flatten(function(*tree_unflatten(copies, spec)))
        if before != [leaf._version for leaf in copies if isinstance(leaf, Tensor)]:
            raise RuntimeError("a function of cond or while_loop writes into its operands. Let it give new tensors")
        if not all(isinstance(leaf, Tensor) for leaf in results):
            raise RuntimeError("make_fx: functions of cond and while_loop must return only tensors")
        self.found = results
        return [leaf.clone() if any(leaf._rush_storage is given._rush_storage for given in (*copies, *self.outside)
                                    if isinstance(given, Tensor)) else leaf for leaf in results], nested

    def finish(self):
        """Ends the graph, with an input for all that is read from outside."""
        self.graph.output(tuple(map(self.node_of, self.found)))
        self.take_outside()
        self.graph.eliminate_dead_code()


def alike(wanted, first, second):
    """RuntimeError where two lists of tensors are nested otherwise, or have other shapes or dtypes."""
    kinds = [[(tuple(leaf.shape), leaf.dtype) for leaf in leaves] for leaves, _ in (first, second)]
    if first[1] != second[1] or kinds[0] != kinds[1]:
        raise RuntimeError(f"{wanted}, but got {kinds[0]} nested as {first[1]} and {kinds[1]} nested as {second[1]}")


def refuse_gradient(gradient):
    """Refuse the gradient of a traced ``cond`` or ``while_loop``: a hook on its results."""
    raise NotImplementedError(
        "make_fx does not trace gradients of cond and while_loop: differentiate the graph that it returns")


def users_overload(func):
    """Return the public overload of an inner operator: ``silu.default`` for ``_silu.default``."""
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
    ``decomposition_table`` maps operators (``torch.ops.aten.silu.default``) to functions of simpler ones; with it, and
    with ``pre_dispatch``, which keeps ``no_grad`` blocks, operators are run.  AssertionError for an unknown mode.

    >>> import rushlight as torch
    >>> from rushlight.fx.experimental.proxy_tensor import make_fx
    >>> print(make_fx(lambda x: torch.sin(x) * 2)(torch.ones(3)).code.strip())
    def forward(self, x_1):
        sin = torch.ops.aten.sin.default(x_1);  x_1 = None
        mul = torch.ops.aten.mul.Tensor(sin, 2);  sin = None
        return mul
    """
    accept_only("make_fx", "torch.export.export notes modules", record_module_stack=(record_module_stack, False))
    if tracing_mode not in MODES:
        raise AssertionError(f"tracing_mode should be one of {', '.join(MODES)}, not {tracing_mode!r}")
    table = decomposition_table or {}

    def traced(*args) -> GraphModule:
        names = names_of(f, args)
        if tracing_mode == "real" or table or pre_dispatch:
            return run_real(f, args, names, table, pre_dispatch)
        found = record(f, args, symbolic=tracing_mode == "symbolic")
        leaves = tree_flatten(args)[0]
        return recorded_module(found, [n for n, leaf in zip(names, leaves) if isinstance(leaf, Tensor)],
                               getattr(f, "__name__", "GraphModule"))

    return traced


def names_of(f, args) -> list:
    """Names of the inputs of a graph: those of the function's parameters, each with a number for what is nested."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = len(parameters) >= len(args) and hasattr(inspect.unwrap(f), "__code__") and not any(
        p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    stems = [parameters[k].name if named else f"arg{k}" for k in range(len(args))]
    return [f"{stem}_{n + 1}" for stem, arg in zip(stems, args) for n in range(len(tree_flatten(arg)[0]))]


def get_isolated_graphmodule(func, args, kwargs, tracing_mode: str = "real", decomposition_table=None) -> GraphModule:
    """Trace a call, isolated from enclosing traces: return a GraphModule that takes the flattened arguments.

    >>> import rushlight as torch
    >>> module = get_isolated_graphmodule(torch.add, (torch.ones(2), torch.ones(2)), {"alpha": 3})
    >>> module(torch.ones(2), torch.ones(2), 3)
    tensor([4., 4.])
    """
    with _disable_current_modes():
        return make_fx(lambda args, kwargs: func(*args, **kwargs), decomposition_table, tracing_mode)(
            tuple(args), dict(kwargs))


def run_real(f, args, names, table, switches=False) -> GraphModule:
    """Run ``f`` on copies of its arguments and trace the operators that run."""
    graph = Graph()
    mode = ProxyTorchDispatchMode(graph, table, switches)
    leaves, spec = tree_flatten(args)
    inputs = [leaf.detach().clone().requires_grad_(leaf.requires_grad) if isinstance(leaf, Tensor) else leaf
              for leaf in leaves]
    for name, value in zip(names, inputs):
        node = graph.placeholder(name)
        if isinstance(value, Tensor):
            mode.enter(value, node)
    with mode:
        result = f(*tree_unflatten(inputs, spec))
    mode.switch()
    graph.output(tree_map(mode.node_of, result))
    graph.eliminate_dead_code()
    return GraphModule(mode.constants, graph, getattr(f, "__name__", "GraphModule"))
