"""Data-dependent control flow, under the names of its first location: ``cond`` and ``map``."""
from ..._higher_order_ops import cond, map

__all__ = ["cond", "map"]
