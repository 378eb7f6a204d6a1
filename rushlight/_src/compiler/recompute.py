"""Training steps in one program: forward values that the backward pass reads are kept or recomputed, as between two
programs."""
from __future__ import annotations

from ..core.kinds import P
from ..graph.graph import Graph, Node, Store, map_nodes
from .partition import Costs, ancestors, at_once, downstream, read_by
from .simplify import simplify


def recomputed(graph: Graph) -> Graph:
    """An equal program whose backward pass, the nodes ``after`` others, reads only values that are cheaper to keep than
    to recompute.

    The backward pass is simplified by itself: it must not share anything else with the forward pass.
    """
    seeds = [n for n in graph.nodes if n.op is P.after]
    if not seeds:
        return graph
    backward, results = downstream(graph.nodes, seeds), graph.result_nodes()
    early, late = [n for n in results if n not in backward], list(dict.fromkeys(n for n in results if n in backward))
    needed = read_by(graph.nodes, backward, late)
    crossing = Costs(graph.nodes, backward, {*graph.inputs, *early}).cut(ancestors(graph.nodes, needed), needed)
    order = [n for n in (*graph.inputs, *graph.nodes) if n in crossing]
    first = Graph(graph.inputs, [n for n in graph.nodes if n not in backward], [*early, *order]).prune()
    second = simplify(at_once(Graph(order, [n for n in graph.nodes if n not in crossing], late).prune()))
    nodes, made = renamed(second, {n.name for n in first.nodes})
    last = {old: made.get(new, new) for old, new in zip(late, second.outputs)}
    outputs = [Store(last.get(o.node, o.node), o.into) if isinstance(o, Store) else last.get(o, o)
               for o in graph.outputs]
    return Graph(graph.inputs, [*first.nodes, *nodes], outputs)


def renamed(graph: Graph, taken: set):
    """The nodes of a program, those under a name that is taken under another one; old node -> new node."""
    made: dict = {}
    for node in graph.nodes:
        name = f"{node.name}_again" if node.name in taken else node.name
        made[node] = Node(name, node.op, map_nodes(node.args, lambda n: made.get(n, n)), node.params, node.meta,
                          node.inside, node.where, node.weak, node.constant)
    return list(made.values()), made
