"""The accelerator of this machine: none."""
from __future__ import annotations

from ._src.compat.absent import absent

globals().update(absent("torch.accelerator", "there is no accelerator: torch.accelerator.is_available() is False",
                        "set_device_index set_device_idx set_stream current_stream synchronize device_index current_device_index current_device_idx"), **absent("torch", "there is no accelerator", "Stream Event"))


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def current_accelerator(check_available=False):
    """None: there is no accelerator."""
    return None


def empty_cache():
    """Nothing is kept: there is no accelerator."""


def memory_allocated(device_index=None, /) -> int:
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated
