"""``torch.utils.deterministic``: ``fill_uninitialized_memory`` (True) fills uninitialized memory when deterministic
algorithms are enabled."""
import sys
import types

from .._src.core.undefined import Level


def get_fill() -> bool:
    """Return the setting."""
    return Level.fills


def set_fill(fills):
    """Changes the setting.  RuntimeError for anything but a bool."""
    if type(fills) is not bool:
        raise RuntimeError(f"expected a bool, but got {type(fills).__name__}")
    Level.fills = fills


class Settings(types.ModuleType):
    """The module, whose one setting is kept where memory is made."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether fresh memory is NaN, or the largest number of a dtype without it."""
        return get_fill()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, fills):
        set_fill(fills)


sys.modules[__name__].__class__ = Settings
