"""Several processes: not here.  ``is_available()`` is False; what would need a process group refuses."""
from ..compat.absent import absent
from ..core.later import later

WHY = "this build runs in one process, and torch.distributed.is_available() is False"
globals().update(absent("torch.distributed", WHY, "init_process_group destroy_process_group new_group barrier broadcast all_reduce all_gather all_gather_into_tensor "
                        "all_to_all all_to_all_single reduce reduce_scatter reduce_scatter_tensor gather scatter send recv isend irecv broadcast_object_list all_gather_object "
                        "gather_object scatter_object_list monitored_barrier get_process_group_ranks get_backend ProcessGroup Work Store TCPStore FileStore HashStore Backend "
                        "get_global_rank get_group_rank batch_isend_irecv P2POp init_device_mesh"))


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def is_torchelastic_launched() -> bool:
    return False


def is_nccl_available() -> bool:
    return False


is_gloo_available = is_mpi_available = is_ucc_available = is_xccl_available = is_nccl_available


def get_rank(group=None) -> int:
    """Refuses, as PyTorch does without a process group."""
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group. This build runs in one process.")


get_world_size = get_rank


class ReduceOp:
    """What reductions over processes combine by."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = range(8)


class group:
    """The groups of processes: none."""

    WORLD = None


__getattr__ = later(__name__)
