"""What of a program is kept in memory, and when it is computed.

A *template call* is a node with a step of its own: a contraction that a template computes, or what only NumPy can.
Template calls run in the program's order.  Between them lie *fusion groups*: every other kept value is computed in one
of them, by generated kernels that read through everything not kept.
"""
from __future__ import annotations

from ..core.shape_env import guess
from ..core.kinds import P
from ..core.meta import product
from ..graph.graph import Graph, Node, Store
from ..graph.views import is_part, through_views
from .math import COSTLY, COSTLY_WORK

MOST_LOADS = 2   # a value read by several others is kept if computing it again reads as many tensors as this,
MOST_WORK = 6    # or takes as many operations
RANDOM_WORK = 40
# places that one kernel reads for an element, or functions that it computes: compilation takes time beyond proportion
MOST_READS = 32
# the same of a value that a kernel computes a second time at another place, instead of reading what another kernel
# wrote
MOST_AGAIN = 2
MOVED = 3        # so much do reads at other places count, which come with conditions
MOST_JOINED = 8  # pieces among which a kernel chooses for each element it reads


class Schedule:
    """``calls``: nodes with a step of their own, each with the FusedEpilogue that its step computes along and leaves in
    memory; ``prologues`` are the Prologues by which some compute their arguments, by number.
    ``kept``: nodes with memory.  ``groups[k]``: those computed by kernels before call k; the last group comes after all
      calls.
    ``ends``: kept values that a kernel ends with, as more would be too much for one.
    """

    def __init__(self, graph: Graph, calls: dict, prologues: dict):
        self.graph, self.calls, self.prologues, self.ends = graph, calls, prologues, set()
        self.at = {n: k for k, (node, fused) in enumerate(calls.items()) for n in (node, *fused.stored)}
        self.inside = frozenset().union(*(fused.inside for fused in calls.values()))
        for node in graph.nodes:
            if is_part(node):
                self.at[node] = self.at[node.args[0]]
        self.kept = {*graph.inputs, *(o for o in graph.outputs if not isinstance(o, Store))}
        for fused in calls.values():
            self.kept.update(fused.stored, map(through_views, fused.reads))
        self.kept.update(n for n in graph.nodes if is_part(n) or n.op is P.part)
        for node in graph.nodes:
            if node in calls:
                self.kept.update(through_views(used) for used in self.read_by(node))
            elif node.op.kind.name == "scan":
                self.kept.add(node)
            elif node.op.kind.name == "scatter":
                self.kept.update((node, node.args[1]))
            elif node.op.kind.name == "join" and len(node.used) > MOST_JOINED:
                self.kept.add(node)
            elif node.op is P.half:
                self.kept.add(through_views(node.args[0]))
            elif node.op.kind.name == "view" and overlapping(node):
                self.kept.add(below_views(node))
        self.keep_shared()
        self.place()
        while self.keep_spread():
            self.place()

    def read_by(self, node: Node):
        """What a node's step or kernel reads, or reads through."""
        prologues = self.prologues.get(node)
        if not prologues:
            return node.used
        return dict.fromkeys((*(a for k, a in enumerate(node.args) if k not in prologues),
                              *(n for prologue in prologues.values() for n in prologue.reads)))

    # --- what is kept -------------------------------------------------------------------------------------------------
    def keep_shared(self):
        """Keeps values that several kept ones are computed from, where computing them again costs more than reading
        them, and those that are computed from too many."""
        readers, work, touched, own, shared = self.readers(), {}, {}, {}, set()
        for node in self.graph.nodes:
            if node in self.at or node in self.inside:
                continue
            own[node] = found = self.touched_by(node, touched)
            self.ends.update(value for value, path in found if path and len(own.get(value, ())) > MOST_AGAIN
                             and not is_small(value, node))
            if node in self.kept:
                continue
            loads, operations = self.cost(node, work)
            dear = loads >= MOST_LOADS or operations >= MOST_WORK or node.op.kind.name == "reduce"
            if dear and len(readers.get(node, ())) > 1 and node.op.kind.name != "view" and not stored_alike(
                    node, readers[node]):
                self.kept.add(node)
                shared.add(node)
            elif sum(MOVED if path else 1 for _, path in found) > MOST_READS and node.op.kind.name == "elementwise":
                self.kept.add(node)
                self.ends.add(node)
            else:
                # a row's result is at hand in its kernel
                work[node] = (loads, operations) if node.op.kind.name != "reduce" else (0, 0)
                touched[node] = found

        self.readers(shared)

    def readers(self, shared=()) -> dict:
        """For each node the kept values that are computed from it. ``shared`` nodes that turn out to have only one are
        no longer kept, unless a kernel ends there."""
        found: dict = {o.node: {o} for o in self.graph.outputs if isinstance(o, Store)}
        for node in reversed(self.graph.nodes):
            if node in self.inside:
                continue
            if node in shared and node not in self.ends and len(found.get(node, ())) == 1:
                self.kept.discard(node)
            own = {node} if node in self.kept else found.get(node, set())
            for used in self.read_by(node):
                if used not in self.kept or used in shared:
                    found.setdefault(used, set()).update(own)
        return found

    def cost(self, node: Node, work: dict):
        """(elements read, operations) for each element of a node when it is computed from what is kept."""
        loads, operations, size = 0, own_work(node), max(1, guess(product(node.shape)))
        for used in dict.fromkeys(node.used):
            if used in work:
                loads, operations = loads + work[used][0], operations + work[used][1]
            else:
                loads += min(1, guess(product(used.shape)) / size)
        return loads, operations

    def touched_by(self, node: Node, known: dict) -> frozenset:
        """What is read and what costly functions are computed for an element of a node: each value with the views
        through which it is seen, as a kernel computes a value again for every other index."""
        found = frozenset().union(*(known.get(used) or ((used, 0),) for used in node.used))
        if moves(node):
            return frozenset((value, hash((path, node))) for value, path in found)
        return found | {(node, 0)} if own_work(node) >= COSTLY_WORK else found

    # --- when it is computed ------------------------------------------------------------------------------------------
    def place(self):
        """Fills the groups: late, so that values do not wait in memory, but what shrinks data early."""
        last = len(self.calls)
        earliest, latest = {}, {}
        for node in self.graph.nodes:
            own = self.at[node] + 1 if node in self.at else 0
            earliest[node] = max([own, *(earliest.get(n, 0) for n in self.read_by(node))])
        for node in reversed(self.graph.nodes):
            limit = self.at.get(node, latest.get(node, last))
            for used in self.read_by(node):
                latest[used] = min(latest.get(used, last), limit)
        self.group, self.groups = {}, [[] for _ in range(last + 1)]
        reach: dict = {}  # the latest group among the kept values below
        for node in self.graph.nodes:
            first = max((reach.get(n, 0) for n in self.read_by(node)), default=0)
            if node in self.at:
                reach[node] = 0
            elif node in self.kept:
                wanted = earliest[node] if shrinks(node) else latest.get(node, last)
                self.group[node] = reach[node] = max(first, wanted)
                self.groups[self.group[node]].append(node)
            else:
                reach[node] = first

    def keep_spread(self) -> bool:
        """Keeps reductions that several groups would compute; returns whether there were any."""
        after = len(self.groups)  # where Stores are computed
        # node: first and last group that computes it
        spans: dict = {o.node: (after, after) for o in self.graph.outputs if isinstance(o, Store)}
        found = False
        for node in reversed(self.graph.nodes):
            own = spans.get(node)
            if node in self.kept:
                own = (self.group[node], self.group[node]) if node in self.group else None
            elif own and own[0] != own[1] and node.op.kind.name == "reduce":
                self.kept.add(node)
                found = True
            if own:
                for used in self.read_by(node):
                    low, high = spans.get(used, own)
                    spans[used] = min(low, own[0]), max(high, own[1])
        return found


