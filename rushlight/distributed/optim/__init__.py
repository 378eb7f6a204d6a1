"""Optimizers whose states are split over processes (docs/sharding.md)."""
from ..._src.core.later import later

__getattr__ = later(__name__, {"zero_redundancy_optimizer": ("ZeroRedundancyOptimizer",),
                               ".averaging": ("PostLocalSGDOptimizer",)})
