"""``torch._lazy.metrics``: how many programs and copies the device ``lazy`` was given."""
from __future__ import annotations

from .._src.devices.lazy import provider


def reset():
    """Sets all counters to 0."""
    provider.counters.clear()


def counter_names() -> list:
    """Return the names of the counters that are not 0."""
    return sorted(provider.counters)


def counter_value(name: str) -> int:
    """Return the value of a counter, 0 for one that nothing has counted yet."""
    return provider.counters[name]


def metrics_report() -> str:
    """Return all counters, one a paragraph."""
    return "\n".join(f"Counter: {name}\n  Value: {counter_value(name)}" for name in counter_names())
