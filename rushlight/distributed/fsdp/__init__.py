"""Parameters split over processes that train alike: each layer is whole while it computes (docs/sharding.md)."""
from ..._src.core.later import later

__getattr__ = later(__name__, {"fully": ("fully_shard", "FSDPModule", "UnshardHandle", "register_fsdp_forward_method"),
                               "policies": ("MixedPrecisionPolicy", "OffloadPolicy", "CPUOffloadPolicy")})
