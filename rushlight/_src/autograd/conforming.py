"""Gradients of outputs whose tensors changed metadata after they were recorded."""
from __future__ import annotations

from ..core.native import GradNode, Tensor
from ..core.op import OPS
from .node import class_name


def conform(producer: GradNode | None, node: GradNode, slot: int, gradient: Tensor | None):
    """Return the gradient of a result of ``node`` with the shape and dtype that the result had: summed over dimensions
    along which that is broadcast.  RuntimeError for any other shape.

    ``producer`` is the node that computed the gradient, or None for one that a backward pass begins with.
    """
    meta = node.expected.get(slot)
    if meta is None or gradient is None:
        return gradient
    if tuple(gradient.shape) != tuple(meta.shape):
        if not is_broadcast(tuple(meta.shape), tuple(gradient.shape)):
            raise RuntimeError(
                f"{described(producer, node, slot)} - got {list(gradient.shape)} but expected shape compatible with "
                f"{list(meta.shape)}: the shape of the tensor was changed in place without being recorded")
        gradient = OPS["sum_to_size"](gradient, tuple(meta.shape))
    if gradient.is_complex() and not meta.dtype.is_complex:
        gradient = gradient.real
    return gradient if gradient.dtype is meta.dtype.shown else gradient.to(meta.dtype.shown)


def is_broadcast(shape: tuple, larger: tuple) -> bool:
    """True if a tensor of one shape expands to the other."""
    own = larger[len(larger) - len(shape):]
    return len(shape) <= len(larger) and all(a in (1, b) for a, b in zip(shape, own))


def described(producer: GradNode | None, node: GradNode, slot: int) -> str:
    """Beginning of the error for a gradient that does not fit."""
    if producer is None:
        return "invalid gradient at index 0"
    index = list(zip(producer.edges, producer.slots)).index((node, slot))
    return f"Function {class_name(producer)} returned an invalid gradient at index {index}"
