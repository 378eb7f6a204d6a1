"""Tensors as the examples of one nested tensor."""
from __future__ import annotations

from .._src.core import convert
from .._src.core.op import OPS
from .ragged import Ragged
from .tensor import Nested, made
from .uneven import Uneven, concatenate


def joined(parts, layout, dtype=None, device=None) -> Nested | Uneven:
    """Tensors as one nested tensor through which gradients reach them; ``dtype``, ``device``: of one without examples.
    """
    if layout not in (convert.strided, convert.jagged):
        raise RuntimeError(
            f"Specified layout is unsupported for nested tensors: {layout}; it is torch.jagged or torch.strided")
    is_strided = layout is convert.strided
    if not parts and is_strided:
        return concatenate([], dtype, device)
    if not parts:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list: pass at least one tensor")
    if any(x.is_nested for x in parts):
        raise RuntimeError("Cannot construct a nested tensor from nested tensors: pass their unbind()")
    rank = parts[0].dim()
    if not all(x.dim() == rank for x in parts):
        raise RuntimeError(
            "When constructing a nested tensor, all tensors in list must have the same dim; got "
            f"{[x.dim() for x in parts]}")
    if not rank and is_strided:
        return concatenate(parts)
    if not rank:
        raise RuntimeError(
            "Cannot construct a nested tensor from a list of zero-dim tensors: give each at least one dimension")
    differing = [d for d in range(rank) if len({x.size(d) for x in parts}) > 1]
    if len(differing) > 1:
        if is_strided:
            return concatenate(parts)
        shapes = [list(x.shape) for x in parts]
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged "
            "layout only allows for a single ragged "
            f"dimension, but these sizes differ in dimensions {differing}: {shapes}")
    at = differing[0] if differing else 0
    return made(OPS["cat"](parts, at), Ragged.of([x.size(at) for x in parts]), at + 1, layout)
