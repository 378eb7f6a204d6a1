"""The joint graph: reverse accumulation over the nodes of a trace."""
from __future__ import annotations

from ..core.kinds import P
from ..core.meta import Meta, same_sizes
from ..graph.graph import Node, map_nodes
from ..transforms.trace import Several, Traced, traced


def active_nodes(nodes, sources) -> set:
    """Return the nodes through which a gradient can flow from an output to one of ``sources``."""
    active = set(sources)
    for node in nodes:
        if not node.constant and carries_gradient(node.meta) and any(n in active for n in node.used):
            active.add(node)
    return active


def carries_gradient(meta) -> bool:
    if isinstance(meta, Meta):
        return meta.dtype.is_inexact
    return any(carries_gradient(m) for m in meta)


def differentiate(nodes, outputs, cotangents, sources) -> list:
    """Return the gradients of ``sources`` (nodes), given cotangents of ``outputs`` (nodes): Traced values, or None for
    undefined gradients.

    Called under the Trace that wrote ``nodes``; what the gradient rules compute is written after them.
    """
    active = active_nodes(nodes, sources)
    gradients: dict = {}
    owners = collecting(nodes, sources)
    last = {owner: None for owner, _ in owners.values()}  # their rules run when all the rest is done

    def add(node, g):
        if g is None or node not in active or node in gradients and is_zero(g):
            return
        if node in owners:
            owner, place = owners[node]
            parts = gradients.setdefault(owner, [None] * len(owner.meta))
            parts[place] = g if parts[place] is None else P.add(parts[place], g)
            return
        known = gradients.get(node)
        gradients[node] = g if known is None or is_zero(known) else P.add(known, g)

    for output, g in zip(outputs, cotangents):
        add(output, g)
    for node in reversed(list(nodes)):
        g = gradients.get(node)
        if g is None or node not in active or node in last:
            continue
        if owners and collects(node) and all(argument in owners for argument in node.args):
            for argument, part in zip(node.args, g):
                add(argument, part)
            continue
        if node.op is P.item:
            parent, index = node.args[0], node.params["index"]
            parts = gradients.setdefault(parent, [None] * len(parent.meta))
            parts[index] = g if parts[index] is None else P.add(parts[index], g)
            continue
        for place, (argument, contribution) in enumerate(node_vjp(node, g)):
            if contribution is NotImplemented:
                if argument in active:
                    raise NotImplementedError(
                        f"the derivative of {node.op.name.rpartition('.')[2]} for argument {place + 1} is not "
                        "implemented")
                continue
            if contribution is not None and argument in active and node.op.kind is not None and is_zero(g):
                contribution = P.full(shape=tuple(argument.shape), value=0, dtype=argument.meta.dtype)
            add(argument, contribution)
    owners = {}
    for node in last:
        if node in gradients:
            for argument, contribution in node_vjp(node, gradients[node]):
                add(argument, contribution)
    return [gradients.get(source) for source in sources]


def is_zero(g) -> bool:
    """True if a cotangent is known to be 0, as that of a function which is constant wherever it is smooth. Through
    primitives, which are linear in it, it stays 0, also where a slope is infinite or NaN."""
    return isinstance(g, Traced) and g.node.op is P.full and g.node.params["value"] == 0


def collects(node) -> bool:
    traits = getattr(node.op, "traits", {})
    return bool(traits.get("collects"))


def collecting(nodes, sources) -> dict:
    """Return {source: (first node that accumulates its gradients, index among the node's arguments and results)}."""
    known, found = set(sources), {}
    for node in filter(collects, nodes):
        if known.issuperset(node.args) and not any(argument in found for argument in node.args):
            found.update((argument, (node, k)) for k, argument in enumerate(node.args))
    return found


def lay_out(graph, gradients, sources):
    """Give gradients, outputs of a simplified graph, the strides of their sources, if an elementwise node computes them
    for no other use.  Rules leave strides from before a matmul was transposed; with these, the gradient would be
    written with large strides and copied once more to be accumulated."""
    read = {n for node in graph.nodes for n in node.used}
    for gradient, source in zip(gradients, sources):
        alone = gradient not in read and sum(o is gradient for o in graph.outputs) == 1
        if (alone and gradient.op is not None and gradient.op.kind.name == "elementwise" and source.meta.contiguous
            and same_sizes(gradient.shape, source.shape)):
            gradient.meta = gradient.meta.like(strides=source.meta.strides)


def node_vjp(node: Node, g):
    """Return pairs of (argument node, its cotangent) for one node."""
    rule = node.op.rules.get("vjp")
    values = map_nodes(node.args, value_of)
    y = value_of(node)
    if node.inside is not None:
        results = list(rule(g, y, *values))
        arguments = list(node.used)
        if len(results) != len(arguments):
            # rules do not handle run-time scalars
            arguments = [a for a in arguments if not a.weak and a.number is None]
        if len(results) != len(arguments):
            raise TypeError(
                f"{node.op.name}: vjp returned {len(results)} cotangents for {len(arguments)} tensor arguments")
        return zip(arguments, results)
    results = rule(g, y, *values, **node.params) if rule else node.op.kind.vjp(node.op, g, y, *values, **node.params)
    return pairs(node.args, results)


def pairs(args, results):
    for argument, result in zip(args, results):
        if isinstance(argument, Node):
            yield argument, result
        elif isinstance(argument, tuple) and result is not None:
            yield from pairs(argument, result)


def value_of(node: Node):
    """Return a node as a value for rules: several results become a tuple."""
    if isinstance(node.meta, Meta):
        return traced(node)
    return tuple(P.item(Several(node), index=k) for k in range(len(node.meta)))
