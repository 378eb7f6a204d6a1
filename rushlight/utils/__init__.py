"""Helpers around tensors: data loading, checkpoints."""
from ..core.later import later
from . import data

__all__ = ["checkpoint", "data"]


__getattr__ = later(__name__)
