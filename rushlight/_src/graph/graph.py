"""Graph: an ordered list of operator calls on named tensors, printed as Python that runs."""
from __future__ import annotations

from ..core.expr import Expr
from ..core.meta import Meta


PLAIN = frozenset((int, float, bool, str, type(None)))  # types that never hold Nodes


class Node:
    """One value of a program: an input (``op`` is None) or the result of ``op(*args, **params)``.

    ``args`` hold Nodes, Python numbers and tuples of these; ``params`` are static. ``meta`` is a Meta, or a tuple of
    Metas if the operator returns several tensors (``item`` nodes then select one). ``inside`` is the Graph of the
    operator's own body if that was traced. No gradient flows through a ``constant`` (detached, or made under no_grad).
    ``number``: facts about a run-time scalar while its program is traced (``core/runtime.py``).
    ``turned``: of an input, the conj and neg bits that relate the value to the stored values; its own meta is that of
    the value.
    ``checked``: the node's state when its types were last verified (``verify.py``).
    """

    __slots__ = ("name", "op", "args", "params", "meta", "inside", "where", "weak", "constant", "number", "turned",
                 "checked", "_used")

    def __init__(self, name, op, args=(), params=None, meta=None, inside=None, where=None, weak=False, constant=False):
        self.name, self.op, self.args, self.params, self.meta = name, op, args, params or {}, meta
        self.inside, self.where, self.weak, self.constant, self.number, self.turned = (inside, where, weak, constant,
                                                                                       None, 0)
        self.checked = ()

    shape = property(lambda self: self.meta.shape)
    dtype = property(lambda self: self.meta.dtype)
    is_scalar = property(lambda self: self.op is None and self.weak)

    @property
    def used(self) -> tuple:
        """The Nodes among the arguments, in order, as often as they appear."""
        try:
            return self._used
        except AttributeError:
            self._used = tuple(nodes_in(self.args))
            return self._used

    def become(self, op, args, params=None):
        """Replace the operator and the arguments that compute this node."""
        self.op, self.args, self.params, self.inside, self._used = op, args, params or {}, None, tuple(nodes_in(args))

    def __repr__(self):
        return f"%{self.name}"


def nodes_in(value):
    """The Nodes within nested tuples and lists, in order."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            if isinstance(item, Node):
                yield item
            elif isinstance(item, (tuple, list)):
                yield from nodes_in(item)


def map_nodes(value, function):
    """``value`` with each Node within nested tuples and lists replaced by ``function(node)``."""
    kind = type(value)
    if kind is Node:
        return function(value)
    if kind is tuple or kind is list:
        return kind([function(v) if type(v) is Node else v if type(v) in PLAIN else map_nodes(v, function)
                     for v in value])
    return value


class Store:
    """A graph output written into an existing input's memory (in-place operators, ``out=``)."""

    __slots__ = ("node", "into")

    def __init__(self, node: Node, into: Node):
        self.node, self.into = node, into

    meta = property(lambda self: self.into.meta)

    def __repr__(self):
        return f"store({self.node.name}, into={self.into.name})"


