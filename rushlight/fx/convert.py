"""Between captured programs (``graph.Graph``) and the graphs that users see (``fx.Graph``)."""
from __future__ import annotations

import operator

from .._src.capture.control import Flow
from .._src.capture.unbacked import PICK, SHIFT, Reading
from .._src.capture.record import expressions_in
from .._src.core.expr import Expr
from .._src.core.nodes import ARITHMETIC, LEAVES
from .._src.compiler.residuals import dense
from .._src.core.kinds import P
from .._src.core.meta import Meta, Size, dense_strides, is_one, same
from .._src.core.native import Op
from .._src.core.op import OPS
from .._src.core.pytree import tree_unflatten
from .._src.core.random import default_generator
from .._src.core.tensor import empty
from .._src.graph import graph as house
from .._src.compat.homes import public_path
from .._src.graph.views import view_of_input
from ..nn.modules.module import Module
from .._ops import LIBRARIES, ops, overload_of
from .code import base_name, snake_case
from .graph import Graph
from .graph_module import GraphModule


def module_of(captured: house.Graph, targets=None, name="GraphModule", within=None) -> GraphModule:
    """A captured program as a module that takes its inputs and returns its outputs in a tuple.

    ``targets``: what stands for the operator of a node (default: the operator).  ``within``: the ``Surroundings`` of a
    program that an operator of control flow runs.  Values have ``meta["val"]`` and ``meta["example_value"]``.
    """
    view = View(captured, targets or {}, within)
    return GraphModule(view.modules, view.graph, name)


class FlowModule(Module):
    """Control flow over programs, which are submodules."""

    def __init__(self, flow: Flow):
        super().__init__()
        self.flow = flow
        for name, program in zip(flow.parts, flow.programs):
            self.add_module(name, module_of(program.graph))

    def forward(self, *values):
        return self.flow.apply([getattr(self, name) for name in self.flow.parts], *values)


class Surroundings:
    """What a program is part of: ``calls`` (name and function) of control flow, outermost first, and ``counts`` of the
    programs named so far, by the first part of their names, in the whole program."""

    def __init__(self, calls=(), counts=None):
        self.calls, self.counts = calls, {} if counts is None else counts

    def inside(self, name, function) -> "Surroundings":
        return Surroundings((*self.calls, (name, function)), self.counts)

    def place(self, name) -> str:
        """Return a name that no other program in the whole has."""
        count = self.counts[name] = self.counts.get(name, -1) + 1
        return f"{name}_{count}"


