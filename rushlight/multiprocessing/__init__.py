"""Python's ``multiprocessing``, in which tensors in shared memory (``share_memory_()``) go by that memory, and others are copied."""
from multiprocessing import *  # noqa: F401,F403
from multiprocessing import get_context, reduction  # noqa: F401

from ..core import sharing  # noqa: F401 - tells multiprocessing how tensors travel
from ..core.later import later
from .spawn import ProcessContext, ProcessExitedException, ProcessRaisedException, SpawnContext, spawn, start_processes  # noqa: F401 - the function hides the module


def set_sharing_strategy(new_strategy):
    """Refuses other strategies than the one there is."""
    if new_strategy != "file_descriptor":
        raise NotImplementedError(f"set_sharing_strategy({new_strategy!r}): tensors go between processes by descriptors of files without a name ('file_descriptor')")


def get_sharing_strategy() -> str:
    return "file_descriptor"


def get_all_sharing_strategies() -> set:
    return {"file_descriptor"}


__getattr__ = later(__name__)
