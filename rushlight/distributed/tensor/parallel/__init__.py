"""Modules over several processes: each parameter split as its layer computes (docs/sharding.md)."""
from ...._src.core.later import later

__getattr__ = later(__name__, {"api": ("parallelize_module",), "loss": ("loss_parallel",),
                               "style": ("ParallelStyle", "ColwiseParallel", "RowwiseParallel", "SequenceParallel",
                                         "PrepareModuleInput", "PrepareModuleOutput",
                                         "PrepareModuleInputOutput")})