class View:
    """Writes the fx graph of one captured program."""

    def __init__(self, captured: house.Graph, targets, within=None):
        self.within = within or Surroundings()
        self.graph, self.targets, self.made, self.sizes, self.modules = Graph(), targets, {}, {}, {}
        self.layouts = {}  # Metas of what primitives return
        found = (expressions_in((n.args, tuple(n.params.values()))) for n in captured.nodes)
        self.expressions = {symbol for each in found for e in each for symbol in e.free}
        self.symbols = {symbol.arg[0] for symbol in self.expressions}
        self.enter(captured.inputs)
        for node in captured.nodes:
            self.node(node)
        for store in (o for o in captured.outputs if isinstance(o, house.Store)):
            self.graph.call_function(OPS["copy_"], (self.value(store.into), self.value(store.node)))
        self.finish([o for o in captured.outputs if not isinstance(o, house.Store)])

    def enter(self, inputs):
        """Inputs as placeholders."""
        for node in inputs:
            self.placeholder(node)

    def placeholder(self, node):
        made = self.made[node] = self.graph.placeholder(node.name)
        self.note(made, node)
        if self.is_number(node):
            self.sizes[node.name] = made

    def is_number(self, node) -> bool:
        """Whether an input is a Python number: those that stand for symbols are named after them."""
        return node.weak or node.op is None and node.name in self.symbols

    def finish(self, outputs):
        self.graph.output(tuple(map(self.lay_out, outputs)))

    def lay_out(self, node, noted=None):
        """Return the fx node of a value, copied where its operators would give it other strides than ``noted``
        (default: what the program notes): a program is compiled to those, but the primitives of the fx graph are called
        one by one."""
        noted = noted or dense(node.meta)
        if node not in self.layouts or 0 in noted.shape or all(is_one(size) or same(*strides) for size, *strides in zip(
                noted.shape, noted.strides, self.layouts[node].strides)):
            return self.value(node)
        order = dense_strides(noted.shape, noted.strides)
        outer = [*(d for d in range(noted.ndim) if d not in order), *reversed(order)]
        permute, copy = map(users_target, (P.permute, P.copy))
        turned = self.graph.call_function(permute, (self.value(node),), {"dims": tuple(outer)})
        copied = self.graph.call_function(copy, (turned,))
        self.layouts[node] = noted
        self.made[node] = self.graph.call_function(permute, (copied,),
                                                   {"dims": tuple(map(outer.index, range(len(outer))))})
        return self.made[node]

    def note_layout(self, node):
        """Note the Meta of what a primitive called by itself returns: new memory, with strides that follow from those
        of its arguments."""
        if isinstance(node.op, Op) and node.op.kind is not None and isinstance(node.meta, Meta):
            metas = house.map_nodes(node.args, lambda n: self.layouts.get(n, n.meta))
            self.layouts[node] = dense(node.op.kind.meta(node.op, *metas, **node.params))

    def node(self, node):
        """One captured node."""
        if node.op is P.strided and view_of_input(node.args[0]) is None:  # elements are counted in row-major order
            self.lay_out(node.args[0], node.args[0].meta.like(tuple(node.args[0].shape)))
        if node.op is PICK:
            made = self.graph.call_function(operator.getitem, self.value(node.args))
        elif node.op is SHIFT:
            made = self.graph.call_function(operator.add, self.value(node.args), name="position")
        elif isinstance(node.op, Reading):
            made = self.reading(node)
        elif node.op.name == "prims.item" and isinstance(node.args[0].meta, tuple):
            made = self.graph.call_function(operator.getitem, (self.value(node.args[0]), node.params["index"]))
        else:
            target = self.targets.get(node) or users_target(node.op, (*node.args, *node.params.values()))
            kwargs = {k: self.value(v) for k, v in node.params.items()}
            made = self.graph.call_function(target, self.value(tuple(node.args)), kwargs,
                                            name=snake_case(base_name(node.op)))
        self.made[node] = made
        self.note(made, node)
        self.note_layout(node)

    def reading(self, node):
        """An unbacked number; symbols are named after it."""
        given = self.value(node.args)
        if isinstance(node.op, Flow) and node.op.public is not None:
            return self.graph.call_function(node.op.public, node.op.arguments(self.programs(node.op), given),
                                            name=node.op.name)
        if isinstance(node.op, Flow):
            name = f"{node.op.name}_{len(self.modules)}"
            self.modules[name] = FlowModule(node.op)
            return self.graph.call_module(name, given)
        made = self.graph.call_method(node.op.name,
                                      given) if node.op.method else self.graph.call_function(node.op.function, given)
        self.sizes[node.name] = made
        return made

    def programs(self, flow: Flow) -> list:
        """Return the programs that an operator of control flow runs, as submodules: those inside of them are numbered
        first."""
        within = self.within.inside(flow.name, flow.public)
        made = [module_of(program.graph, within=within) for program in flow.programs]
        places = [self.within.place(f"{flow.name}_{part.removesuffix('_graph')}") for part in flow.parts]
        self.modules.update(zip(places, made))
        return list(map(self.graph.get_attr, places))

    def note(self, made, node):
        """Store a node's value metadata and source."""
        if not self.is_number(node) and not isinstance(node.op, Reading) or node.op is PICK:
            made.meta["val"] = made.meta["example_value"] = seen(node.meta)
        if made.op == "call_function":
            made.meta["source_fn_stack"] = [*self.within.calls, (made.name, made.target)]
        if node.where is not None:
            made.meta["stack_trace"] = location(node.where)
        if getattr(node.where, "modules", ()):
            made.meta["nn_module_stack"] = node.where.modules  # as paths, once it is known of what (export)

    def value(self, value):
        """An argument in terms of fx nodes; arithmetic on sizes becomes nodes too."""
        if isinstance(value, house.Node):
            return self.made[value]
        if type(value) is Expr:
            return self.size(value)
        if type(value) in (tuple, list, Size):
            items = [self.value(v) for v in value]
            return items if type(value) is list else tuple(items)
        return value

    def size(self, e):
        if not isinstance(e, Expr):
            return e
        found = self.sizes.get(e) if e.op not in LEAVES else self.sizes.get(e.arg[0])
        if found is None:
            found = self.sizes[e] = self.computed(e)
        return found

    def computed(self, e: Expr):
        """Nodes that compute an expression over sizes."""
        call = self.graph.call_function
        if e.op in ("const", "number"):
            return e.arg
        if e.op == "product":
            return self.folded(operator.mul, map(self.size, e.args))
        if e.op == "sum":
            coefficients, constant = e.arg
            parts = [self.size(a) if c == 1 else call(operator.mul, (self.size(a), c))
                     for a, c in zip(e.args, coefficients)]
            return self.folded(operator.add, [*parts, *([constant] if constant else [])])
        return call(ARITHMETIC[e.op], tuple(map(self.size, e.args)))

    def folded(self, function, values):
        values = list(values)
        found = values[0]
        for value in values[1:]:
            found = self.graph.call_function(function, (found, value))
        return found


