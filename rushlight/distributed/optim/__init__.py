"""Optimizers whose states are split over processes (docs/sharding.md)."""
from ..._src.core.later import later

__getattr__ = later(__name__, {"zero_redundancy_optimizer": ("ZeroRedundancyOptimizer",),
                               "apply_optimizer_in_backward": ("_apply_optimizer_in_backward",
                                                               "_get_in_backward_optimizers"),
                               ".averaging": ("PostLocalSGDOptimizer",)})
