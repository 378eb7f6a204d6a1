"""One buffer for the residuals that a forward program saves: the backward program places its temporaries over residuals
that it has read, so memory is released while it runs."""
from __future__ import annotations

from ..core.devices import preferred
from ..core.dtypes import uint8
from ..core.shape_env import guess
from ..core.kinds import P
from ..core.meta import Meta, dense_strides
from ..graph.graph import Graph, Node, map_nodes

ALIGNMENT = 64
WORTHWHILE = 1 << 20  # bytes from which values share a buffer


class ResidualBuffer:
    """``nodes``: the values that share the buffer; ``offsets``: the offset of each in bytes; ``meta``: the buffer as a
    uint8 tensor."""

    def __init__(self, nodes=()):
        self.nodes, self.offsets, size = list(nodes), [], 0
        for node in self.nodes:
            self.offsets.append(size)
            size += -(-dense(node.meta).nbytes // ALIGNMENT) * ALIGNMENT
        self.meta = Meta.of((size,), uint8, preferred())

    def __bool__(self):
        return bool(self.nodes)

    def opened(self, backward: Graph) -> tuple[Graph, int]:
        """The backward program with the buffer as one input instead of the residuals in it, and that input's number."""
        buffer = Node("residuals", None, meta=self.meta)
        made = {node: Node(f"{node.name}_kept", P.part, (buffer,), part_of(dense(node.meta), offset), dense(node.meta))
                for node, offset in zip(self.nodes, self.offsets)}
        opened = list(made.values())
        for node in backward.nodes:
            made[node] = Node(node.name, node.op, map_nodes(node.args, lambda n: made.get(n, n)), node.params,
                              node.meta, where=node.where)
        first = min(k for k, n in enumerate(backward.inputs) if n in made)
        inputs = [n for n in backward.inputs if n not in made]
        inputs.insert(first, buffer)
        nodes = opened + [made[n] for n in backward.nodes]
        return Graph(inputs, nodes, [made.get(n, n) for n in backward.outputs]), first


def worthwhile(extras) -> ResidualBuffer:
    """The ResidualBuffer of those extra outputs of a forward program that can share one; empty where that saves
    little."""
    found = ResidualBuffer(n for n in extras if n.op is not None)
    return found if len(found.nodes) > 1 and guess(found.meta.nbytes) >= WORTHWHILE else ResidualBuffer()


def part_of(meta: Meta, offset: int) -> dict:
    """The parameters of ``prims.part`` for a tensor that begins ``offset`` bytes into a buffer."""
    return {"shape": tuple(meta.shape), "strides": tuple(meta.strides), "dtype": meta.dtype, "offset": offset}


def dense(meta: Meta) -> Meta:
    """The metadata a result gets in memory of its own."""
    return meta if meta.contiguous or dense_strides(meta.shape, meta.strides) is not None else meta.like(
        tuple(meta.shape))
