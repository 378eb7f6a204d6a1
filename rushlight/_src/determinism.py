"""Whether only algorithms may run that give the same result every time.  All kernels here do; memory
without contents is filled (``core/undefined.py``)."""
from __future__ import annotations

from .core.undefined import Level

LEVELS = ("default", "warn", "error")


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Asks for algorithms that give the same result every time (with ``warn_only``: for a warning where there is none).

    TypeError where ``mode`` is not a bool.

    >>> import rushlight as torch
    >>> torch.use_deterministic_algorithms(True, warn_only=True)
    >>> torch.are_deterministic_algorithms_enabled(), torch.get_deterministic_debug_mode()
    (True, 1)
    >>> torch.use_deterministic_algorithms(False)
    """
    if not isinstance(mode, bool):
        raise TypeError(f"use_deterministic_algorithms(): argument 'mode' must be bool, not {type(mode).__name__}")
    Level.now = (1 if warn_only else 2) if mode else 0


def are_deterministic_algorithms_enabled() -> bool:
    """Whether deterministic algorithms were asked for."""
    return Level.now > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether a missing deterministic algorithm is to be a warning rather than an error."""
    return Level.now == 1


def set_deterministic_debug_mode(debug_mode):
    """Sets the level: 0 or "default", 1 or "warn", 2 or "error".  TypeError for other types, RuntimeError for other
    values."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if debug_mode not in (*LEVELS, 0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected one of {', '.join(LEVELS)} (or 0, 1, 2), but got {debug_mode}")
    Level.now = LEVELS.index(debug_mode) if isinstance(debug_mode, str) else debug_mode


def get_deterministic_debug_mode() -> int:
    """The level: 0, 1 (warnings) or 2 (errors)."""
    return Level.now
