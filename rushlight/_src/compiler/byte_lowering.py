"""Lower programs over float8 values to programs over their encodings, which are uint8, so that kernels see integers
only.

Nodes that move elements move encodings; conversions are arithmetic (``byte_math.py``); a matmul becomes a template call
if the device has one, else a float32 matmul. A program with any other operation on float8 values stays as it is.
"""
from __future__ import annotations

from ..core.dtypes import dtype, float32, uint8
from ..core.kinds import P
from ..core.meta import Meta
from ..graph.graph import Graph, Node, Store, map_nodes
from ..transforms.trace import Trace, traced

MOVING = frozenset(("view", "join", "gather"))


def in_codes(graph: Graph, metas: list, device) -> tuple:
    """(an equal program over encodings, the Metas of its fresh results' memory, {input: that of the new program}).

    ``device``: the Target that may claim a matmul.
    """
    if not translatable(graph):
        return graph, metas, {node: node for node in graph.inputs}
    coding = Coding(graph, device)
    return coding.run(), list(map(coded, metas)), {node: coding.made[node] for node in graph.inputs}


def translatable(graph: Graph) -> bool:
    """True if a program has float8 values, and lowering rules for all operations on them."""
    return any(map(of_bytes, (*graph.inputs, *graph.nodes))) and all(map(writable, graph.nodes))


def metas_of(node: Node) -> tuple:
    return node.meta if isinstance(node.meta, tuple) else (node.meta,)


def of_bytes(node: Node) -> bool:
    return any(isinstance(m, Meta) and m.dtype.is_byte for m in metas_of(node))


def writable(node: Node) -> bool:
    """True if a lowering rule covers a node, or none is needed."""
    if not of_bytes(node) and not any(map(of_bytes, node.used)):
        return True
    if node.inside is not None or isinstance(node.meta, tuple):
        return False
    if node.op in (P.convert, P.byte_matmul, P.copy, P.full):
        return True
    return node.op.kind.name in MOVING and node.op is not P.pad or node.op is P.where


def coded(meta):
    """The Meta of the encodings if a value has them, else its own."""
    return Meta(meta.shape, meta.strides, uint8, meta.device) if meta.dtype.is_byte else meta


def coded_dtype(value):
    """A parameter of an operator that moves numbers, of one that moves codes."""
    return uint8 if isinstance(value, dtype) and value.is_byte else value


class Coding:
    """The rewriting of one program. ``made``: {node: the node itself, or its encoding}."""

    def __init__(self, graph: Graph, device):
        self.graph, self.device, self.trace, self.made = graph, device, Trace(), {}

    def run(self) -> Graph:
        for node in self.graph.inputs:
            self.made[node] = self.input(node) if of_bytes(node) else node
        with self.trace:
            for node in self.graph.nodes:
                touched = of_bytes(node) or any(map(of_bytes, node.used))
                self.made[node] = self.written(node) if touched else self.kept(node)
        outputs = [Store(self.made[o.node], self.made[o.into]) if isinstance(o, Store) else self.made[o]
                   for o in self.graph.outputs]
        written = Graph([self.made[n] for n in self.graph.inputs], self.trace.nodes, outputs).prune()
        left = [n.name for n in (*written.inputs, *written.nodes) if of_bytes(n)]
        if left:
            raise AssertionError(f"float8 values remain in a program over encodings: {', '.join(left)}")
        return written

    def input(self, node: Node) -> Node:
        return Node(node.name, None, meta=coded(node.meta), where=node.where, weak=node.weak, constant=node.constant)

    def kept(self, node: Node) -> Node:
        args = map_nodes(node.args, self.made.__getitem__)
        made = Node(self.trace.fresh("t"), node.op, args, node.params, node.meta, node.inside, node.where, node.weak,
                    node.constant)
        self.trace.nodes.append(made)
        return made

    def written(self, node: Node) -> Node:
        """The equivalent of a node over encodings."""
        args = map_nodes(node.args, lambda n: traced(self.made[n]))
        if node.op is P.convert:
            return self.converted(node, args[0])
        if node.op is P.full:
            made = P.full(shape=node.shape, value=node.params["value"], dtype=float32)
            return code_of(made, node.dtype).node
        if node.op is P.byte_matmul:
            return self.product(node, *args)
        return node.op(*args, **{name: coded_dtype(value) for name, value in node.params.items()}).node

    def converted(self, node: Node, x) -> Node:
        source, target = node.args[0].dtype, node.params["dtype"]
        if source is target:
            return x.node
        found = number_of(x, source) if source.is_byte else x
        if target.is_byte:
            return code_of(P.convert(found, dtype=float32), target).node
        return P.convert(found, dtype=target).node

    def product(self, node: Node, a, b) -> Node:
        kinds = [n.dtype for n in node.args]
        made = P.byte_matmul(a, b, fast=node.params["fast"], left=kinds[0].name, right=kinds[1].name)
        if self.device.claim(made.node) is not None:
            return made.node
        return P.matmul(*(number_of(x, kind) for x, kind in zip((a, b), kinds))).node


def number_of(codes, dtype):
    """The numbers, as float32, that codes stand for."""
    return getattr(P, f"number_{dtype.name}")(P.convert(codes, dtype=float32))


def code_of(x, dtype):
    """The codes of float32."""
    return P.convert(getattr(P, f"code_{dtype.name}")(x), dtype=uint8)
