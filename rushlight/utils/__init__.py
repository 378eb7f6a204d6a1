"""Helpers around tensors: data loading."""
from . import data

__all__ = ["data"]
