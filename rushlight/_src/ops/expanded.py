"""Writes to some elements of a tensor with overlapping elements: an address takes a value that was written to any of
its elements."""
from __future__ import annotations

import warnings

from ..core.op import OPS


def write_changes(name: str, target, value):
    """Write the elements of ``value`` that differ from the target's, with a deprecation warning. Returns the target."""
    warnings.warn(
        f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before performing this "
        "operation. This also applies to advanced indexing "
        "e.g. tensor[indices] = tensor", stacklevel=4)
    changed = value != target
    for dim, (size, stride) in enumerate(zip(target._rush_meta.shape, target._rush_meta.strides)):
        if stride == 0 and size > 1:
            place = changed.int().argmax(dim, keepdim=True)
            value, changed = value.gather(dim, place), changed.gather(dim, place)
    memory = target
    for dim, size in enumerate(value.shape):
        memory = OPS["narrow"](memory, dim, 0, size)
    memory.copy_(value.to(target.dtype))
    return target
