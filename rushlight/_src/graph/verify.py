"""Verify the invariants of programs between stages: definitions before uses, results as the operators declare, writes
that do not overlap."""
from __future__ import annotations

import operator

from ..core.expr import Expr
from ..core.meta import Meta
from .graph import PLAIN, Graph, Node, Store, map_nodes


class Malformed(AssertionError):
    """A stage left a program that breaks a rule."""


def verify(graph: Graph, after: str = ""):
    """Raise Malformed, which names the stage it came ``after``, unless

    - every value is an input or was computed before it is read (uses);
    - every primitive's result has the shape and dtype that its kind gives for its arguments (types; if sizes are
      numbers);
    - each value stored into an input has its shape, and no input is stored into twice (effects).

    Returns at once if the invariants held before and no node has been replaced since.
    """
    state = state_of(graph)
    if graph.verified is not None and is_same(state, graph.verified):
        return

    def refuse(what: str):
        raise Malformed(f"after {after or 'this'}: {what}\n{graph}")

    known = set(graph.inputs)
    for node in graph.nodes:
        used = node.used
        if not known.issuperset(used):
            refuse(f"{node.name} reads {next(n for n in used if n not in known).name} before it is computed")
        if node in known:
            refuse(f"{node.name} is computed twice")
        known.add(node)
        if not is_checked(node):
            expected = result_of(node)
            if expected is not None and not alike(expected, node.meta):
                refuse(f"{node.name} is {node.meta}, but {node.op.name} gives {expected}")
            node.checked = (node.op, node.args, node.params, node.meta, node.inside, metas(used))
    written = set()
    for output in graph.outputs:
        result = output.node if isinstance(output, Store) else output
        if result not in known:
            refuse(f"the result {result.name} is not computed")
        if isinstance(output, Store):
            if output.into not in graph.inputs and output.into not in known:
                refuse(f"{output.into.name}, which is stored into, is no input")
            if output.into in written:
                refuse(f"{output.into.name} is stored into twice")
            if tuple(output.into.shape) != tuple(result.shape):
                refuse(f"{result.name} of shape {tuple(result.shape)} is stored into {output.into.name} of shape "
                       f"{tuple(output.into.shape)}")
            written.add(output.into)
    graph.verified = state


def state_of(graph: Graph) -> tuple:
    """Lists of all objects that the rules are about."""
    nodes = graph.nodes
    return (graph.inputs[:], [n.meta for n in graph.inputs], nodes[:], [n.op for n in nodes], [n.args for n in nodes],
            [n.params for n in nodes], [n.meta for n in nodes], [n.inside for n in nodes], graph.result_nodes(),
            [o.into if isinstance(o, Store) else None for o in graph.outputs])


def is_same(state: tuple, other: tuple) -> bool:
    """True if both have the same objects in the same places."""
    return all(len(a) == len(b) and all(map(operator.is_, a, b)) for a, b in zip(state, other))


def metas(nodes) -> list:
    """The Metas of nodes."""
    return [node.meta for node in nodes]


def is_checked(node: Node) -> bool:
    """True if no stage has changed a node since its types were verified."""
    if not node.checked:
        return False
    op, args, params, meta, inside, given = node.checked
    return (node.op is op and node.args is args and node.params is params and node.meta is meta
            and node.inside is inside and all(map(operator.is_, metas(node.used), given)))


def result_of(node: Node):
    """The Meta, or Metas, that a primitive gives for its arguments; None where sizes are symbols, or the node is no
    plain primitive."""
    if node.op.kind is None or node.inside is not None or symbolic((node.meta, node.args, *node.params.values())):
        return None
    return node.op.kind.meta(node.op, *map_nodes(node.args, lambda n: n.meta), **node.params)


def symbolic(value) -> bool:
    if type(value) in PLAIN:
        return False
    if isinstance(value, Node):
        value = value.meta
    if isinstance(value, Meta):
        return Expr in map(type, value.shape) or Expr in map(type, value.strides)
    if isinstance(value, (tuple, list)):
        return any(map(symbolic, value))
    return isinstance(value, Expr)


def alike(expected, found) -> bool:
    """True if two Metas, or tuples of them, have the same shapes and dtypes."""
    if isinstance(expected, tuple):
        return isinstance(found, tuple) and len(expected) == len(found) and all(map(alike, expected, found))
    return isinstance(found, Meta) and tuple(expected.shape) == tuple(found.shape) and expected.dtype is found.dtype
