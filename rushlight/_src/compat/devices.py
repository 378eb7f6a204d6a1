"""Modules of devices and libraries that do not exist here: queries say so, and functions that need one raise an
error."""
from __future__ import annotations

import collections
import contextlib

from ..core.errors import NoDeviceError
from .absent import COMING, EXTRAS, absent

NEEDING = ("Stream Event StreamContext stream set_stream current_stream default_stream get_stream_from_external "
           "current_device set_device get_device_name get_device_properties "
           "get_device_capability synchronize init initial_seed get_rng_state set_rng_state mem_get_info "
           "memory_snapshot memory_summary graph_pool_handle make_graphed_callables "
           "MemPool use_mem_pool change_current_allocator can_device_access_peer device_memory_used memory_usage "
           "utilization temperature power_draw clock_rate get_gencode_flags "
           "get_per_process_memory_fraction set_per_process_memory_fraction recommended_max_memory compile_shader "
           "load_metallib")


def device_module(kind: str) -> dict:
    """Names of ``torch.<kind>``, the module of a device type without devices.

    >>> device_module("mps")["device_count"]()
    0
    """
    def is_available() -> bool:
        return False

    def device_count() -> int:
        return 0

    def manual_seed(seed):
        """Nothing to seed: there are no devices."""

    def empty_cache():
        """Do nothing: there are no devices."""

    def seed():
        """Nothing to seed: there are no devices."""

    def memory_allocated(device=None) -> int:
        return 0

    def memory_stats(device=None):
        return collections.OrderedDict()

    def states() -> list:
        """RNG states: empty, since there are no devices."""
        return []

    def set_states(new_states):
        """Do nothing: there are no devices."""

    def reset_peak_memory_stats(device=None):
        """Do nothing: there are no devices."""

    why = f"no device of type {kind!r} is there; {COMING.get(kind, EXTRAS)}"
    return {
        **absent(f"torch.{kind}", why, NEEDING, NoDeviceError), "WHY": why, "default_generators": (),
        "get_arch_list": states,
        **dict.fromkeys(("is_available", "is_initialized", "_is_in_bad_fork", "is_current_stream_capturing",
                         "is_bf16_supported", "is_tf32_supported"), is_available), "device_count": device_count,
        **dict.fromkeys(("manual_seed", "manual_seed_all"), manual_seed), "empty_cache": empty_cache,
        **dict.fromkeys(("memory_allocated", "current_allocated_memory", "driver_allocated_memory",
                         "max_memory_allocated", "memory_reserved", "max_memory_reserved",
                         "memory_cached", "max_memory_cached"), memory_allocated),
        **dict.fromkeys(("memory_stats", "memory_stats_as_nested_dict", "host_memory_stats",
                         "host_memory_stats_as_nested_dict"), memory_stats),
        **dict.fromkeys(("seed", "seed_all", "ipc_collect"), seed), "get_rng_state_all": states,
        "set_rng_state_all": set_states,
        **dict.fromkeys(("reset_peak_memory_stats", "reset_accumulated_memory_stats", "reset_max_memory_allocated",
                         "reset_max_memory_cached",
                         "reset_peak_host_memory_stats", "reset_accumulated_host_memory_stats"),
                        reset_peak_memory_stats)}


def switches() -> dict:
    """Names of ``torch.backends.<library>``, for a library that is not used.

    >>> switches()["is_available"]()
    False
    """
    def is_available() -> bool:
        return False

    @contextlib.contextmanager
    def flags(*args, **kwargs):
        """A block with other settings, which have no effect."""
        yield

    return {"enabled": False, "verbose": False, "is_available": is_available, "is_built": is_available, "flags": flags}
