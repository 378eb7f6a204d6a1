"""Saved values that users may write before the backward pass: nodes get copies when that is about to happen.

A derivative may read other values than PyTorch's, such as an argument instead of the result.  An operator declares by
the trait "overwritable" which ones; a write to the others makes the backward pass raise, as in PyTorch.  Holders of
values whose versions are not checked (hooks that keep their arguments, checkpoints) get copies of all.
"""
from __future__ import annotations

from ..core.interpret import Unwatched, recording
from ..core.native import GradNode, Storage, Tensor, counter, history
from ..core.native.hooks import connect
from ..core.op import OPS
from ..core.overriding import DisableTorchFunction
from .saved import Unpacking, linked


def copy_lent(storage: Storage):
    """Copy saved values of this storage that users may write, for the nodes that saved them and other holders."""
    references, storage.lent = storage.lent, None
    copies: dict = {}
    for found in {reference() for reference in references} - {None}:
        if isinstance(found, GradNode):
            give_copies(found, storage, copies)
        else:
            found.take_copies(storage, lambda value: copy_of(value, copies))


def give_copies(node: GradNode, storage: Storage, copies: dict):
    """Replace a node's saved values that users may write, that are unmodified and have this storage; ``copies``: those
    that other nodes have received."""
    holder = node.function if isinstance(node.function, Unpacking) else node
    if holder.saved is None or node.plan is None:
        return
    saved, versions = list(holder.saved), list(holder.versions)
    for place in node.plan.lent:
        value = saved[place]
        if isinstance(value, Tensor) and value._rush_storage is storage and counter(value).version == versions[place]:
            saved[place] = copy_of(value, copies)
            versions[place] = counter(saved[place]).version
    holder.saved, holder.versions = type(holder.saved)(saved), tuple(versions)


def copy_of(value: Tensor, copies: dict) -> Tensor:
    """Copy a tensor with its history, once for each tensor."""
    if id(value) not in copies:
        with Unwatched(), recording(False), DisableTorchFunction():
            copy = OPS["clone"](value)
        copy._rush_output = value._rush_output
        edge = history.edge(value) if value._rush_needs_grad else None
        copies[id(value)] = (copy if edge is None else linked(copy, edge, value._rush_output)), value
    return copies[id(value)][0]


connect("_src/autograd/lending.py", copy_lent=copy_lent)
