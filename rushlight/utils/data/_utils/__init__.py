"""Parts of the DataLoader, by PyTorch's private names."""
from . import collate, worker
from ....core.later import later

__all__ = ["collate", "worker"]
__getattr__ = later(__name__)
