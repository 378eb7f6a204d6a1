"""CUDA devices: none here.  Questions are answered so; what would need a device refuses."""
from ..compat.absent import absent
from ..core.devices import device as _device
from ..core.later import later

__all__ = ["is_available", "device_count", "is_initialized", "manual_seed", "manual_seed_all", "seed", "seed_all", "empty_cache", "is_current_stream_capturing",
           "is_bf16_supported", "get_arch_list", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "reset_peak_memory_stats"]
WHY = "this build runs on the CPU, and torch.cuda.is_available() is False"
default_generators: tuple = ()
has_half = False
globals().update(absent(__name__.replace("rushlight", "torch"), WHY, "Stream Event ExternalStream CUDAGraph graph StreamContext stream current_stream default_stream set_stream "
                        "current_device set_device get_device_name get_device_capability get_device_properties synchronize mem_get_info make_graphed_callables "
                        "memory_stats memory_summary memory_snapshot ipc_collect CUDAPluggableAllocator MemPool graph_pool_handle init utilization"))


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def is_initialized() -> bool:
    return False


def _is_in_bad_fork() -> bool:
    return False


def _lazy_init():
    raise AssertionError(f"Torch not compiled with CUDA enabled: {WHY}")


def _lazy_call(callable, **kwargs):
    """Refuses to wait: there is no device that will be initialised."""


def is_current_stream_capturing() -> bool:
    return False


def is_bf16_supported(including_emulation=True) -> bool:
    return False


def get_arch_list() -> list:
    return []


def manual_seed(seed):
    """Nothing to seed: there are no devices."""


manual_seed_all = manual_seed


def seed():
    """Nothing to seed: there are no devices."""


seed_all = empty_cache = seed


def get_rng_state_all() -> list:
    """The states of no devices."""
    return []


def set_rng_state_all(new_states):
    """Sets the states of no devices."""


def memory_allocated(device=None) -> int:
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def reset_peak_memory_stats(device=None):
    """Nothing is counted: there are no devices."""


reset_max_memory_allocated = reset_accumulated_memory_stats = reset_peak_memory_stats


class device:
    """``with torch.cuda.device(None or -1)`` does nothing; any other index refuses."""

    def __init__(self, device):
        self.index = device.index if isinstance(device, _device) else device
        if self.index not in (None, -1):
            _lazy_init()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return False


device_of = device


class OutOfMemoryError(RuntimeError):
    """What a device without memory left would raise."""


__getattr__ = later(__name__)
