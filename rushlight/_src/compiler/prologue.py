"""Prologues: elementwise nodes that a contraction's template computes while it packs an operand, if only contractions
read their result.

Such an operand is not materialized. Its inputs (the leaves) may be broadcast, transposed or otherwise be a view that
strides can express; all of them are in memory before the contraction runs.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from ..core.shape_env import guess
from ..core.kinds import P
from ..core.meta import Meta, product, same
from ..graph.graph import Graph, Node, Store
from ..graph.views import in_memory, is_part
from .lower import Reader, same_shape, stands_alone
from .schedule import below_views, bytes_of_work
from .target import Target, leaf

MOST_NODES = 24  # of a prologue
MOST_LEAVES = 6  # tensors that it reads
MOST_DIMENSIONS = 5  # of an operand of a product
LEAST_BYTES = 1 << 20  # of an operand: smaller ones stay in the L2 cache, and separate kernels cost more
NARROWER = 2   # exception: this many times fewer bytes are read, once and unpacked: int8 weights, few rows
LEAST_ROWS = 128  # of a matrix of a batch, where one with all rows could be multiplied instead
SMALL = 4        # a value this many times smaller than the operand is computed beforehand
WRITTEN = 2      # bytes moved per byte written: memory is fetched before it is overwritten
# cost of rounding an element to 16 bits, in bytes moved; matmuls of more than FEW rows need rounded operands
ROUNDED = 3
FEW = 16
STREAMED = 4     # rows up to which matmuls read a matrix without packing on every CPU
WHOLE = 2        # the same for converting an integer
UNSURE = 1.25    # gains that are estimated smaller are left alone


@dataclass
class FusedPrologue:
    """``operand`` computed from ``reads``: for each leaf the views, outermost first, through which the operand shows
    it."""

    operand: Node
    inside: frozenset
    reads: dict = field(default_factory=dict)

    def __str__(self):
        return f"{len(self.inside)} operations before it, reading {', '.join(str(node.meta) for node in self.reads)}"

    def emitted(self, target: Target):
        """The expression that the target's template computes where it packs the operand."""
        reader, leaves = Reader(Graph()), []
        for k, node in enumerate(self.reads):
            reader.places[node] = found = leaf(f"e{k}", node.dtype)
            leaves.append(found)
        return target.prologue(reader.read(self.operand, (0,) * len(self.operand.shape)), tuple(leaves))


def shown(meta: Meta, views):
    """(Meta, offset in elements) of memory seen through views (or, broadcast, in larger shapes), outermost first; None
    where strides cannot tell it."""
    total = 0
    for view in reversed(views):
        op, params = (view.op, view.params) if isinstance(view, Node) else (P.expand, {"shape": view})
        found = op.kind.strided(op, meta, **params)
        if found is None:
            return None
        meta, offset = found
        total = total + offset
    return meta, total


def is_rows(reshape: Node) -> bool:
    """True if a matrix has the rows of a tensor of a few more dimensions."""
    shape = reshape.args[0].shape
    return 2 < len(shape) <= MOST_DIMENSIONS and same(shape[-1], reshape.shape[-1]) and guess(
        product(shape[-3:-1])) >= LEAST_ROWS


