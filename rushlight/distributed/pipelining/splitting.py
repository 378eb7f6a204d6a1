"""``pipe_split``, which runs while a model is captured."""
from __future__ import annotations

from ..._src.core import interpret
from ..._src.graph.graph import map_nodes
from .marks import mark

__all__ = ["pipe_split"]


def pipe_split():
    """Ends a stage in a model's ``forward``.  Does nothing if the model runs eagerly."""
    recorder = interpret.top()
    nodes = getattr(recorder, "nodes", None)
    if not nodes:
        return
    last = next((n for n in reversed(nodes) if n not in recorder.writers and hasattr(n.meta, "shape")), None)
    if last is None:
        raise RuntimeError("pipe_split(): nothing was computed before that a stage could end with")
    trade(recorder, last, mark(recorder.fake(last, last.meta, False, frozenset())).node)


def trade(recorder, last, marked):
    """Swap a node and its mark, so that all later readers read the marked value."""
    nodes = recorder.nodes
    at, to = nodes.index(last), nodes.index(marked)
    producer, reader = (last.op, last.args, last.params), (marked.op, marked.args, marked.params)
    marked.become(*producer)
    last.become(*reader)
    nodes[at], nodes[to] = marked, last
    for node in nodes[at + 1:to + 1]:
        node.become(node.op, map_nodes(node.args, lambda n: marked if n is last else n), node.params)
    if last in recorder.bases:
        recorder.bases[marked] = recorder.bases.pop(last)
