"""Trace: runs a body on fake tensors and records the operators that it calls."""
from __future__ import annotations

import contextlib

import numpy as np

from ..core.devices import on
from ..core.dtypes import type_name
from ..core.expr import Expr, computed
from ..core.interpret import Interpreter, Suspended, is_recording, top
from ..core.kinds import P
from ..core.meta import Meta, dense_strides
from ..core.native import Op, mine
from ..core.op import OPS, bind, body_of
from ..core.quantized import PerTensor
from ..core.tensor import Tensor, blank
from ..graph.graph import Graph, Node, map_nodes, nodes_in
from ..graph.views import view_of_input
from ..core.runtime import Known, RunTime


NUMBERS = (bool, int, float, complex)
MOST_NUMBERS = 64  # of a constant in a program


class ValueNeeded(TypeError):
    """A body reads an element of a tensor that has only metadata."""


@contextlib.contextmanager
def without_values(refused: str, kind=RuntimeError):
    """Trace a program in the block that must not depend on tensor elements.  If it reads one, raise an error of this
    ``kind``; its message says what the program is ``refused``, such as "cannot be packaged"."""
    try:
        yield
    except ValueNeeded:
        raise kind(f"a program that checks or reads elements {refused}") from None


class Traced(Tensor):
    """A fake tensor: a node of the program being recorded.

    A Traced that a Recording knows as a view of another has ``refresh``, which brings it up to date after writes.
    """

    value: Node
    refresh = None

    @property
    def node(self) -> Node:
        if self.refresh is not None:
            self.refresh(self)
        return self.value

    @property
    def weak(self):
        """True if this represents a Python scalar that is known at run time."""
        return self.node.weak

    @property
    def _rush_turned(self) -> int:
        found = view_of_input(self.node)
        return found[1].turned if found else 0

    def __bool__(self):
        raise ValueNeeded("the value of a traced tensor is not known while its program is recorded")

    concrete = __bool__

    def __iter__(self):
        if not self.dim():  # a scalar where a tuple is also accepted, such as dimensions
            raise ValueNeeded("iteration over a 0-d tensor")
        return super().__iter__()

    def _rush_become(self, view: "Traced"):
        """Become ``view``, a view of this tensor."""
        if view is not self:
            top().turn(self, view)

    def told(self, number: Known) -> "Number":
        """Return this tensor as a run-time scalar."""
        self.node.number = number
        return traced(self.node)

    def __repr__(self):
        return f"Traced({self.node.name}: {self._rush_meta})"


class Number(RunTime, Traced):
    """A run-time scalar: Python arithmetic on it becomes part of the program, and decisions by it become guards."""

    concrete = RunTime.__float__


def traced(node: Node) -> Traced:
    value = blank(Traced if node.number is None else Number)
    value._rush_meta, value.value = node.meta, node
    return value


def zeros_laid(meta: Meta):
    """Zeros with the strides of a Meta, as operators of the traced program: the value of uninitialized tensors."""
    value, order = False if meta.dtype.name == "bool" else 0, None if meta.contiguous else dense_strides(
        meta.shape, meta.strides)
    if order is None:
        return OPS["_filled"](value, tuple(meta.shape), meta.dtype, *on(meta.device))
    dims = [*(d for d in range(meta.ndim) if d not in order), *reversed(order)]  # outermost first
    return OPS["permute"](OPS["_filled"](value, tuple(meta.shape[d] for d in dims), meta.dtype, *on(meta.device)),
                          [dims.index(d) for d in range(meta.ndim)])