def stored_alike(node: Node, readers) -> bool:
    """Whether all that reads a value is stored at the end by one kernel, whose stores share what they compute."""
    return all(isinstance(r, Store) and r.node.shape == node.shape for r in readers)


def moves(node: Node) -> bool:
    """Whether a node only moves elements: a concatenation, or a view that is neither a reshape nor a broadcast."""
    return node.op.kind.name == "join" or node.op.kind.name == "view" and node.op not in (P.reshape, P.expand)


def is_small(value: Node, reader: Node) -> bool:
    """Whether a value has far fewer elements than the node that reads it, as results of rows have."""
    return guess(product(value.shape)) * 4 < guess(product(reader.shape))


def overlapping(node: Node) -> bool:
    """Whether a view has an element at several positions, as windows of an image do. Broadcasting does not count."""
    return node.op.name in ("prims.unfold", "prims.strided") and product(node.shape) > product(node.args[0].shape)


def below_views(node: Node) -> Node:
    """What a chain of views is a view of."""
    while node.op is not None and node.op.kind.name == "view":
        node = node.args[0]
    return node


def shrinks(node: Node) -> bool:
    """Whether a value is a reduction, or computed from one by elementwise nodes and views: sums of gradients,
    losses."""
    while node.op is not None and node.op.kind.name in ("elementwise", "view"):
        node = next(iter(node.used), None)
        if node is None:
            return False
    return node.op is not None and node.op.kind.name == "reduce"


def bytes_of_work(node: Node) -> float:
    """How many bytes could be moved in the time that one element of a node takes to compute."""
    return own_work(node) * (0.25 if own_work(node) == 1 else 1)


def own_work(node: Node) -> int:
    """Operations for one element of a node."""
    if node.op.kind.name == "elementwise":
        return 0 if node.op.kind.passes else COSTLY_WORK if node.op.name.rpartition(".")[2] in COSTLY else 1
    return RANDOM_WORK if node.op is P.random_bits else 0
