"""Devices of type "xpu": none here.  Questions are answered so; what would need a device refuses."""
from ..compat.absent import absent

WHY = "this build runs on the CPU, and no device of type 'xpu' is there"
globals().update(absent("torch.xpu", WHY, "Stream Event current_device set_device get_device_name get_device_properties synchronize current_stream"))


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def is_initialized() -> bool:
    return False


def _is_in_bad_fork() -> bool:
    return False


def is_current_stream_capturing() -> bool:
    return False


def manual_seed(seed):
    """Nothing to seed: there are no devices."""


manual_seed_all = manual_seed


def empty_cache():
    """Nothing is kept: there are no devices."""


def memory_allocated(device=None) -> int:
    return 0


current_allocated_memory = driver_allocated_memory = max_memory_allocated = memory_allocated


def reset_peak_memory_stats(device=None):
    """Nothing is counted: there are no devices."""