class Trace(Interpreter):
    """Record a program.  Primitives become nodes; an operator with a gradient rule becomes a node that carries its
    traced body; every other operator is replaced by its body."""

    traces = dispatches = True

    def __init__(self, outer: "Trace | None" = None):
        self.nodes, self.inputs, self.simple = [], [], False  # simple: no rule applies to the nodes
        self.names = outer.names if outer else {}

    def fresh(self, stem: str) -> str:
        count = self.names[stem] = self.names.get(stem, -1) + 1
        return f"{stem}{count}"

    def input(self, meta: Meta, stem="x", weak=False, number=None) -> Traced:
        node = Node(self.fresh(stem), None, meta=meta.plain, weak=weak)
        node.number, node.turned = number, meta.turned
        self.inputs.append(node)
        return traced(node)

    def call(self, op: Op, args, kwargs):
        if op.kind is not None:
            bound = bind(op, args, kwargs)
            names, count = list(bound), op.traits["arity"]
            if op.kind.name == "elementwise" and all(isinstance(bound[k], (*NUMBERS, Expr)) for k in names[:count]):
                if any(isinstance(bound[k], Expr) for k in names[:count]):
                    return computed(op.name.rpartition(".")[2], [bound[k] for k in names[:count]])
                with np.errstate(all="ignore"):
                    return op.kind.numpy(*(np.asarray(bound[k]) for k in names[:count]),
                                         **{k: bound[k] for k in names[count:]}).item()
            if op is P.full and isinstance(bound["value"], Number):
                return P.copy(P.expand(P.convert(bound["value"], dtype=bound["dtype"]), shape=bound["shape"]))
            given = tuple(bound[k] for k in names[:count])
            if op.kind.name == "elementwise" and count > 1:
                given = fitted(given)
            return self.emit(op, given, {k: freeze(bound[k]) for k in names[count:]})
        if op.traits.get("detaches"):
            lower_values(args, self)  # update views now: their recomputation is not part of the operator
        before = len(self.nodes)
        body = body_of(op, args)
        results = self.closed(op, args, kwargs) if "vjp" in op.rules and body is op.body else body(*args, **kwargs)
        if op.traits.get("detaches"):
            for node in self.nodes[before:]:
                node.constant = True
        return results

    def turn(self, value: Traced, view: Traced):
        """Make a value become a view of it."""
        value.value, value._rush_meta = view.value, view._rush_meta

    def empty(self, meta):
        return traced(zeros_laid(meta).node) if meta.device.provider.has_data else None  # a view of nothing

    def constant(self, make):
        """Return known elements as part of the program, if they are few; larger constants cannot be captured."""
        with Suspended(mine.stack[0]):
            made = make()
            numbers = made.reshape(-1).tolist() if made.numel() <= MOST_NUMBERS else None
        if not numbers:
            return made
        filled = [OPS["_filled"](v, (), made.dtype) for v in numbers]
        return OPS["reshape"](OPS["stack"](filled) if len(filled) > 1 else filled[0], tuple(made.shape))

    def reserve(self, blocks: int):
        raise NotImplementedError("random numbers cannot be drawn while a single operator is planned")

    def emit(self, op: Op, args, params, inside=None, meta=None):
        nodes = lower_values(args, self)
        if meta is None:
            meta = op.kind.meta(op, *metas_of(nodes), **params)
            check_quantized(op, nodes, meta)
            check_one_dtype(op, nodes)
            if op.kind.computes and meta.dtype.is_byte:
                raise NotImplementedError(
                    f"{op.name.rpartition('.')[2]} is not implemented for {meta.dtype}, a storage-only dtype: convert "
                    "to float32 to compute, and back")
        node = Node(self.fresh("t"), op, nodes, params, meta, inside, constant=not is_recording())
        self.nodes.append(node)
        if isinstance(meta, tuple):
            return tuple(self.emit(P.item, (Several(node),), {"index": k}, meta=m) for k, m in enumerate(meta))
        return traced(node)

    def adopted(self, graph, values):
        """Results of a program of primitives for these arguments, whose nodes are reused unchanged; None if the
        arguments are not those that it was traced for, or if operators carry their bodies."""
        graph = getattr(graph, "graph", graph)
        known = all(isinstance(v, Traced) and v._rush_meta is n.meta for v, n in zip(values, graph.inputs))
        if not known or any(n.op.kind is None or n.inside is not None for n in graph.nodes):
            return None
        self.simple = not self.nodes
        constant, env = not is_recording(), {n: v.node for n, v in zip(graph.inputs, values)}
        for node in graph.nodes:
            env[node] = Node(self.fresh("t"), node.op, map_nodes(node.args, env.__getitem__), node.params, node.meta,
                             None, node.where, constant=constant)
            self.nodes.append(env[node])
        return tuple(traced(env[n]) for n in graph.result_nodes())

    def inner(self) -> "Trace":
        """Trace for the body of an operator that carries it."""
        return Trace(self)

    def closed(self, op: Op, args, kwargs):
        """Return a node that carries the graph of its own body."""
        bound = bind(op, args, kwargs)
        inner = self.inner()
        outer_nodes = []

        def enter(value):
            if isinstance(value, Tensor):
                outer_nodes.append(value)
                weak = getattr(value, "weak", False)
                return inner.input(value._rush_meta, weak=weak, number=value.node.number if weak else None)
            if isinstance(value, (list, tuple)):
                return type(value)(map(enter, value)) if type(value) in (list, tuple) else value
            return value

        arguments = {k: enter(v) for k, v in bound.items()}
        with Suspended(self), inner:
            results = op.body(**arguments)
        several = isinstance(results, (tuple, list))
        outputs = [r.node for r in (results if several else [results])]
        graph = Graph(inner.inputs, inner.nodes, outputs)
        meta = tuple(n.meta for n in outputs) if several else outputs[0].meta
        nodes = lower_values(tuple(bound.values()), self)
        node = Node(self.fresh("t"), op, nodes, {}, meta, graph, constant=not is_recording())
        self.nodes.append(node)
        if several:
            return tuple(self.emit(P.item, (Several(node),), {"index": k}, meta=m) for k, m in enumerate(meta))
        return traced(node)


