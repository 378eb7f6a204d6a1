"""Sums of matmuls as one matmul: A B + C D = [A C] [B; D].

The gradient of a weight that is used several times, as by the steps of a recurrent layer, is a sum of matmuls whose
results are large compared to their operands. Joining the operands moves fewer bytes than writing every result and
reading it again.
"""
from __future__ import annotations

from ..core.shape_env import guess
from ..core.kinds import P
from ..core.meta import Meta
from ..graph.graph import Graph, Node, Store, map_nodes

EXACT_ENOUGH = ("float32", "float64")  # halves round once for every product


def joined_products(graph: Graph) -> Graph:
    """The same program, in which sums of products are one where that moves fewer bytes."""
    users = count_users(graph)
    inner = {n for node in graph.nodes if is_sum(node) for n in node.args if is_sum(n) and users[n] == 1
             and n.meta is node.meta}
    made, nodes = {n: n for n in graph.inputs}, []

    def add(op, args, name, meta, params=None):
        nodes.append(Node(name, op, args, params, meta))
        return nodes[-1]

    joined = {node: groups for node in graph.nodes if is_sum(node) and node not in inner
              and (groups := alike(terms(node, inner), users))}
    if not joined:
        return graph
    for node in graph.nodes:
        if node in joined:
            made[node] = total(node, joined[node], made, add)
        else:
            made[node] = add(node.op, map_nodes(node.args, made.__getitem__), node.name, node.meta, node.params)
            made[node].where = node.where
    outputs = [Store(made[o.node], o.into) if isinstance(o, Store) else made[o] for o in graph.outputs]
    return Graph(graph.inputs, nodes, outputs).prune()


def count_users(graph: Graph) -> dict:
    """How often each value is read or returned."""
    users = dict.fromkeys((*graph.inputs, *graph.nodes), 0)
    for node in graph.nodes:
        for used in node.used:
            users[used] += 1
    for node in graph.result_nodes():
        users[node] += 1
    return users


def is_sum(node: Node) -> bool:
    return node.op is P.add and all(isinstance(a, Node) for a in node.args)


def terms(node: Node, inner: set) -> list:
    """The terms of a sum, through the sums that only it reads."""
    found, stack = [], [node]
    while stack:
        node = stack.pop()
        for n in node.args:
            (stack if n in inner else found).append(n)
    return found


def alike(found, users: dict) -> list:
    """Groups of terms that are matmuls of equal shape, each cheaper when joined; the terms of no group last."""
    groups, rest = {}, []
    for term in found:
        if term.op is P.matmul and len(term.shape) == 2 and users[term] == 1 and term.dtype.name in EXACT_ENOUGH:
            groups.setdefault((tuple(term.shape), term.dtype), []).append(term)
        else:
            rest.append(term)
    kept = [group for group in groups.values() if worth_joining(group)]
    rest += [term for group in groups.values() if not worth_joining(group) for term in group]
    return [*kept, rest] if kept else []


def worth_joining(group) -> bool:
    """True if copying the operands moves fewer bytes than writing, reading and adding up the results."""
    rows, columns = map(guess, group[0].shape)
    depth = sum(guess(term.args[0].shape[-1]) for term in group)
    return 2 * depth * (rows + columns) < 3 * (len(group) - 1) * rows * columns


def total(node: Node, groups, made: dict, add):
    """The sum of one product for each group and of the other terms."""
    *products, rest = groups
    parts = [made[term] for term in rest]
    for k, group in enumerate(products):
        left, right = (join([made[term.args[side]] for term in group], 1 - side, f"{node.name}_{k}{'lr'[side]}", add)
                       for side in (0, 1))
        parts.append(add(P.matmul, (left, right), f"{node.name}_{k}", group[0].meta))
    result = parts[0]
    for k, part in enumerate(parts[1:]):
        result = add(P.add, (result, part), f"{node.name}_sum{k}", node.meta)
    return result


def join(pieces, dim: int, name: str, add):
    """Concatenate pieces; transposed ones are joined in their storage order."""
    if all(piece.op is P.permute for piece in pieces):
        whole = join([piece.args[0] for piece in pieces], 1 - dim, f"{name}_t", add)
        return add(P.permute, (whole,), name, P.permute.kind.meta(P.permute, whole.meta, dims=(1, 0)), {"dims": (1, 0)})
    shape = list(pieces[0].shape)
    shape[dim] = sum(piece.shape[dim] for piece in pieces)
    return add(P.cat, (tuple(pieces),), name, Meta.of(tuple(shape), pieces[0].dtype, pieces[0].meta.device),
               {"dim": dim})
