"""Modules split over processes: not here."""
from ...compat.absent import absent

globals().update(absent("torch.distributed.tensor.parallel", "this build runs in one process", "parallelize_module ColwiseParallel RowwiseParallel SequenceParallel PrepareModuleInput PrepareModuleOutput ParallelStyle loss_parallel"))
