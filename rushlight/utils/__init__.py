"""Helpers around tensors: data loading, checkpoints."""
from . import data

__all__ = ["checkpoint", "data"]


def __getattr__(name):
    """Rooms that few programs enter are imported when they are first asked for."""
    from importlib import import_module

    if name == "checkpoint":
        return import_module(".checkpoint", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
