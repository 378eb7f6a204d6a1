"""Tensors over several processes: how they would be split can be written down; the tensors are not here yet."""
from ..._src.core.later import later

__getattr__ = later(__name__, {"placement_types": ("Placement", "Shard", "Replicate", "Partial")})
