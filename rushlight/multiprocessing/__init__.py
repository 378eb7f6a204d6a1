"""Python's ``multiprocessing``, in which tensors in shared memory (``share_memory_()``) go by that memory, and others
are copied."""
from multiprocessing import *  # noqa: F401,F403
from multiprocessing import get_context, reduction  # noqa: F401

from .._src.core import advice, sharing  # noqa: F401 - registers reducers of tensors
from .spawn import ProcessContext, ProcessExitedException, ProcessRaisedException, SpawnContext, spawn, start_processes  # noqa: F401 - the function hides the module


STRATEGIES = {"file_descriptor", "file_system"}


def set_sharing_strategy(new_strategy):
    """Takes PyTorch's names of ways for tensors between processes, and warns that "file_system" is not another one
    here.  AssertionError for other names."""
    if new_strategy not in STRATEGIES:
        raise AssertionError(
            f"set_sharing_strategy({new_strategy!r}): the strategies are {', '.join(sorted(STRATEGIES))}")
    if new_strategy != get_sharing_strategy():
        advice.warn(f"set_sharing_strategy({new_strategy!r}): tensors go between processes by descriptors of files "
                    "without a name all the same "
             "('file_descriptor'). Where these run out, a higher limit of open files helps (ulimit -n).")


def get_sharing_strategy() -> str:
    return "file_descriptor"


def get_all_sharing_strategies() -> set:
    return set(STRATEGIES)
