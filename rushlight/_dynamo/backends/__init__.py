"""Registration and lookup of backends, under PyTorch's names."""
from . import common, registry

__all__ = ["common", "registry"]
