"""How a tensor is split: not here."""
from ...compat.absent import absent

globals().update(absent("torch.distributed.tensor.placement_types", "this build runs in one process", "Placement Partial Replicate Shard _StridedShard"))
