"""Cuts a joint program in two: what runs forward, what runs backward, and which values cross."""
from __future__ import annotations

from ..core.dtypes import bool_
from ..core.kinds import P
from ..graph.graph import Graph, Node, nodes_in

CHEAP = {"elementwise", "view", "create", "join"}  # recomputed rather than kept


class Partition:
    """``forward`` has the extra outputs last; ``backward`` takes the residuals, then the cotangents.

    ``residuals``: the forward nodes that cross, each an input, an output, or one of the ``extras``.
    """

    def __init__(self, forward, backward, residuals, extras):
        self.forward, self.backward, self.residuals, self.extras = forward, backward, residuals, extras


def cheap(node: Node) -> bool:
    kind = node.op.kind
    return kind is not None and kind.name in CHEAP


def partition(inputs, nodes, outputs, cotangents, gradients, stores=(), keep_extras=True) -> Partition:
    """Splits ``nodes``: gradients need the cotangents, outputs do not.

    Inputs and outputs that the backward reads cross as they are; cheap values are computed again; anything else becomes an
    extra output of the forward, and so do random masks: a byte to read is cheaper than drawing again.  With ``keep_extras``
    false everything is computed again from the inputs.
    """
    given = set(inputs)
    visible = set(outputs)
    tainted = set(cotangents)
    for node in nodes:
        if any(n in tainted for n in nodes_in(node.args)):
            tainted.add(node)
    drawn = {n for n in nodes if n.op is P.random_bits}
    for node in nodes:
        if any(n in drawn for n in nodes_in(node.args)):
            drawn.add(node)
    residuals, extras, again = {}, [], set()

    def need(node):
        if node in residuals or node in again or node in tainted:
            return
        if node in given:
            residuals[node] = None
        elif keep_extras and node in visible:
            residuals[node] = None
        elif not keep_extras or cheap(node) and not (node in drawn and node.meta.dtype is bool_):
            again.add(node)
            for n in nodes_in(node.args):
                need(n)
        else:
            residuals[node] = None
            extras.append(node)

    wanted = [g for g in gradients if g is not None]
    live = set(wanted)
    for node in reversed(nodes):
        if node in live and node in tainted:
            live.update(nodes_in(node.args))
    for node in wanted:
        need(node)
    for node in nodes:
        if node in live and node in tainted:
            for n in nodes_in(node.args):
                need(n)
    crossing = list(residuals)
    forward = Graph(inputs, [n for n in nodes if n not in tainted], [*outputs, *stores, *extras]).prune()
    backward = Graph([*crossing, *cotangents], [n for n in nodes if n in tainted or n in again], wanted).prune()
    return Partition(forward, backward, crossing, extras)
