"""Sharded parameters: not here."""
from ..compat.absent import absent

globals().update(absent("torch.distributed.fsdp", "this build runs in one process", "FullyShardedDataParallel fully_shard FSDPModule CPUOffload CPUOffloadPolicy MixedPrecision "
                        "MixedPrecisionPolicy OffloadPolicy ShardingStrategy BackwardPrefetch StateDictType FullStateDictConfig ShardedStateDictConfig"))
