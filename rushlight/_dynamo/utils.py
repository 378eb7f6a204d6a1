"""Counters of captured code."""
import sys

from .._src.capture.frames import owners
from .._src.capture.stance import counters
from .._src.core.devices import provided
from . import config
from .testing import same

__all__ = ["compile_times", "counters", "disable_cache_limit", "same"]


def compile_times(repr="str", aggregate=False):
    """How often functions were captured: as text, or with ``repr="csv"`` as (names, counts)."""
    found = sorted((entry.name, len(entry.segments)) for owner in owners for entry in owner.entries.values()
                   if entry.segments)
    if repr == "csv":
        return [name for name, _ in found], [str(count) for _, count in found]
    return "\n".join(f"{name}: {count}" for name, count in found)


def is_compile_supported(device_type) -> bool:
    """Whether functions on such a device are compiled."""
    found = provided(device_type)
    return found is not None and found.has_data


def disable_cache_limit():
    """A block, or a decorator, in which code may be captured as often as it takes."""
    return config.patch(recompile_limit=sys.maxsize)
