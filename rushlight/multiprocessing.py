"""Python's ``multiprocessing``, in which tensors travel by pickling."""
from multiprocessing import *  # noqa: F401,F403
from multiprocessing import get_context, reduction  # noqa: F401

from .compat.absent import absent
from .core.later import later

globals().update(absent("torch.multiprocessing", "start processes with Python's multiprocessing, or a program for each process", "spawn start_processes"))


def set_sharing_strategy(new_strategy):
    """Refuses other strategies than the one there is."""
    if new_strategy != "file_system":
        raise NotImplementedError(f"set_sharing_strategy({new_strategy!r}): tensors travel between processes by pickling ('file_system' is accepted)")


def get_sharing_strategy() -> str:
    return "file_system"


def get_all_sharing_strategies() -> set:
    return {"file_system"}


__getattr__ = later(__name__)
