"""User-defined operators that are functions of others by their definition (CompositeImplicitAutograd)."""
from __future__ import annotations

from .._ops import OpOverload, ops

COMPOSITE = "CompositeImplicitAutograd"


class ImplicitDecomposition:
    """The function of simpler operators by which a user-defined operator is defined, with the operator's arguments."""

    def __init__(self, custom):
        self.custom = custom

    def __call__(self, *args, **kwargs):
        given = list(self.custom.arguments(args, kwargs).values())
        return self.custom.python(self.custom.rules.kernels[COMPOSITE], given)

    def __eq__(self, other):
        return isinstance(other, ImplicitDecomposition) and self.custom is other.custom

    def __hash__(self):
        return hash(self.custom)


def find_decomposition(overload) -> ImplicitDecomposition | None:
    """Return the function by which an overload is defined; None for one with kernels of its own."""
    custom = getattr(overload.overloadpacket, "custom", None) if isinstance(overload, OpOverload) else None
    return ImplicitDecomposition(custom) if custom is not None and COMPOSITE in custom.rules.kernels else None


def is_preservable(custom) -> bool:
    """True if calls of an operator can be kept in a program without writes: it mutates nothing, and its results share
    no memory with its arguments."""
    return not custom.schema.mutated and "(" not in custom.schema.returns.strip("()")


def list_implicit_decompositions() -> dict:
    """Return {overload: function} of the operators that programs have defined and that can be kept."""
    found = {}
    for namespace in list(ops.namespaces.values()):
        for packet in [one for first in namespace.packets.values() if getattr(first, "custom", None)
                       for one in (first, *first.siblings.values())]:
            overload = packet.overload(packet.label)
            function = find_decomposition(overload)
            if function is not None and is_preservable(packet.custom):
                found[overload] = function
    return found
