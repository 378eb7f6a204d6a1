"""A graph, operator by operator."""
from __future__ import annotations

from ..core.expr import Expr
from ..core.nodes import evaluate
from ..core.meta import Size
from ..core.native import Op
from .graph import Graph, Node


def run(graph: Graph, values, nodes=None) -> list:
    """The outputs of a graph for these inputs, operator by operator.

    ``nodes``: in the order in which they were recorded, for inputs that share memory.
    """
    env = dict(zip(graph.inputs, values))
    sizes = {node.name: value for node, value in env.items() if type(value) in (int, Expr)}

    for node in nodes or graph.nodes:
        value = env[node] = called(node, env, sizes, nodes is not None)
        if type(value) is int:
            sizes[node.name] = value
    return [env[n] for n in graph.outputs]


def called(node, env, sizes, shares=False):
    """The result of one node: ``env`` holds values by their nodes, ``sizes`` ints by name; ``shares``: inputs share
    memory."""
    function = node.op
    if isinstance(function, Op):
        in_place = function.traits.get("in_place") if shares else None
        function = in_place or (function.body if function.traits.get("each_time") else function)
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
