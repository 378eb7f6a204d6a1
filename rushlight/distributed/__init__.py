"""Collective and point-to-point communication between processes (docs/distributed.md)."""
import os

from .._src.core.later import later

HOMES = {
    "membership": ("init_process_group", "destroy_process_group", "new_group", "new_subgroups",
                   "new_subgroups_by_enumeration", "split_group", "get_rank", "get_world_size", "get_backend",
                   "get_backend_config", "get_default_backend_for_device", "get_process_group_ranks", "get_global_rank",
                   "get_group_rank", "get_pg_count", "get_node_local_rank",
                   "rendezvous", "register_rendezvous_handler", "default_pg_timeout", "_resolve_process_group",
                   "_abort_process_group", "_set_pg_timeout"),
    "backends": ("Backend",),
    "debugging": ("DebugLevel", "get_debug_level", "set_debug_level", "set_debug_level_from_env"),
    "process_group": ("ProcessGroup",),
    "nccl.options": ("ProcessGroupNCCL",),
    "worlds": ("GroupMember", "group"),
    "stores": ("Store", "HashStore", "FileStore", "PrefixStore", "DistError", "DistStoreError", "DistBackendError",
               "DistNetworkError", "QueueEmptyError"),
    "tcp_store": ("TCPStore",),
    "reduction": ("ReduceOp", "reduce_op", "supports_complex", "_make_nccl_premul_sum"),
    "works": ("Work",),
    ".nn.parallel.distributed": ("GradBucket",),
    "collectives": ("all_reduce", "all_reduce_coalesced", "broadcast", "reduce", "all_gather", "all_gather_coalesced",
                    "all_gather_into_tensor", "all_gather_single", "gather", "scatter",
                    "reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single", "all_to_all",
                    "all_to_all_single", "barrier", "monitored_barrier", "all_gather_object",
                    "gather_object", "broadcast_object_list", "scatter_object_list", "send", "recv", "isend", "irecv",
                    "send_object_list", "recv_object_list", "P2POp",
                    "batch_isend_irecv", "_all_gather_base", "_reduce_scatter_base", "_coalescing_manager",
                    "_get_default_group", "_rank_not_in_group", "_get_default_store"),
}


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    """True if ``init_process_group`` has been called."""
    import sys
    worlds = sys.modules.get(f"{__name__}.worlds")
    return worlds is not None and worlds.here().default is not None


def is_torchelastic_launched() -> bool:
    """True if a launcher started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def is_backend_available(backend: str) -> bool:
    """True if groups of a backend can be made."""
    from .backends import available
    return available(backend)


def is_gloo_available() -> bool:
    return True


def is_nccl_available() -> bool:
    """True if NVIDIA's NCCL is installed (``pip install rushlight[nccl]``)."""
    return is_backend_available("nccl")


def is_mpi_available() -> bool:
    """True if mpi4py is installed (``pip install rushlight[mpi]``)."""
    return is_backend_available("mpi")


def is_ucc_available() -> bool:
    return False


is_xccl_available = is_ucc_available
__getattr__ = later(__name__, HOMES)
