"""Checkpointed calls in a graph: each becomes one operator that saves only its arguments for the backward pass."""
from __future__ import annotations

import inspect

from ..aot.joint import collects
from ..autograd.program import computed_again
from ..core.native import Op
from ..graph.graph import Graph, Node, map_nodes, nodes_in
from ..graph.running import run
from .unbacked import in_stages


def computed_twice(nodes, recorder) -> list:
    """Return the nodes of a checkpointed call that are recomputed: not those that collect gradients of earlier values,
    since nodes outside the call add to these gradients, too."""
    own, before = set(nodes), set()
    for node in nodes:
        if collects(node) and own.isdisjoint(node.args) or node.op is recorder.pick and node.args[0] in before:
            before.add(node)
    return [node for node in nodes if node not in before]


def fold(nodes, outputs, recorder) -> list:
    """Return the nodes with each checkpointed call as one, if it has no mutations and shares no memory with the
    rest."""
    regions: dict = {}
    for node in nodes:
        if node in recorder.regions:
            regions.setdefault(recorder.regions[node], []).append(node)
    for inside in regions.values():
        if not in_stages(inside) and not any(n in recorder.writers or isinstance(n.op, Op)
                                             and n.op.traits.get("composite") for n in inside):
            nodes = folded(nodes, inside, outputs, recorder)
    return nodes


def read_by(node) -> list:
    return list(nodes_in((node.args, tuple(node.params.values()))))


def folded(nodes, inside, outputs, recorder) -> list:
    """Return the nodes with one checkpointed call as one node.  The nodes of its results remain, as parts of it."""
    within, outer = set(inside), set(outputs)
    for node in nodes:
        if node not in within:
            outer.update(read_by(node))
    results = [n for n in inside if n in outer]
    shared = any(n in recorder.bases or isinstance(n.meta, tuple)
                 for n in results) or any(b in within and n not in within for n, b in recorder.bases.items())
    if shared or not results:
        return nodes
    given = sorted(dict.fromkeys(n for node in inside for n in read_by(node) if n not in within),
                   key=lambda n: not n.weak)
    copies = {n: n for n in given}
    for n in inside:
        copies[n] = Node(n.name, n.op, map_nodes(n.args, copies.__getitem__),
                         {k: map_nodes(v, copies.__getitem__) for k, v in n.params.items()}, n.meta, where=n.where)
    body = Graph(given, [copies[n] for n in inside], [copies[n] for n in results])
    signature = inspect.Signature([inspect.Parameter(n.name, inspect.Parameter.POSITIONAL_ONLY) for n in given])
    again = computed_again(lambda values: run(body, values), signature,
                           sum(1 << k for k, n in enumerate(given) if n.weak))
    whole = Node(recorder.name("t"), again, tuple(given), {}, tuple(n.meta for n in results), where=inside[0].where)
    first, earlier = nodes.index(inside[0]), set(given)
    rest = [n for n in nodes[first:] if n not in within]
    for n in reversed(rest):
        if n in earlier:
            earlier.update(read_by(n))
    for k, n in enumerate(results):
        n.become(recorder.pick, (whole, k))
    return [*nodes[:first], *(n for n in rest if n in earlier), whole, *results,
            *(n for n in rest if n not in earlier)]
