"""Helpers around tensors: data loading, checkpoints."""
from . import data

__all__ = ["checkpoint", "data"]


def __getattr__(name):
    """Rooms that few programs enter are imported when they are first asked for."""
    from importlib import import_module
    from importlib.util import find_spec

    if not name.startswith("__") and find_spec(f"{__name__}.{name}"):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
