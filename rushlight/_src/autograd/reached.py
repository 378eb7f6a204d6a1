"""Double backward: dependencies of the results of a backward operator."""
from __future__ import annotations

from ..aot.joint import carries_gradient
from ..core.native import GradNode, Op
from ..graph.graph import Graph, Store
from .passing import following, full_of


def partly_reached(node: GradNode, gradients, results):
    """Gradients of a node, only some of whose outputs were used.  A backward operator computes the gradients of several
    arguments at once, each of which depends on some of its inputs; PyTorch has a node for each.  A gradient that
    depends on no used output is None."""
    op = node.plan.op
    if "apart" not in op.traits:
        return results
    sources = op.caches.get("sources")
    if sources is None:
        sources = op.caches["sources"] = sources_of(op)
    used = {k for k, g in enumerate(gradients[:len(sources)]) if g is not None}
    reached = set().union(*(sources[k] for k in used))
    return tuple(g if place in reached else None for place, g in zip(node.plan.wanted, results))


def sources_of(op: Op) -> list:
    """For each result of a backward operator, the indices of the tensor arguments that a gradient can flow to."""
    program = op.traits["derived"]
    program = program if isinstance(program, Graph) else program.graph
    of: dict = {}
    symbols, scalars = op.traits.get("symbols", {}), op.traits.get("all_scalars", op.scalars)
    # tensors have numbers, those that the program does not read (None), too; values of symbols have none
    tensors = [node for k, node in enumerate(op.traits["inputs"])
               if not scalars >> k & 1 and (node is None or node.name not in symbols)]
    inputs = iter([n for n in program.inputs if not n.weak])
    for number, node in enumerate(tensors):
        if node is not None:
            of[next(inputs)] = frozenset((number,))
    for node in program.nodes:
        if not node.constant and carries_gradient(node.meta):
            of[node] = frozenset().union(*(of.get(used, ()) for used in node.used))
    return [of.get(o.node if isinstance(o, Store) else o, frozenset()) for o in program.outputs]


def with_history(node: GradNode, gradients):
    """Gradients of a node with the additional history that PyTorch's derivative formulas give them: zero derivatives
    with respect to the arguments, or one without a destination."""
    metas = [None if g is None else g._rush_meta for g in gradients] if node.plan.op.traits["second"] == "zeros" else ()

    def function(*seconds):
        return *seconds, *(None if meta is None else full_of(meta, 0) for meta in metas)

    more = (node.edges, node.slots) if metas else ((), ())
    given = [None if g is None or g.requires_grad and not metas else g for g in gradients]
    made = following(given, f"{node.plan.op.name}.backward", function, *more)
    return tuple(g if m is None else m for g, m in zip(gradients, made))
