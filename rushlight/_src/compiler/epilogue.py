"""Epilogues: elementwise nodes that a contraction's template applies to its accumulators before they are stored.

An epilogue grows node by node as long as no more tensors are materialized than without it. Its other operands are
computed before the contraction runs: scalars, vectors along the columns or the rows of a matmul or the channels of a
convolution, and tensors of the same shape.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from ..core.dtypes import bool_
from ..core.kinds import P
from ..core.meta import product
from ..graph.graph import Graph, Node, Store
from ..graph.views import in_memory, is_part, operands, through_views
from ..ops import prims  # noqa: F401 - declares the primitives named below
from .lower import Reader, stands_alone
from .schedule import own_work
from .target import Operand, Stored, Target, leaf

# whose last dimension is that of output features
COLUMNS = (P.matmul, P.int_matmul, P.byte_matmul, P.int_conv, P.conv_last, P.conv_last_input)
MOST_NODES = 48     # of an epilogue
MOST_OPERANDS = 10  # tensors that it reads
MOST_AGAIN = 6      # operations that are computed elsewhere too


@dataclass
class FusedEpilogue:
    """``stored``: the materialized nodes, the template's own output first; ``reads``: {other operand: the dimension
    along which it varies}."""

    stored: tuple
    inside: frozenset = frozenset()
    reads: dict = field(default_factory=dict)

    def __str__(self):
        return f"{len(self.inside) - 1} operations after it, reading {', '.join(self.reads.values()) or 'nothing'}"

    def emitted(self, contraction: Node, output: str, target: Target):
        """(the computation of the target's template, the names of its operands and further outputs: {name: node})."""
        if not self.inside:
            return target.epilogue(None, (), (output, self.stored[0].dtype), (), None), {}
        reader, names, given = Reader(Graph()), {}, []
        reader.places[contraction] = sums = leaf("sums", contraction.dtype)
        for k, (node, along) in enumerate(self.reads.items()):
            names[f"e{k}"] = node
            reader.places[node] = leaf(f"e{k}", node.dtype)
            given.append(Operand(f"e{k}", node.dtype, along))
        values = [reader.read(node, (0,) * len(node.shape)) for node in self.stored]
        further = [Stored(f"s{k}", node.dtype, value)
                   for k, (node, value) in enumerate(zip(self.stored[1:], values[1:]))]
        names.update((f"s{k}", node) for k, node in enumerate(self.stored[1:]))
        return target.epilogue(values[0], tuple(given), (output, self.stored[0].dtype), tuple(further), sums), names


class Epilogues:
    """Finds the epilogues of a program's contractions; ``calls`` in order."""

    def __init__(self, graph: Graph, users: dict, calls: list):
        self.users, self.results = users, set(graph.result_nodes())
        # stored into inputs after the last read of those
        self.written = {o.node for o in graph.outputs if isinstance(o, Store)}
        self.order = {node: k for k, node in enumerate(graph.nodes)}
        number = {node: k + 1 for k, node in enumerate(calls)}
        self.reach: dict = {}  # how many calls must have run before a value is there
        for node in graph.nodes:
            self.reach[node] = number.get(node) or max((self.reach.get(n, 0) for n in node.used), default=0)
        self.wanted = operands(graph.nodes) | {through_views(o) for o in self.results}
        self.there = {n for n in graph.nodes if n in number or is_part(n)
                      or n.op.kind.name in ("scan", "scatter", "reduce")} | set(graph.inputs)

    def of(self, contraction: Node) -> FusedEpilogue:
        """The longest epilogue that costs no more memory than none."""
        inside, best, queue = {contraction}, FusedEpilogue((contraction,)), set(self.users.get(contraction, ()))
        while queue and len(inside) < MOST_NODES:
            node = min(queue, key=self.order.__getitem__)
            queue.discard(node)
            if not self.joins(node, contraction, inside):
                continue
            inside.add(node)
            queue.update(n for n in self.users.get(node, ()) if n not in inside)
            found = self.fused(contraction, inside)
            best = found or best
        self.there.update(best.stored)
        return best

    def joins(self, node: Node, contraction: Node, inside: set) -> bool:
        """True if a node can be computed from an epilogue and values available before the contraction."""
        shaped = node.op is P.reshape or node.op.kind.name == "elementwise" and not stands_alone(node)
        if not shaped or node in self.written or product(node.shape) != product(contraction.shape):
            return False
        return all(n in inside or self.along(n, node, contraction) for n in node.used)

    def along(self, operand: Node, node: Node, contraction: Node) -> str:
        """The dimension along which an operand of an epilogue varies, as templates name it: "one" scalar for all, one
        for each "row", "column" or "element"; "" if a template cannot read it."""
        if self.reach.get(operand, 0) >= self.reach[contraction] or not operand.dtype.has_kernels:
            return ""
        if operand.weak:
            return ""
        if product(operand.shape) == 1:
            return "one"
        shape = (1,) * (len(node.shape) - len(operand.shape)) + tuple(operand.shape)
        if product(shape) == product(node.shape):
            return "element" if lies_in_rows(operand) else ""
        if contraction.op in COLUMNS:
            found = node.shape[-1] == contraction.shape[-1] == product(shape) == shape[-1]
            if found:
                return "column" if lies_in_rows(operand) else ""
            found = len(contraction.shape) == 2 and node.shape[-1] == contraction.shape[-1] and shape == (
                *node.shape[:-1], 1)
            return "row" if found and lies_in_rows(operand) else ""
        found = tuple(node.shape) == tuple(contraction.shape) and product(shape) == shape[1] == node.shape[1]
        return "row" if found and lies_in_rows(operand) else ""

    def fused(self, contraction: Node, inside: set) -> FusedEpilogue | None:
        """The FusedEpilogue of these nodes, unless it stores more, or makes others store more, than its contraction
        alone."""
        shown = [owner(n) for n in inside if n in self.results or any(u not in inside for u in self.users.get(n, ()))]
        stored = sorted(set(shown), key=lambda n: -self.order[n])
        extra = [n for n in stored if n not in self.wanted]
        if len(extra) > 1 or any(n.dtype.itemsize > contraction.dtype.itemsize
                                 for n in extra) or stored == [contraction]:
            return None
        own = next((n for n in stored if n.dtype is contraction.dtype), None)
        if own is None and contraction.op not in COLUMNS:
            return None
        first = own or stored[0]
        if first.dtype is bool_:  # a template's own result is numeric; masks are stored separately
            return None
        absorbed = self.absorbed(contraction, inside)
        whole = inside | absorbed
        reads = {}
        for node in sorted(whole - {contraction}, key=self.order.__getitem__):
            for n in node.used:
                if n not in whole:
                    reads[n] = self.along(n, node, contraction)
        if len(reads) > MOST_OPERANDS or any(along == "element" and not self.in_memory(n)
                                             for n, along in reads.items()):
            return None
        return FusedEpilogue((first, *(n for n in stored if n is not first)), frozenset(whole), reads)

    def absorbed(self, contraction: Node, inside: set) -> set:
        """Elementwise nodes that an epilogue reads and computes itself: those without other readers, and a few cheap
        ones that are computed elsewhere too."""
        found: set = set()
        again = MOST_AGAIN
        queue = [n for node in inside - {contraction} for n in node.used]
        while queue:
            node = max(queue, key=lambda n: self.order.get(n, -1))
            queue = [n for n in queue if n is not node]
            if node in inside or node in found or self.in_memory(
                    node) or node.op.kind.name != "elementwise" or stands_alone(node):
                continue
            if product(node.shape) != product(contraction.shape) or not all(self.along(n, node, contraction)
                                                                            for n in node.used):
                continue
            alone = all(u in inside or u in found for u in self.users[node])
            if alone or own_work(node) <= again:
                again -= 0 if alone else own_work(node)
                found.add(node)
                queue += node.used
        return found

    def in_memory(self, node: Node) -> bool:
        """True if a value is in memory before the contraction runs, whichever nodes are fused."""
        root = through_views(node)
        if root in self.there or root in self.wanted:
            return True
        large = [n for n in root.used if product(n.shape) == product(root.shape)]
        # a sum of a residual network
        return root.op.kind.name == "elementwise" and len(self.users.get(root, ())) > 1 and len(large) > 1


def owner(node: Node) -> Node:
    """The elementwise node or contraction at the base of a chain of reshapes."""
    while node.op is P.reshape:
        node = node.args[0]
    return node


def lies_in_rows(node: Node) -> bool:
    """True if a value, or the base of its views, is stored in the value's own row-major order."""
    path = []
    while node.op is not None and node.op.kind.name == "view":
        path.append(node)
        node = node.args[0]
    meta = in_memory(node)
    for step in reversed(path):
        found = step.op.kind.strided(step.op, meta, **step.params)
        if found is None:
            return False
        meta = found[0]
    return meta.contiguous
