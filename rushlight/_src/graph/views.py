"""Resolve chains of views to the value whose memory they alias."""
from __future__ import annotations

from ..core.meta import Meta
from .graph import Node


def through_views(node: Node) -> Node:
    """The node whose memory shows this one: views of rows in memory share it, as far as strides allow."""
    path = []
    while node.op is not None and node.op.kind.name == "view":
        path.append(node)
        node = node.args[0]
    root, meta = node, in_memory(node)
    for step in reversed(path):
        found = step.op.kind.strided(step.op, meta, **step.params)
        root, meta = (root, found[0]) if found else (step, Meta.of(step.shape, step.dtype, step.meta.device))
    return root


def in_memory(node: Node) -> Meta:
    """The Meta of a value in memory of its own: as declared for one of several results, row-major for all others."""
    return node.meta if node.op is None or is_part(node) else Meta.of(node.shape, node.dtype, node.meta.device)


def step_of(node: Node) -> bool:
    """True if a node aliases the memory of its argument, if strides allow."""
    return node.op is not None and node.op.kind is not None and node.op.kind.shares and node.op.name != "prims.part"


def shown(meta: Meta, steps):
    """The Meta that steps of views lead to from one in memory, and its offset in elements of its dtype; None where one
    of them needs a copy."""
    offset = 0
    for step in steps:
        found = step.op.kind.strided(step.op, meta, **step.params)
        if found is None:
            return None
        offset = offset * meta.itemsize // found[0].itemsize + found[1] if found[
            0].itemsize != meta.itemsize else offset + found[1]
        meta = found[0]
    return meta, offset


def view_of_input(node: Node):
    """(input, the Meta seen through, offset in elements) of a value that views alone lead to from an input; None for
    others, and where a copy is needed."""
    steps = []
    while step_of(node):
        steps.append(node)
        node = node.args[0]
    if node.op is not None:
        return None
    found = shown(node.meta.turning(node.turned), reversed(steps))
    return found and (node, *found)


def operands(nodes) -> set:
    """The values that contractions and library calls among these nodes read from memory."""
    readers = [node for node in nodes if node.op.kind.name in ("contract", "foreign") and not is_part(node)]
    return {through_views(used) for node in readers for used in node.used}


def is_part(node: Node) -> bool:
    """True if a node is one of several results of another."""
    return node.op.name == "prims.item"
