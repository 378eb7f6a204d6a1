"""Control flow that data decide, under the names of its first place: ``cond`` and ``map``."""
from ..._higher_order_ops import cond, map

__all__ = ["cond", "map"]