class Graph:
    """``inputs`` (Nodes without op), ``nodes`` in order of execution, ``outputs`` (Nodes or Stores). ``held``: inputs
    that belong to modules;
    ``views``: of captured graphs, {node: the one whose memory it aliases}; ``recorded``: the nodes in program order, if
    that differs; ``changed``: the nodes made within whose memory is written later, None if that is unknown or inputs
    are written as well; ``verified``: the state of the graph when its invariants were last verified (``verify.py``)."""

    __slots__ = ("inputs", "nodes", "outputs", "held", "views", "recorded", "changed", "verified")

    def __init__(self, inputs=(), nodes=(), outputs=()):
        self.inputs, self.nodes, self.outputs, self.held = list(inputs), list(nodes), list(outputs), frozenset()
        self.views, self.recorded, self.changed, self.verified = {}, None, None, None

    def result_nodes(self):
        return [o.node if isinstance(o, Store) else o for o in self.outputs]

    def root(self, node: Node) -> Node:
        """The node whose memory a node of a captured graph shows."""
        while node in self.views:
            node = self.views[node]
        return node

    def changes(self, *nodes) -> bool:
        """True if the program writes to the memory of one of these nodes."""
        return bool(self.changed) and any(self.root(n) in self.changed for n in nodes)

    def prune(self) -> "Graph":
        """The same program without values that no output needs."""
        live = set(self.result_nodes())
        kept = []
        for node in reversed(self.nodes):
            if node in live:
                kept.append(node)
                live.update(node.used)
        return Graph(self.inputs, reversed(kept), self.outputs)

    def run(self, values, call=None):
        """The outputs for these input values; ``call(node, args)`` computes one node (default: calls its op)."""
        call = call or call_node
        env = dict(zip(self.inputs, values))
        for node in self.nodes:
            env[node] = call(node, map_nodes(node.args, env.__getitem__))
        return [env[n] for n in self.result_nodes()]

    def __str__(self):
        names = ", ".join(f'{n.name}: "{n.meta}"' for n in self.inputs)
        lines = [f"def program({names}):"]
        lines += [f"    {render(node)}" for node in self.nodes]
        return "\n".join(lines + [f"    return {', '.join(map(render_output, self.outputs)) or 'None'}"])


def call_node(node: Node, args):
    """Calls a node's operator; an ``item`` of several results that are known is one of them."""
    if node.op.name == "prims.item" and isinstance(args[0], tuple):
        return args[0][node.params["index"]]
    if node.op.name == "prims.convert" and type(args[0]) in (bool, int, float):  # a number of the call, which stays one
        return (float if node.params["dtype"].is_inexact else int)(args[0])
    return node.op(*args, **node.params)


def render(node: Node) -> str:
    """The node as a line of Python, with its metadata as a comment."""
    arguments = [render_value(a) for a in node.args] + [f"{k}={v!r}" for k, v in node.params.items()]
    return f"{node.name} = {node.op.name}({', '.join(arguments)})  # {node.meta}"


def render_value(value) -> str:
    if isinstance(value, Node):
        return value.name
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(render_value, value))},)"
    return repr(value)


def render_output(output) -> str:
    return output.name if isinstance(output, Node) else repr(output)


def symbols_in(graph: Graph) -> set:
    """The symbols that sizes of a program depend on."""
    found: set = set()

    def look(value):
        if type(value) is Expr:
            found.update(value.free)
        elif isinstance(value, Meta):
            look((*value.shape, *value.strides))
        elif isinstance(value, (tuple, list)):
            for v in value:
                look(v)

    for node in (*graph.inputs, *graph.nodes):
        look((node.meta, node.args, *node.params.values()))
    return found


def splice(graph: Graph, kept=()) -> Graph:
    """Opens every node that carries its body: before ``y = softmax(x)``, after the primitives of softmax's body.  Those
    of operators whose names are ``kept`` stay one node."""
    nodes, env = [], {n: n for n in graph.inputs}

    def copy(inner: Graph, prefix: str):
        for node in inner.nodes:
            args = map_nodes(node.args, env.__getitem__)
            if node.inside is not None and node.op.name not in kept:
                flat = [env[n] for n in node.used]
                env.update(zip(node.inside.inputs, flat))
                copy(node.inside, f"{prefix}{node.name}_")
                results = [env[n] for n in node.inside.result_nodes()]
                env[node] = results[0] if isinstance(node.meta, Meta) else tuple(results)
            elif node.op.name == "prims.item" and isinstance(args[0], tuple):
                env[node] = args[0][node.params["index"]]
            else:
                env[node] = Node(prefix + node.name, node.op, args, node.params, node.meta, where=node.where)
                nodes.append(env[node])

    copy(graph, "")
    renamed = [Store(env[o.node], o.into) if isinstance(o, Store) else env[o] for o in graph.outputs]
    return Graph(graph.inputs, nodes, renamed)
