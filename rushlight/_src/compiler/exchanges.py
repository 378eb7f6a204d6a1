"""Overlap of a program's collectives with its computation.

A collective that can overlap other work becomes two nodes: ``start_exchange`` returns a handle (a number), and
``finish_exchange`` takes the handle and the collective's input and returns the result. Because the second node reads
the input, the input's memory stays unchanged until the collective is complete; received data is stored in separate
memory until then.

Collectives start in program order, whatever their groups: the order depends on the program alone, and equals that of
the program without overlap.
"""
from __future__ import annotations

from typing import NamedTuple

from ..core.dtypes import int64
from ..core.expr import Expr
from ..core.kinds import Exchanged, P
from ..core.meta import Meta, product
from ..core.shape_env import guess
from ..graph.graph import Graph, Node, Store, map_nodes

SMALL = 1 << 14       # bytes that are exchanged sooner than another thread begins to
UNDER_WAY = 1 << 26   # bytes of results that may be under way before a collective has its turn in the program
BESIDE = ("contract", "foreign", "scan", "scatter", "reduce")  # kinds of work that a collective can overlap


def overlapped(graph: Graph) -> Graph:
    """The same program with its collectives as early and their waits as late as possible; the same object if no
    collective can overlap other work."""
    if not any(map(is_collective, graph.nodes)):
        return graph
    order = Order(graph)
    order.run()
    apart = {node for node in order.started if order.lasts(node)}
    return written(graph, order.events, apart) if apart else graph


def is_collective(node: Node) -> bool:
    return isinstance(node.op.kind, Exchanged)


def is_fixed(node: Node) -> bool:
    """True if a node keeps its order relative to its kind: collectives, and operators that are not primitives."""
    return is_collective(node) or not node.op.name.startswith("prims.")


def nbytes(node: Node) -> int:
    return guess(product(node.shape)) * node.meta.itemsize


class Landing(NamedTuple):
    """The wait for the result of a collective."""

    node: Node


class Order:
    """An order of a program's nodes. ``events``: nodes as they are computed, collectives as they start, and their
    Landings. ``started``, ``landed``: {collective: the number of the event}.

    Collectives without dependencies start one after the other, up to UNDER_WAY bytes. Next come the dependencies of the
    next collective, ready ones first; other nodes are computed while collectives are in flight.
    """

    def __init__(self, graph: Graph):
        self.at = {node: k for k, node in enumerate(graph.nodes)}
        self.waiting = list(graph.nodes)  # nodes that are not placed yet, in program order
        self.placed, self.under_way = set(graph.inputs), {}
        self.events, self.started, self.landed = [], {}, {}

    def run(self):
        for node in [n for n in self.waiting if is_fixed(n)]:
            self.waiting = [n for n in self.waiting if n not in self.placed]
            if is_collective(node):
                self.start(node)
            else:
                self.force(self.earlier(node))
                self.place(node)
        self.force([n for n in self.waiting if n not in self.placed])
        self.land(list(self.under_way))

    def start(self, node: Node):
        """Start the next collective, after its dependencies."""
        if sum(self.under_way.values()) + nbytes(node) > UNDER_WAY:
            self.force(self.earlier(node))
        needed = self.needed(node)
        if self.under_way and (needed or any(used in self.under_way for used in node.used)):
            left = set(needed)
            self.ready([n for n in self.earlier(node) if n not in left])
        self.force(needed)
        self.land(node.used)
        self.placed.add(node)
        self.under_way[node] = nbytes(node)
        self.started[node] = len(self.events)
        self.events.append(node)

    def earlier(self, node: Node) -> list:
        """The nodes that precede a node in the program and are not placed yet."""
        return [n for n in self.waiting if self.at[n] < self.at[node] and n not in self.placed]

    def needed(self, node: Node) -> list:
        """The nodes that a node depends on and that are not placed yet, in program order."""
        found, stack = set(), [node]
        while stack:
            for used in stack.pop().used:
                if used not in self.placed and used not in found:
                    found.add(used)
                    stack.append(used)
        return sorted(found, key=self.at.__getitem__)

    def ready(self, nodes) -> list:
        """Places those of the nodes that wait for nothing under way; returns the others."""
        others = []
        for node in nodes:
            if any(used in self.under_way or used not in self.placed for used in node.used):
                others.append(node)
            else:
                self.place(node)
        return others

    def force(self, nodes):
        """Places nodes, those last that wait for something."""
        for node in self.ready(nodes):
            self.place(node)

    def place(self, node: Node):
        self.land(node.used)
        self.placed.add(node)
        self.events.append(node)

    def land(self, nodes):
        """Waits for those of the nodes that are under way."""
        for node in dict.fromkeys(nodes):
            if self.under_way.pop(node, None) is not None:
                self.landed[node] = len(self.events)
                self.events.append(Landing(node))

    def lasts(self, node: Node) -> bool:
        """True if a host collective is long enough for a separate start and finish."""
        if not node.meta.device.provider.on_host or any(map(symbolic, node.params.values())):
            return False
        first, last = self.started[node], self.landed[node]
        beside = any(type(event) is Node and event.op.kind.name in BESIDE for event in self.events[first + 1:last])
        return beside and (nbytes(node) > SMALL or any(self.started[other] < first < self.landed[other]
                                                       for other in self.started))


def symbolic(value) -> bool:
    return any(map(symbolic, value)) if isinstance(value, tuple) else isinstance(value, Expr)


def written(graph: Graph, events, apart: set) -> Graph:
    """The program in an order of events, the collectives that are ``apart`` as two nodes each."""
    made, numbers, nodes = {n: n for n in graph.inputs}, {}, []

    def add(node, name, op, args, params, meta):
        nodes.append(Node(name, op, args, params, meta, node.inside, node.where, node.weak, node.constant))
        return nodes[-1]

    for event in events:
        node = event.node if type(event) is Landing else event
        args = map_nodes(node.args, made.__getitem__)
        if node not in apart:
            if event is node:
                made[node] = add(node, node.name, node.op, args, node.params, node.meta)
            continue
        params = {"name": node.op.name.removeprefix("prims."), "params": tuple(node.params.items())}
        if event is node:
            meta = Meta.of((1,), int64, node.meta.device)
            numbers[node] = add(node, f"{node.name}_start", P.start_exchange, args, params, meta)
        else:
            made[node] = add(node, node.name, P.finish_exchange, (numbers[node], *args), params, node.meta)
    outputs = [Store(made[o.node], o.into) if isinstance(o, Store) else made[o] for o in graph.outputs]
    return Graph(graph.inputs, nodes, outputs)
