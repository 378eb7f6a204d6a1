"""Places of a program's values: the value, a byte offset in it, and the Meta through which it is seen."""
from __future__ import annotations

from ..core.kinds import P
from ..core.meta import Meta
from ..graph.graph import Node
from ..ops import prims  # noqa: F401 - declares the primitives named below

FLAG = "flag"
IN_MEMORY = (P.half, P.complex)  # complex values in memory, stored part by part


class Temporary:
    """A value of ``nbytes`` bytes in the arena, alive from the first to the last step that names it."""

    def __init__(self, nbytes):
        self.nbytes = nbytes


class Place:
    """The place of a value: a value of the program and a byte offset, seen through a Meta."""

    __slots__ = ("value", "meta", "offset")

    def __init__(self, value, meta: Meta, offset=0):
        self.value, self.meta, self.offset = value, meta, offset


def components(node: Node, place: Place):
    """The parts of a complex value, each with where it goes: among those of the other."""
    for which, part in enumerate(node.args):
        meta, offset = P.half.kind.strided(P.half, place.meta, which)
        yield part, Place(place.value, meta, place.offset + offset * meta.itemsize)


def shown_as(node: Node, root: Node, meta: Meta) -> Meta:
    """The Meta of a view of ``root``, whose memory is seen through ``meta``."""
    if node is root:
        return meta
    found = node.op.kind.strided(node.op, shown_as(node.args[0], root, meta), **node.params)
    return found and found[0]
