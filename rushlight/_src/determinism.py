"""Deterministic algorithms.  Only GPU kernels that update memory at data-dependent addresses depend on the switch; all
other kernels are always deterministic.  Uninitialized memory is filled (``core/undefined.py``)."""
from __future__ import annotations

from .core.devices import Registry
from .core.undefined import Level
from .switches import forget_plans

LEVELS = ("default", "warn", "error")


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Select deterministic algorithms (with ``warn_only``: warn if an operator has none).

    TypeError unless ``mode`` is a bool.

    >>> import rushlight as torch
    >>> torch.use_deterministic_algorithms(True, warn_only=True)
    >>> torch.are_deterministic_algorithms_enabled(), torch.get_deterministic_debug_mode()
    (True, 1)
    >>> torch.use_deterministic_algorithms(False)
    """
    if not isinstance(mode, bool):
        raise TypeError(f"use_deterministic_algorithms(): argument 'mode' must be bool, not {type(mode).__name__}")
    set_level((1 if warn_only else 2) if mode else 0)


def set_level(level: int):
    """Set the level and drop plans, which may contain GPU kernels that add in any order."""
    changed, Level.now = bool(level) != bool(Level.now), level
    if changed and any(not isinstance(one, str) and not one.on_host for one in Registry.providers.values()):
        forget_plans()


def are_deterministic_algorithms_enabled() -> bool:
    """True if deterministic algorithms are enabled."""
    return Level.now > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """True if a missing deterministic algorithm is a warning rather than an error."""
    return Level.now == 1


def set_deterministic_debug_mode(debug_mode):
    """Set the level: 0 or "default", 1 or "warn", 2 or "error".  TypeError for other types, RuntimeError for other
    values."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if debug_mode not in (*LEVELS, 0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected one of {', '.join(LEVELS)} (or 0, 1, 2), but got {debug_mode}")
    set_level(LEVELS.index(debug_mode) if isinstance(debug_mode, str) else debug_mode)


def get_deterministic_debug_mode() -> int:
    """Level: 0, 1 (warnings) or 2 (errors)."""
    return Level.now
