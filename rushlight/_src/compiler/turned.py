"""Rewrite programs whose inputs have the conj or neg bit (``Meta.turned``) with explicit operations, for a compiler
that sees stored values only."""
from __future__ import annotations

from ..core.kinds import P
from ..core.meta import CONJUGATED, NEGATED
from ..graph.graph import Graph, Node, Store, map_nodes
from ..ops import prims  # noqa: F401 - declares the primitives named below

TURNS = {P.conjugated: P.conj, P.negated: P.neg}  # views, and the operators that compute the same


def resolved(graph: Graph) -> Graph:
    """An equal program whose inputs are the stored values: readers of a conjugated input conjugate, writers conjugate
    first."""
    if not any(n.turned for n in graph.inputs) and not any(n.op in TURNS for n in graph.nodes):
        return graph
    return Resolving(graph).run()


class Resolving:
    """The rewriting of one program. ``made``: {node: its replacement}."""

    def __init__(self, graph: Graph):
        self.graph, self.nodes = graph, []
        self.made = {n: self.turning(n, n.turned) for n in graph.inputs}

    def turning(self, node: Node, bits: int) -> Node:
        """A value as it is read, or stored, through ``bits`` of ``Meta.turned``."""
        for bit, op in ((CONJUGATED, P.conj), (NEGATED, P.neg)):
            if bits & bit:
                node = self.enter(Node(f"{node.name}_turned", op, (node,), {}, node.meta))
        return node

    def enter(self, node: Node) -> Node:
        self.nodes.append(node)
        return node

    def run(self) -> Graph:
        for node in self.graph.nodes:
            args = map_nodes(node.args, self.made.__getitem__)
            op = TURNS.get(node.op, node.op)
            made = Node(node.name, op, args, node.params, node.meta, node.inside, node.where, node.weak, node.constant)
            self.made[node] = self.enter(made)
        return Graph(self.graph.inputs, self.nodes, [self.output(o) for o in self.graph.outputs]).prune()

    def output(self, output):
        if isinstance(output, Store):
            return Store(self.turning(self.made[output.node], output.into.turned), output.into)
        return self.made[output]