class Prologues:
    """Finds the prologues of a program's contractions.

    ``calls``: {node: its FusedEpilogue}; ``packings(node, number)`` returns how often a template packs each element of
    an operand, 0 if it cannot compute a prologue for it.
    """

    def __init__(self, graph: Graph, users: dict, calls: dict, packings):
        self.users, self.calls, self.packings = users, calls, packings
        self.stored = {n for fused in calls.values() for n in fused.stored}
        self.within = {n for fused in calls.values() for n in fused.inside} - self.stored
        self.kept = {*graph.result_nodes(), *(o.node for o in graph.outputs if isinstance(o, Store))}
        self.kept.update(n for fused in calls.values() for n in fused.reads)
        self.reduced = {node.args[0] for node in graph.nodes if node.op.kind.name == "reduce"
                        and 0 not in node.params["dims"]}
        self.found: dict = {}  # operand's root: FusedPrologue or None

    def of(self, contraction: Node) -> dict:
        """{number of an argument: its FusedPrologue}."""
        prologues = {k: self.prologue(operand) for k, operand in enumerate(contraction.args)}
        left = contraction.args[0]
        if prologues[0] is None and contraction.op is P.matmul and len(
                contraction.shape) == 2 and left.op is P.reshape and is_rows(left):
            prologues[0] = self.prologue(left.args[0])  # rows that strides cannot tell as one dimension
        return {k: prologue for k, prologue in prologues.items() if prologue is not None}

    def prologue(self, operand: Node) -> FusedPrologue | None:
        """The FusedPrologue that computes an operand, if that takes less time than to store and read it."""
        if operand not in self.found:
            self.found[operand] = self.find(operand)
        return self.found[operand]

    def find(self, operand: Node) -> FusedPrologue | None:
        root = below_views(operand)
        if root.op is None or root.op.kind.name != "elementwise" or self.lies(root):
            return None
        readers = self.readers(root)
        if readers is None or not all(times for times, *_ in readers):
            return None
        prologue = FusedPrologue(operand, frozenset())
        inside: set = set()
        if not self.expand(operand, (), prologue,
                           inside) or not 0 < len(prologue.reads) <= MOST_LEAVES or len(inside) > MOST_NODES:
            return None
        prologue.inside = frozenset(inside)
        return prologue if self.pays(prologue, root, readers) else None

    def readers(self, root: Node):
        """For each contraction that reads a value: how often it packs it, whether it needs values rounded to 16 bits,
        and whether it reads them unpacked, for very few rows. None if the value has another reader."""
        found, queue = [], [root]
        while queue:
            node = queue.pop()
            if node in self.kept:
                return None
            for user in self.users.get(node, ()):
                if user.op.kind.name == "view":
                    queue.append(user)
                elif user in self.calls:
                    rows = guess(user.shape[-2]) if user.op is P.matmul else FEW + 1
                    found += [(self.packings(user, k), rows > FEW or k == 0, rows <= STREAMED and k == 1)
                              for k, arg in enumerate(user.args) if arg is node]
                else:
                    return None
        return found

    def lies(self, node: Node) -> bool:
        """True if a value is in memory whichever prologues are fused."""
        if node.op is None:
            return not node.weak
        return node in self.stored or node in self.kept or is_part(node) or node.op is P.part or node.op.kind.name in (
            "reduce", "scan", "scatter")

    def expand(self, node: Node, views, prologue: FusedPrologue, inside: set) -> bool:
        """Add the inputs of a node, seen through views; True if all of them can be read."""
        if self.lies(node) or node.op is not None and node.op.kind.name == "elementwise" and self.small(
                node, prologue.operand):
            return self.reads(node, views, prologue)
        if node.op is P.full:
            return isinstance(node.params["value"], (bool, int, float))
        if node.op is None or node in self.within or len(inside) > MOST_NODES:
            return False
        if node.op.kind.name == "view":
            return self.expand(node.args[0], (*views, node), prologue, inside)
        if node.op.kind.name != "elementwise" or stands_alone(node) or node.dtype.is_complex:
            return False
        inside.add(node)
        return all(self.expand(n, views if same_shape(n.shape, node.shape) else (*views, tuple(node.shape)), prologue,
                               inside) for n in node.used)

    def small(self, node: Node, operand: Node) -> bool:
        """True if a value is much smaller than the operand, and needs operations that are better done once."""
        return bytes_of_work(node) > 0 and guess(product(node.shape)) * SMALL <= guess(product(operand.shape))

    def reads(self, node: Node, views, prologue: FusedPrologue) -> bool:
        """Adds a leaf, unless strides cannot express how the operand is a view of it, or it is read through two
        different views."""
        if node.weak or node.dtype.is_complex or prologue.reads.setdefault(node, views) != views:
            return False
        return shown(in_memory(node), views) is not None

    def pays(self, prologue: FusedPrologue, root: Node, readers) -> bool:
        """True if a prologue costs less than to store and read the operand. Both are counted in bytes moved for each
        element of the operand; an operation counts as the bytes that could be moved in its time. A value that several
        contractions read is recomputed only if that costs less than reading it."""
        size, own = guess(product(prologue.operand.shape)), root.dtype.itemsize
        times, rounds = sum(n for n, *_ in readers), root.dtype.is_half and any(rounds for _, rounds, _ in readers)
        leaves = {n: n.dtype.itemsize * min(1, guess(product(n.shape)) / max(1, size)) for n in prologue.reads}
        streams = times == 1 and all(few for *_, few in readers) and NARROWER * sum(leaves.values()) <= own
        if size * own < LEAST_BYTES and not streams:
            return False
        work = sum(map(bytes_of_work, prologue.inside))
        # in the kernel that reduces its rows
        read_anyway = sum(bytes_ for n, bytes_ in leaves.items() if n in self.reduced)
        written = sum(leaves.values()) - read_anyway + work + WRITTEN * own + times * own
        once = sum(leaves.values()) + work + ROUNDED * rounds + WHOLE * sum(not n.dtype.is_floating_point
                                                                            for n in leaves)
        return times * once * UNSURE < written and (times == 1 or once <= own)
