"""Sharing memory with other libraries."""
from ..core.exchange import from_dlpack
from ..core.later import later

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor):
    """A capsule over a tensor's memory."""
    return tensor.__dlpack__()


__getattr__ = later(__name__)
