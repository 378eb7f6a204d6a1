"""``DistributedDataParallel``, by its module."""
from . import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