class RecordedView(View):
    """Writes the fx graph of a recorded function: its tensors are inputs, those from outside attributes, random numbers
    drawn when it runs."""

    def __init__(self, recorded, named):
        self.recorded, self.attributes, self.named = recorded, {}, named
        super().__init__(recorded.graph, recorded.overloads)

    def enter(self, inputs):
        for k, node in enumerate(self.recorded.arguments):
            self.made[node] = self.graph.create_node("placeholder", self.named[k], name=self.named[k])
            self.note(self.made[node], node)
        for k, (node, tensor) in enumerate(self.recorded.lifted.items()):
            name = f"_tensor_constant{k}"
            self.attributes[name] = tensor
            self.made[node] = self.graph.get_attr(name)
            self.note(self.made[node], node)
        for symbol, (node, dim) in self.recorded.sizes.items():
            self.sizes[symbol.arg[0]] = self.graph.call_method("size", (self.made[node], dim))
        if self.recorded.stream:
            self.made.update(zip(self.recorded.stream, draw(self.graph, self.size(self.recorded.drawn))))

    def finish(self, outputs):
        self.graph.output(tree_unflatten([self.value(o) for o in outputs], self.recorded.spec))
        for node in reversed(self.graph.nodes):
            if not node.users and node.op == "call_method":
                self.graph.erase_node(node)  # sizes that nothing needs


def draw(graph: Graph, blocks):
    """Nodes that take the next blocks of the random stream: the seed, and the first block."""
    stream = graph.call_function(default_generator.reserve, (blocks,), name="stream")
    return [graph.call_function(operator.getitem, (stream, k), name=name)
            for k, name in enumerate(("seed", "position"))]


def recorded_module(recorded, named, name="GraphModule") -> GraphModule:
    """A recorded function as a module."""
    with recorded.shape_env:
        view = RecordedView(recorded, named)
    return GraphModule(view.attributes, view.graph, name)


def users_target(op, args=()):
    """Return the public target of an operator: itself if it has a public name, else an overload of ``torch.ops``."""
    if op.name.rpartition(".")[0] in LIBRARIES:
        return overload_of(op, [a.meta if isinstance(a, house.Node) else a for a in args], {})
    if OPS.get(op.name) is not op or public_path(op) is not None:
        return op
    where, _, last = op.name.rpartition(".")
    return (ops.prims if where == "prims" else ops.aten).packet(last, op).overload("default")


def seen(meta):
    """Return a value's metadata as fake tensors; unchanged if sizes are symbols."""
    if isinstance(meta, tuple):
        return tuple(map(seen, meta))
    if not isinstance(meta, Meta) or any(isinstance(s, Expr) for s in (*meta.shape, *meta.strides)):
        return meta
    return empty(tuple(meta.shape), meta.dtype, meta.strides, "meta")


def location(where) -> str:
    """A node's place in the user's program, as tracebacks show it."""
    file, _, line = str(where).rpartition(":") if not isinstance(where, tuple) else (where[0], "", where[1])
    return f'File "{file}", line {line}'
