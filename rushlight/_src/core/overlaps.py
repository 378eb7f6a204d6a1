"""Memory overlap of tensors."""
from __future__ import annotations

from .errors import OverlapError
from .meta import Meta, dense_strides, is_one
from .native import Tensor
from .targets import is_expanded
from .tensor import place

APART, SAME, PARTLY, UNKNOWN = "apart", "same", "partly", "unknown"


def overlap(a: Tensor, b: Tensor) -> str:
    """The overlap of the elements of two tensors: none, identical, partial, or unknown without comparing single
    elements."""
    if not a._rush_meta.numel or not b._rush_meta.numel:
        return APART
    first, second = span_of(a), span_of(b)
    if first[0] >= second[1] or second[0] >= first[1]:
        return APART
    if any(dense_strides(x._rush_meta.shape, x._rush_meta.strides) is None for x in (a, b)):
        return UNKNOWN
    # as PyTorch sees it
    alike = len(a._rush_meta.shape) == len(b._rush_meta.shape) and moving(a._rush_meta) == moving(b._rush_meta)
    return SAME if first == second and alike else PARTLY


def inner_overlap(tensor: Tensor) -> int:
    """The overlap of a tensor's elements with one another: 0 none, 1 some, 2 unknown from sizes and strides alone."""
    meta = tensor._rush_meta
    if not meta.numel or dense_strides(meta.shape, meta.strides) is not None:
        return 0
    return 1 if is_expanded(meta) else 2


def moving(meta: Meta):
    """Sizes and strides of the dimensions that have more than one element."""
    return [(size, stride) for size, stride in zip(meta.shape, meta.strides) if not is_one(size)]


def span_of(tensor: Tensor):
    """The addresses from the first byte of a tensor to behind its last."""
    start = place(tensor)
    return start, start + tensor._rush_meta.nbytes


def refuse_shared(name: str, target: Tensor, *read):
    """OverlapError where a tensor that an operator reads elsewhere than it writes shares memory with the target."""
    memory = target._rush_storage
    for tensor in read:
        if (isinstance(tensor, Tensor) and memory is not None and tensor._rush_storage is memory
                and overlap(target, tensor) in (SAME, PARTLY)):
            raise OverlapError(
                f"{name}: unsupported operation: some elements of the input tensor and the written-to tensor refer to "
                "a single memory location", "inputs apart from what is written", "clone() the input first")
