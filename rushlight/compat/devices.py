"""Modules of devices and libraries that are not here: questions are answered so, and what would need one refuses."""
from __future__ import annotations

import contextlib

from .absent import absent

NEEDING = "Stream Event current_device set_device get_device_name get_device_properties synchronize current_stream"


def device_module(kind: str) -> dict:
    """The names of ``torch.<kind>``, the module of a type of device of which there is none.

    >>> device_module("mps")["device_count"]()
    0
    """
    def never() -> bool:
        return False

    def count() -> int:
        return 0

    def manual_seed(seed):
        """Nothing to seed: there are no devices."""

    def empty_cache():
        """Nothing is kept: there are no devices."""

    def memory_allocated(device=None) -> int:
        return 0

    def reset_peak_memory_stats(device=None):
        """Nothing is counted: there are no devices."""

    why = f"this build runs on the CPU, and no device of type {kind!r} is there"
    return {
        **absent(f"torch.{kind}", why, NEEDING), "WHY": why,
        **dict.fromkeys(("is_available", "is_initialized", "_is_in_bad_fork", "is_current_stream_capturing"), never), "device_count": count,
        **dict.fromkeys(("manual_seed", "manual_seed_all"), manual_seed), "empty_cache": empty_cache,
        **dict.fromkeys(("memory_allocated", "current_allocated_memory", "driver_allocated_memory", "max_memory_allocated"), memory_allocated),
        "reset_peak_memory_stats": reset_peak_memory_stats}


def switches() -> dict:
    """The names of ``torch.backends.<library>``, for a library that is not used.

    >>> switches()["is_available"]()
    False
    """
    def never() -> bool:
        return False

    @contextlib.contextmanager
    def flags(*args, **kwargs):
        """A block with other switches, which change nothing."""
        yield

    return {"enabled": False, "verbose": False, "is_available": never, "is_built": never, "flags": flags}
