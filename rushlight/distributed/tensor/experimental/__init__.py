"""Functions on parts, and rules of users for operators."""
from ...._src.core.later import later

__getattr__ = later(__name__, {"_attention": ("context_parallel",), "_func_map": ("local_map",),
                               "_implicit": ("implicit_replication",),
                               "_register_sharding": ("register_sharding",)})