def check_quantized(op: Op, nodes, meta):
    """Raise NotImplementedError for a primitive that would compute with, or fill in, the integers of quantized tensors
    regardless of their scheme."""
    found = [n.dtype for n in nodes_in(nodes) if type(n.meta) is Meta and n.dtype.scheme is not None]
    if not found and (type(meta) is not Meta or meta.dtype.scheme is None):
        return
    moved = op.kind.name in ("view", "join", "gather") and op is not P.pad and all(type(one.scheme) is PerTensor
                                                                                   for one in found)
    same = op is P.convert and bool(found) and meta.dtype is found[0]
    if op not in (P.copy, P.meaning) and not moved and not same:
        raise NotImplementedError(
            f"Could not run '{op.name.rpartition('.')[2]}' with quantized tensors: it is not implemented for them. "
            "Compute with dequantize(), or "
            "with the integers, int_repr()")


def check_one_dtype(op: Op, nodes):
    """RuntimeError for operands of an elementwise primitive of several dtypes: bodies must promote or convert them.
    Run-time scalars take the dtype of the other operand, and NumPy computes dtypes without kernels."""
    if op.kind.name != "elementwise":
        return
    found = [n.dtype for n in op.kind.alike(nodes)
             if isinstance(n, Node) and not n.weak and n.dtype.computed.has_kernels]
    for other in found[1:]:
        if other.computed is not found[0].computed:
            raise RuntimeError(f"expected scalar type {type_name(found[0])} but found {type_name(other)}")


def fitted(values):
    """Return the operands of an elementwise primitive, with run-time scalars in the dtype of the other operand, like
    constants."""
    weak = [isinstance(v, Traced) and v.weak for v in values]
    if not any(weak):
        return values
    met = [v.dtype for v, number in zip(values, weak) if isinstance(v, Tensor) and not number and v.dtype.category]
    if not met:
        return values
    if any(number and v.dtype.category > met[-1].category for v, number in zip(values, weak)):
        raise ValueNeeded(f"a number of {met[-1].name} is wanted, not of another kind")
    return tuple(P.convert(v, dtype=met[-1]) if number and v.dtype is not met[-1] else v
                 for v, number in zip(values, weak))


class Several:
    """A reference to a node with several results."""

    def __init__(self, node):
        self.node = node


def freeze(value):
    """Return a parameter of a primitive as part of the program."""
    if isinstance(value, Number):
        return value.item()
    return tuple(map(freeze, value)) if isinstance(value, (list, tuple)) else value


def lower_values(value, trace):
    """Return Traced values as their nodes, within tuples."""
    if isinstance(value, (Traced, Several)):
        return value.node
    if isinstance(value, (tuple, list)):
        return tuple(lower_values(v, trace) for v in value)
    if isinstance(value, Tensor):
        raise TypeError("an operator's body may not capture tensors from outside")
    return value


def metas_of(value):
    """Return nodes as their Metas, within tuples."""
    if isinstance(value, Node):
        return value.meta
    if isinstance(value, tuple):
        return tuple(map(metas_of, value))
    return value
