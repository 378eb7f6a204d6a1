"""Programs with symbols, for one set of sizes."""
from __future__ import annotations

from ..core.meta import settled
from .graph import Graph, Node, Store, map_nodes


def settled_graph(graph: Graph, sizes: dict) -> Graph:
    """The same program for these sizes."""
    # inputs of a sub-program: the enclosing program computes them
    env = {n: Node(n.name, None, meta=settled(n.meta, sizes), weak=n.weak) for n in graph.inputs}
    inputs, nodes = list(env.values()), []
    for node in graph.nodes:
        args, inside = map_nodes(settled(node.args, sizes), env.__getitem__), node.inside and settled_graph(node.inside,
                                                                                                            sizes)
        env[node] = Node(node.name, node.op, args, settled(node.params, sizes), settled(node.meta, sizes), inside,
                         node.where, node.weak, node.constant)
        nodes.append(env[node])
    return Graph(inputs, nodes,
                 [Store(env[o.node], env[o.into]) if isinstance(o, Store) else env[o] for o in graph.outputs])
