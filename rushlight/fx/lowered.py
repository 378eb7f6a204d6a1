"""Graphs of users as captured programs: the way back of ``convert``."""
from __future__ import annotations

import operator

from .._src.capture.backends import GraphModule
from .._src.capture.record import PICK, SHIFT
from .._src.core.native import Op, Tensor
from .._src.eager.arguments import NUMBER_METAS
from .._src.graph import graph as house
from .node import map_aggregate, operator_under, plain


def house_module(module, inputs) -> GraphModule:
    """The captured form of a graph module whose nodes are operators, for inputs like these.

    TypeError for a node that is no operator: record the module instead (``fx.recording``).
    """
    return GraphModule(lowered(module.graph, inputs))


def lowered(graph, inputs) -> house.Graph:
    """The captured form of an fx graph; values are computed on the way, to know their metadata."""
    made, values, nodes = {}, {}, []
    given = []
    for node, value in zip(graph.find_nodes(op="placeholder"), inputs):
        tensor = isinstance(value, Tensor)
        made[node] = house.Node(node.name, None, meta=value._rush_meta if tensor else NUMBER_METAS[type(value)],
                                weak=not tensor)
        values[node] = value.detach().clone() if tensor else value
        given.append(made[node])
    for node in graph.nodes:
        if node.op == "call_function":
            args, kwargs = (map_aggregate(a, lambda v: values.get(v, v) if v.__hash__ else v)
                            for a in (node.args, dict(node.kwargs)))
            values[node] = node.target(*plain(args), **plain(kwargs))
            made[node] = one(node, made, values[node])
            nodes.append(made[node])
        elif node.op not in ("placeholder", "output"):
            raise TypeError(f"the node {node.format_node()} is no operator")
    outputs = [made[n] for n in graph.output_node().args[0]]
    return house.Graph(given, nodes, outputs)


def one(node, made, value):
    """The captured form of one call."""
    def at(v):
        return plain(map_aggregate(v, lambda leaf: made.get(leaf, leaf) if leaf.__hash__ else leaf))

    meta = tuple(v._rush_meta for v in value) if isinstance(value, (tuple, list)) else value._rush_meta if isinstance(
        value, Tensor) else NUMBER_METAS.get(type(value))
    if node.target is operator.getitem:
        return house.Node(node.name, PICK, at(node.args), {}, meta)
    if node.target is operator.add:
        return house.Node(node.name, SHIFT, at(node.args), {}, meta)
    op = operator_under(node.target)
    if not isinstance(op, Op):
        raise TypeError(f"the node {node.format_node()} is no operator")
    return house.Node(node.name, op, at(node.args), at(dict(node.kwargs)), meta)
