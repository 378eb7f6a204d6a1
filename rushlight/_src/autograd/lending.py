"""Saved values that users may write before the backward pass: nodes get copies when that is about to happen.

A derivative may read other values than PyTorch's, such as an argument instead of the result.  An operator declares by
the trait "overwritable" which ones; a write to the others makes the backward pass raise, as in PyTorch.
"""
from __future__ import annotations

from ..core.interpret import Unwatched, recording
from ..core.native import GradNode, Storage, Tensor, counter, history
from ..core.native.hooks import connect
from ..core.op import OPS
from ..core.overriding import DisableTorchFunction
from .saved import Packed, Unpacking, linked


def copy_lent(storage: Storage):
    """Gives the nodes that saved values of this memory, which users may write, copies of these."""
    references, storage.lent = storage.lent, None
    copies: dict = {}
    for node in {reference() for reference in references} - {None}:
        holder = node.function if isinstance(node.function, Unpacking) else node
        if holder.saved is not None and node.plan is not None:
            give_copies(holder, node.plan.lent, storage, copies)


def give_copies(holder: GradNode | Unpacking, places, storage: Storage, copies: dict):
    """Replaces saved values at some places that are as they were saved and have this memory; ``copies``: those that
    other nodes have got."""
    saved, versions = list(holder.saved), list(holder.versions)
    for place in places:
        value = saved[place]
        if isinstance(value, Packed):  # by a hook that keeps what it is given
            if isinstance(value.value, Tensor) and value.value._storage is storage:
                value.value = copy_of(value.value, copies)
        elif value._storage is storage and counter(value).version == versions[place]:
            saved[place] = copy_of(value, copies)
            versions[place] = counter(saved[place]).version
    holder.saved, holder.versions = type(holder.saved)(saved), tuple(versions)


def copy_of(value: Tensor, copies: dict) -> Tensor:
    """A copy of a tensor with its history, one for each tensor."""
    if id(value) not in copies:
        with Unwatched(), recording(False), DisableTorchFunction():
            copy = OPS["clone"](value)
        copy._output = value._output
        edge = history.edge(value) if value._needs_grad else None
        copies[id(value)] = (copy if edge is None else linked(copy, edge, value._output)), value
    return copies[id(value)][0]


connect("_src/autograd/lending.py", copy_lent=copy_lent)
