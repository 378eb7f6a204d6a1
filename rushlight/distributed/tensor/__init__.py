"""Tensors over several processes (docs/sharding.md)."""
from ..._src.core.later import later

__getattr__ = later(__name__, {"placement_types": ("Placement", "Shard", "Replicate", "Partial"),
                               "_api": ("DTensor", "distribute_tensor", "ones", "empty", "full", "rand", "randn",
                                        "zeros"),
                               "_modules": ("distribute_module",),
                               "_dtensor_spec": ("DTensorSpec", "TensorMeta"),
                               ".device_mesh": ("DeviceMesh", "init_device_mesh")})
