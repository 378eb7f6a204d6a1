"""``torch.cuda.memory``: what lies on a GPU, and how much of it a process may have.

Where there is no GPU, figures are 0 and tables are empty.
"""
from __future__ import annotations

import collections
import contextlib
import pickle

from .._src.compat.absent import absent
from .._src.core.devices import provided as _provided
from .._src.core.errors import NoDeviceError
from .places import index_of, provider_of

WHY = "blocks of memory come from the driver alone"
globals().update(absent("torch.cuda.memory", WHY,
                        "CUDAPluggableAllocator change_current_allocator",
                        NoDeviceError))
__all__ = ["CUDAPluggableAllocator", "MemPool", "empty_cache", "get_per_process_memory_fraction",
           "max_memory_allocated", "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated",
           "memory_cached", "memory_reserved", "memory_snapshot", "memory_stats", "memory_stats_as_nested_dict",
           "memory_summary", "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
           "reset_peak_memory_stats", "set_per_process_memory_fraction", "use_mem_pool"]


class MemPool:
    """Memory of its own on the current GPU, for what is made within ``use_mem_pool``.  It goes back to the driver with
    the pool, once no tensor lies in it."""

    def __init__(self, allocator=None, use_on_oom=False, no_split=False):
        from .._src.devices.triton.graphs import Pool
        if allocator is not None or use_on_oom:
            raise NotImplementedError("a pool has the driver's memory, and its blocks are its own")
        provider = provider_of()
        self._pool = Pool(provider.board(provider.current()))

    @property
    def id(self) -> tuple:
        """Its name in ``memory_snapshot``."""
        return self._pool.name

    def snapshot(self, include_traces=False) -> list:
        """Its segments with their blocks."""
        return [one for one in memory_snapshot() if one["segment_pool_id"] == self.id]


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    """A block in which the thread's tensors lie in a pool's memory, on whatever stream."""
    board, found = provider_of().board(index_of(device)), pool._pool
    if found.board is not board:
        raise RuntimeError(f"the pool belongs to GPU {found.board.index}, not to {board.index}")
    before = board.pooled(found.queues)
    try:
        yield
    finally:
        board.pooled(before)


def mem_get_info(device=None) -> tuple:
    """(free, total) bytes of a device."""
    return provider_of().memory(index_of(device))


def _statistic(name: str, device=None) -> int:
    found = _provided("cuda")
    return 0 if found is None else found.statistics(index_of(device)).get(name, 0)


def memory_allocated(device=None) -> int:
    """Bytes of tensors."""
    return _statistic("allocated", device)


def max_memory_allocated(device=None) -> int:
    """The most bytes of tensors that there were."""
    return _statistic("most_allocated", device)


def memory_reserved(device=None) -> int:
    """Bytes that the driver has given, those kept for later among them."""
    return _statistic("reserved", device)


def max_memory_reserved(device=None) -> int:
    """The most bytes that the driver has given."""
    return _statistic("most_reserved", device)


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def reset_peak_memory_stats(device=None):
    """The most is counted from here on."""
    if _provided("cuda") is not None:
        provider_of().reset_statistics(index_of(device))


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device=None):
    """What was allocated and freed is counted from here on."""
    if _provided("cuda") is not None:
        provider_of().board(index_of(device)).memory.reset_sums()


def memory_stats(device=None) -> collections.OrderedDict:
    """Counts by name: ``allocation``, ``allocated_bytes``, ``active``, ``active_bytes``, ``segment`` and
    ``reserved_bytes``, each ``.all.current``, ``.peak``, ``.allocated`` and ``.freed``; ``num_alloc_retries``,
    ``num_ooms``.

    >>> import rushlight as torch
    >>> torch.cuda.memory_stats() if not torch.cuda.is_available() else {}
    OrderedDict()
    """
    found = _provided("cuda")
    return collections.OrderedDict() if found is None else collections.OrderedDict(found.figures(index_of(device)))


def memory_stats_as_nested_dict(device=None) -> dict:
    """``memory_stats``, with a dict for each part of a name."""
    nested: dict = {}
    for name, value in memory_stats(device).items():
        *path, last = name.split(".")
        at = nested
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return nested


def memory_snapshot(mempool_id=None) -> list:
    """Segments of the driver's memory with their blocks, of all devices."""
    found = _provided("cuda")
    if found is None:
        return []
    return [one for index in range(found.count()) for one in found.snapshot(index)
            if mempool_id is None or one["segment_pool_id"] == tuple(mempool_id)]


def _snapshot(device=None, augment_with_fx_traces=False) -> dict:
    """``memory_snapshot`` as the viewer of memory at pytorch.org reads it; there are no traces."""
    return {"segments": memory_snapshot(), "device_traces": [], "allocator_settings": {"expandable_segments": False}}


def _dump_snapshot(filename="dump_snapshot.pickle", augment_with_fx_traces=False):
    """Writes ``_snapshot`` to a file."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=9223372036854775807, device=None,
                           clear_history=False, compile_context=False, global_record_annotations=False,
                           skip_actions=None):
    """NotImplementedError: the history of blocks is not kept; None, which ends it, does nothing."""
    if enabled is not None:
        raise NotImplementedError("the history of blocks of memory is not kept: memory_snapshot() shows what there is")


def memory_summary(device=None, abbreviated=False) -> str:
    """``memory_stats`` as a table; empty where there is no GPU."""
    found = _provided("cuda")
    return "" if found is None else found.summary(index_of(device))


def set_per_process_memory_fraction(fraction: float, device=None):
    """The process may have this part of a device's memory (0 to 1); more is refused as out of memory.  TypeError for
    what is no number, ValueError for others."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    provider_of().board(index_of(device)).memory.fraction = fraction


def get_per_process_memory_fraction(device=None) -> float:
    """The part of a device's memory that the process may have."""
    return provider_of().board(index_of(device)).memory.fraction


def empty_cache():
    """Gives memory that is kept for later back to the driver."""
    found = _provided("cuda")
    for index in range(0 if found is None else found.count()):
        found.trim(index)


def _set_allocator_settings(env):
    """RuntimeError with the reason for settings that there are not."""
    from .._src.devices.triton.choices import chosen
    for reason in chosen(env):
        raise RuntimeError(reason)
