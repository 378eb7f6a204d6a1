"""Data pipes: datasets that are functions of others."""
from .datapipe import functional_datapipe
from . import iter, map  # noqa: A004 - PyTorch's names

__all__ = ["functional_datapipe", "iter", "map"]
