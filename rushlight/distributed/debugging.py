"""The level of detail for debugging collectives (TORCH_DISTRIBUTED_DEBUG).  Ranks that disagree are noticed at every
level."""
from __future__ import annotations

import enum
import os

__all__ = ["DebugLevel", "get_debug_level", "set_debug_level", "set_debug_level_from_env"]


class DebugLevel(enum.Enum):
    OFF, INFO, DETAIL = 0, 1, 2


class Chosen:
    level: DebugLevel | None = None  # None: not read yet


def get_debug_level() -> DebugLevel:
    """The level: what was set, else that of TORCH_DISTRIBUTED_DEBUG.

    >>> get_debug_level()
    <DebugLevel.OFF: 0>
    """
    if Chosen.level is None:
        set_debug_level_from_env()
    return Chosen.level


def set_debug_level(level: DebugLevel) -> None:
    """Sets the level.  TypeError for other types."""
    if not isinstance(level, DebugLevel):
        raise TypeError(f"set_debug_level takes a DebugLevel, not {type(level).__name__}")
    Chosen.level = level


def set_debug_level_from_env() -> None:
    """Sets the level from TORCH_DISTRIBUTED_DEBUG, case-insensitively.  ValueError for other values."""
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "") or "OFF"
    if name.upper() not in DebugLevel.__members__:
        raise ValueError("The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL.")
    Chosen.level = DebugLevel[name.upper()]
