"""Arguments that share memory with the one that a call writes."""
from __future__ import annotations

from ..core.native import Plan, Tensor
from ..core.op import OPS
from ..core.overlaps import APART, SAME, UNKNOWN, overlap
from ..graph.graph import Node, nodes_in
from ..ops.out import refuse_overlap


def reads_apart(stored: Node, target: Node) -> bool:
    """True if a program reads an input other than the target at other positions than the one it computes."""
    pending, seen = [(stored, False)], set()
    while pending:
        node, moved = pending.pop()
        if (node, moved) in seen:
            continue
        seen.add((node, moved))
        if node.op is None:
            if moved and node is not target and not node.weak:
                return True
            continue
        moved = moved or node.op.kind is None or node.op.kind.name != "elementwise"
        pending += [(used, moved) for used in nodes_in(node.args)]
    return False


def shared(plan: Plan, args, names):
    """Return arguments for a call that writes one of them while others share its memory.

    None if the call may continue unchanged, since they are disjoint or the same elements, read where they are written;
    OverlapError if they overlap in part; arguments with copies if that is unknown.
    """
    tensors = [(place, value) for place, given in enumerate(args)
               for value in (given if isinstance(given, (list, tuple)) else (given,))
               if isinstance(value, Tensor)]
    target, copied = tensors[plan.source][1], {}
    names = names or ()
    called = [*list(plan.op.signature.parameters)[:len(args) - len(names)], *names]
    for count, (place, value) in enumerate(tensors):
        if count == plan.source:
            continue
        how = overlap(target, value)
        single = called[place] == "value" and not value._rush_meta.shape  # a scalar, read before anything is written
        if not single:
            refuse_overlap(plan.op, target, value, how)
        if how == UNKNOWN or how == SAME and plan.apart or single and how != APART:
            copied.setdefault(place, args[place])
            copied[place] = replaced(copied[place], value)
    return tuple(copied.get(k, v) for k, v in enumerate(args)) if copied else None


def replaced(given, value: Tensor):
    """Return an argument, or a list of them, with one tensor copied."""
    if isinstance(given, Tensor):
        return OPS["clone"](given)
    return [OPS["clone"](v) if v is value else v for v in given]
