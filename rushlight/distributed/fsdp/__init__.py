"""Parameters sharded over data-parallel processes: each layer is full while it computes (docs/sharding.md)."""
from ..._src.core.later import later

__getattr__ = later(__name__, {
    "fully": ("fully_shard", "FSDPModule", "UnshardHandle", "register_fsdp_forward_method"),
    "policies": ("MixedPrecisionPolicy", "OffloadPolicy", "CPUOffloadPolicy"),
    "fully_sharded_data_parallel": ("FullyShardedDataParallel", "OptimStateKeyType"),
    "api": ("BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig",
            "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig",
            "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig",
            "StateDictSettings", "StateDictType")})
