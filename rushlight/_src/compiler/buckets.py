"""Several collectives as one: their inputs are concatenated in one tensor, a bucket.

before: ``a = all_reduce(x); b = all_reduce(y)``;
after: ``c = all_reduce(cat(x, y)); a = c[:n]; b = c[n:]``, with 1-D values in between.

The choice of buckets depends on the program alone, which must be the same on all ranks; therefore nothing is joined
unless requested (settings ``bucket_*``).
"""
from __future__ import annotations

from ..core.kinds import P
from ..core.meta import product
from ..core.settings import settings
from ..graph.graph import Graph, Node, Store, map_nodes
from .exchanges import is_collective, is_fixed, symbolic

ROOM = 25 << 20  # bytes of the inputs that one exchange takes


def bucketed(graph: Graph) -> Graph:
    """The same program, in which collectives that follow each other, do not wait for each other and differ in shapes
    alone are one, up to ROOM bytes; the same object where there are none."""
    asked = {op for op in (P.all_reduce, P.all_gather, P.reduce_scatter)
             if getattr(settings, f"bucket_{op.name.removeprefix('prims.')}s") == "all"}
    if not asked or not any(n.op in asked for n in graph.nodes):
        return graph
    buckets = [bucket for bucket in found(graph, asked) if len(bucket) > 1]
    return Joining(graph, buckets).run() if buckets else graph


def found(graph: Graph, asked) -> list:
    """Lists of collectives that may be one exchange, in the order of the program."""
    buckets, behind = [[]], set()  # nodes that depend on the last bucket
    for node in graph.nodes:
        waits = any(used in behind for used in node.used)
        if is_fixed(node):
            open_ = buckets[-1]
            if waits or not (joinable(node, asked) and (not open_ or alike(node, open_[0])
                                                        and taken([*open_, node]) <= ROOM)):
                buckets.append([])
                behind, waits = set(), False
            if joinable(node, asked):
                buckets[-1].append(node)
                behind.add(node)
        if waits:
            behind.add(node)
    return buckets


def joinable(node: Node, asked) -> bool:
    return is_collective(node) and node.op in asked and not symbolic((tuple(node.args[0].shape),)) and bool(
        node.args[0].meta.numel)


def alike(node: Node, other: Node) -> bool:
    return node.op is other.op and node.params == other.params and node.dtype is other.dtype and (
        node.meta.device == other.meta.device)


def taken(bucket) -> int:
    return sum(node.args[0].meta.numel * node.meta.itemsize for node in bucket)


class Joining:
    """Rewrites a program with each bucket at the position of its last member; nodes that wait for a member follow
    it."""

    def __init__(self, graph: Graph, buckets):
        self.graph, self.nodes, self.made = graph, [], {n: n for n in graph.inputs}
        self.member = {node: bucket for bucket in buckets for node in bucket}

    def run(self) -> Graph:
        late = []
        for node in self.graph.nodes:
            bucket = self.member.get(node)
            if bucket is None and all(used in self.made for used in node.used):
                self.copy(node)
            elif bucket is None:
                late.append(node)
            elif node is bucket[-1]:
                self.join(bucket)
                for waiting in late:
                    self.copy(waiting)
                late = []
        outputs = [Store(self.made[o.node], o.into) if isinstance(o, Store) else self.made[o]
                   for o in self.graph.outputs]
        return Graph(self.graph.inputs, self.nodes, outputs)

    def copy(self, node: Node):
        self.made[node] = Node(node.name, node.op, map_nodes(node.args, self.made.__getitem__), node.params, node.meta,
                               node.inside, node.where, node.weak, node.constant)
        self.nodes.append(self.made[node])

    def add(self, name: str, op, args, **params) -> Node:
        meta = op.kind.meta(op, *map_nodes(args, lambda n: n.meta), **params)
        self.nodes.append(Node(name, op, args, params, meta))
        return self.nodes[-1]

    def join(self, bucket):
        """One collective for a bucket; as rows for collectives whose results differ in size from their inputs."""
        op, params, size = bucket[0].op, bucket[0].params, bucket[0].params.get("size", 1)
        rows = () if op is P.all_reduce else (size,) if op is P.reduce_scatter else (1,)
        pieces = []
        for node in bucket:
            given = self.made[node.args[0]]
            shape = *rows, product(given.shape) // (product(rows))
            pieces.append(self.add(f"{node.name}_flat", P.reshape, (given,), shape=shape))
        dim, first = len(rows), bucket[0].name
        whole = self.add(f"{first}_bucket", P.cat, (tuple(pieces),), dim=dim)
        exchanged, at = self.add(f"{first}_whole", op, (whole,), **params), 0
        for node, piece in zip(bucket, pieces):
            width = piece.shape[dim]
            shape = *exchanged.shape[:dim], width
            part = self.add(f"{node.name}_part", P.slice, (exchanged,), starts=(0,) * dim + (at,),
                            steps=(1,) * len(shape), shape=shape)
            self.made[node] = self.add(node.name, P.reshape, (part,), shape=tuple(node.shape))
            at += width
