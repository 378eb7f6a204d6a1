"""Several processes: a group has one.  Its collectives work, so that programs for any number run; a larger group is refused (error 1002)."""
import os

from .._src.core.later import later

HOMES = {
    "membership": ("init_process_group", "destroy_process_group", "new_group", "new_subgroups", "new_subgroups_by_enumeration", "get_rank", "get_world_size", "get_backend",
              "get_backend_config", "get_default_backend_for_device", "get_process_group_ranks", "get_global_rank", "get_group_rank", "get_pg_count", "get_node_local_rank",
              "rendezvous", "register_rendezvous_handler", "Backend", "ProcessGroup", "GroupMember", "group", "default_pg_timeout"),
    "stores": ("Store", "HashStore", "FileStore", "TCPStore", "PrefixStore", "DistError", "DistStoreError", "DistBackendError", "DistNetworkError", "QueueEmptyError"),
    ".nn.parallel.distributed": ("GradBucket",),
    "collectives": ("all_reduce", "all_reduce_coalesced", "broadcast", "reduce", "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_single", "gather", "scatter",
                    "reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single", "all_to_all", "all_to_all_single", "barrier", "monitored_barrier", "all_gather_object",
                    "gather_object", "broadcast_object_list", "scatter_object_list", "send", "recv", "isend", "irecv", "send_object_list", "recv_object_list", "P2POp",
                    "batch_isend_irecv", "ReduceOp", "Work", "supports_complex", "_all_gather_base", "_reduce_scatter_base", "_coalescing_manager", "_get_default_group",
                    "_rank_not_in_group", "_get_default_store", "_resolve_process_group"),
}


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    """Whether ``init_process_group`` has been called."""
    import sys
    membership = sys.modules.get(f"{__name__}.membership")
    return membership is not None and membership.is_initialized()


def is_torchelastic_launched() -> bool:
    """Whether a launcher started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def is_backend_available(backend: str) -> bool:
    return backend.lower() in ("gloo", "fake")


def is_gloo_available() -> bool:
    return True


def is_nccl_available() -> bool:
    return False


is_mpi_available = is_ucc_available = is_xccl_available = is_nccl_available
__getattr__ = later(__name__, HOMES)
