"""Tensors over several processes: not here."""
from ...compat.absent import absent

globals().update(absent("torch.distributed.tensor", "this build runs in one process", "DTensor Placement Partial Replicate Shard distribute_tensor distribute_module DeviceMesh distribute_parameter empty full ones rand randn zeros"))
