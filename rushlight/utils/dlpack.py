"""Sharing memory with other libraries."""
from .._src.core.exchange import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor):
    """A capsule over a tensor's memory."""
    return tensor.__dlpack__()
