"""Parts of the DataLoader, by PyTorch's private names."""
from . import collate, worker

__all__ = ["collate", "worker"]
