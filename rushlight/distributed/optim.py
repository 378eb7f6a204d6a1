"""Optimizers over several processes: not here."""
from ..compat.absent import absent

globals().update(absent("torch.distributed.optim", "this build runs in one process", "DistributedOptimizer ZeroRedundancyOptimizer PostLocalSGDOptimizer"))
