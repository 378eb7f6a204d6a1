"""Autograd nodes that raise an error in the backward pass, or omit a gradient."""
from __future__ import annotations

from ..core.devices import on
from ..core.meta import Meta
from ..core.native import GradNode, Tensor, history, state
from ..core.native.objects import FUNCTION
from ..core.op import OPS
from ..core.tensor import alias


def full_of(meta: Meta, value) -> Tensor:
    """A tensor of this shape, dtype and device with one value throughout."""
    return OPS["_filled"](value, tuple(meta.shape), meta.dtype, *on(meta.device))


def following(tensors, name: str, function, edges=(), slots=()) -> tuple:
    """Make the tensors results of a node whose backward is ``function``; None stays None.  ``edges``, ``slots``:
    destinations of its further gradients."""
    node, found = GradNode(), [t if isinstance(t, Tensor) and t.dtype.is_inexact else None for t in tensors]
    node.kind, node.extra, node.function = FUNCTION, name, function
    node.edges = (*(None if t is None else history.edge(t) for t in found), *edges)
    node.slots = (*(0 if t is None else t._rush_output for t in found), *slots)
    node.outputs = tuple(None if t is None else t._rush_meta for t in found)
    state.sequence += 1
    node.number = state.sequence
    if state.anomaly:
        state.watch(node, None)
    made = []
    for k, tensor in enumerate(tensors):
        if found[k] is not None:
            tensor = alias(tensor)
            tensor._rush_grad_node, tensor._rush_output, tensor._rush_needs_grad = node, k, 1
        made.append(tensor)
    return tuple(made)


class DelayedError:
    """``DelayedError(message, count)(*tensors)``: tensors that raise RuntimeError if a gradient reaches them."""

    def __init__(self, message: str, num_inputs: int):
        self.message = message

    def __call__(self, *tensors):
        def refuse(*gradients):
            raise RuntimeError(self.message)

        made = following(tensors, "Error", refuse)
        return made[0] if len(made) == 1 else made


class UndefinedGrad:
    """``UndefinedGrad()(*tensors)``: tensors whose gradient does not arrive."""

    def __call__(self, *tensors):
        def nothing(*gradients):
            return (None,) * len(tensors)

        made = following(tensors, "UndefinedGradBackward", nothing)
        return made[0] if len(made) == 1 else made
