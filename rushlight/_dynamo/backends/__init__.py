"""How backends are written and found, under PyTorch's names."""
from . import common, registry

__all__ = ["common", "registry"]
