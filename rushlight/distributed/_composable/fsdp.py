"""Sharded parameters under their former name: not here."""
from ...compat.absent import absent

globals().update(absent("torch.distributed._composable.fsdp", "this build runs in one process", "fully_shard FSDPModule MixedPrecisionPolicy CPUOffloadPolicy OffloadPolicy"))
