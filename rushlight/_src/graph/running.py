"""A graph, operator by operator."""
from __future__ import annotations

from ..core.expr import Expr
from ..core.nodes import evaluate
from ..core.meta import Size
from ..core.native import Op
from .graph import Graph, Node


def run(graph: Graph, values, nodes=None) -> list:
    """The outputs of a graph for these inputs, operator by operator; ``nodes`` in another order than the graph's."""
    env = dict(zip(graph.inputs, values))
    sizes = {node.name: value for node, value in env.items() if type(value) in (int, Expr)}

    for node in nodes or graph.nodes:
        value = env[node] = called(node, env, sizes)
        if type(value) is int:
            sizes[node.name] = value
    return [env[n] for n in graph.outputs]


def called(node, env, sizes):
    """The result of one node: ``env`` holds values by their nodes, ``sizes`` ints by name."""
    function = node.op.body if isinstance(node.op, Op) and node.op.traits.get("each_time") else node.op
    return function(*[value_of(a, env, sizes) for a in node.args],
                    **{k: value_of(v, env, sizes) for k, v in node.params.items()})


def value_of(value, env, sizes):
    """An argument of a node.  (Not a function within ``called``: one that names itself would keep all values until the
    collector runs.)"""
    if isinstance(value, Node):
        return env[value]
    if type(value) is Expr:
        return evaluate(value, sizes)
    return type(value)([value_of(v, env, sizes) for v in value]) if type(value) in (tuple, list, Size) else value
