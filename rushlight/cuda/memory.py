"""``torch.cuda.memory``: memory of GPUs, its statistics, and the limit of the process.

Without a GPU, statistics are 0 and tables are empty.
"""
from __future__ import annotations

import collections
import contextlib
import ctypes
import pickle
import sys

from .._src.core.devices import provided as _provided
from .places import index_of, provider_of
from .sensors import list_gpu_processes

__all__ = ["CUDAPluggableAllocator", "MemPool", "caching_allocator_alloc", "caching_allocator_delete",
           "caching_allocator_disabled", "caching_allocator_enable", "change_current_allocator", "empty_cache",
           "get_allocator_backend", "get_per_process_memory_fraction", "host_memory_stats",
           "host_memory_stats_as_nested_dict", "list_gpu_processes", "max_memory_allocated", "max_memory_cached",
           "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached", "memory_reserved",
           "memory_snapshot", "memory_stats", "memory_stats_as_nested_dict", "memory_summary",
           "reset_accumulated_host_memory_stats", "reset_accumulated_memory_stats", "reset_max_memory_allocated",
           "reset_max_memory_cached", "reset_peak_host_memory_stats", "reset_peak_memory_stats",
           "set_per_process_memory_fraction", "use_mem_pool"]


class CUDAPluggableAllocator:
    """Functions of a shared library that allocate and free a GPU's memory: ``void *alloc(ssize_t size, int device,
    cudaStream_t stream)`` and ``void free(void *address, ssize_t size, int device, cudaStream_t stream)``.  For
    ``change_current_allocator``, or a MemPool.  OSError if there is no such library, AttributeError if it lacks a
    function."""

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str):
        library = ctypes.CDLL(path_to_so_file)
        self._library = library  # it stays loaded
        self._addresses = tuple(ctypes.cast(getattr(library, name), ctypes.c_void_p).value
                                for name in (alloc_fn_name, free_fn_name))

    def allocator(self):
        """Return the allocator for MemPool."""
        return self


def _functions_of(allocator):
    from .._src.devices.triton.segments import Functions
    if not isinstance(allocator, CUDAPluggableAllocator):
        raise TypeError(f"expected a CUDAPluggableAllocator, got {type(allocator).__name__}")
    return Functions(*allocator._addresses, allocator._library)


def change_current_allocator(allocator):
    """Allocate all memory of GPUs by an allocator of the program; nothing is cached.  RuntimeError if tensors have been
    made on a GPU already."""
    provider = provider_of()
    if provider.boards:
        raise RuntimeError("Can't swap an already initialized allocator")
    provider.functions = _functions_of(allocator)


def caching_allocator_enable(value: bool = True):
    """Enable or disable caching of freed memory.  Without it, each tensor's memory is allocated and freed by the
    driver, which waits for the device, so that debugging tools see every use after free (but for memory allocated
    during a graph capture).  Without a GPU nothing changes; RuntimeError if ``change_current_allocator`` has set
    another allocator."""
    provider = _provided("cuda")
    if provider is not None and provider.functions is not None:
        raise RuntimeError("the program's own allocator gives all memory: there is nothing to be kept or not")
    if provider is not None and provider.caching != bool(value):
        provider.cache(bool(value))


@contextlib.contextmanager
def caching_allocator_disabled():
    """Context manager that disables caching of memory (``caching_allocator_enable(False)``)."""
    provider = _provided("cuda")
    before = provider is None or provider.caching
    caching_allocator_enable(False)
    try:
        yield
    finally:
        caching_allocator_enable(before)


def get_allocator_backend() -> str:
    """"native", or "pluggable" where ``change_current_allocator`` has set another one.

    >>> import rushlight as torch
    >>> torch.cuda.get_allocator_backend() if not torch.cuda.is_available() else "native"
    'native'
    """
    found = _provided("cuda")
    return "native" if found is None or found.functions is None else "pluggable"


class MemPool:
    """A separate pool of memory on the current GPU, for allocations within ``use_mem_pool``.  It is freed with the
    pool, once no tensor uses it.  ``allocator``: allocates its segments instead of the driver; ``no_split``: each block
    has a segment of its own; ``use_on_oom``: other tensors may use its free blocks when memory is short."""

    def __init__(self, allocator=None, use_on_oom=False, no_split=False):
        from .._src.devices.triton.graphs import Pool
        provider, self.allocator = provider_of(), allocator
        functions = None if allocator is None else _functions_of(allocator)
        self._pool = Pool(provider.board(provider.current()), functions, no_split, use_on_oom)

    @property
    def id(self) -> tuple:
        """Its name in ``memory_snapshot``."""
        return self._pool.name

    def use_count(self) -> int:
        """How many know its memory."""
        return sys.getrefcount(self._pool) - 1

    def snapshot(self, include_traces=True) -> list:
        """Its segments with their blocks."""
        return memory_snapshot(self.id)


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    """Context manager in which the thread's tensors use a pool's memory, on any stream."""
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


def device_memory_used(device=None) -> int:
    """Bytes of a device that are in use, by whatever process."""
    free, total = mem_get_info(device)
    return total - free


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
    """Reset the peaks."""
    if _provided("cuda") is not None:
        provider_of().reset_statistics(index_of(device))


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device=None):
    """Reset the counters of allocations and frees."""
    if _provided("cuda") is not None:
        provider_of().board(index_of(device)).memory.reset_sums()


def memory_stats(device=None) -> collections.OrderedDict:
    """Counts by name: ``allocation``, ``allocated_bytes``, ``active``, ``active_bytes``, ``segment`` and
    ``reserved_bytes``, each ``.all.current``, ``.peak``, ``.allocated`` and ``.freed``, and ``.current`` of
    ``.small_pool`` and ``.large_pool``; ``inactive_split`` and ``inactive_split_bytes``, what is free in segments that
    are in use, ``.current``; ``num_alloc_retries``, ``num_ooms``.

    >>> import rushlight as torch
    >>> torch.cuda.memory_stats() if not torch.cuda.is_available() else {}
    OrderedDict()
    """
    found = _provided("cuda")
    return collections.OrderedDict() if found is None else collections.OrderedDict(found.figures(index_of(device)))


def memory_stats_as_nested_dict(device=None) -> dict:
    """``memory_stats``, with a dict for each part of a name."""
    return _nested(memory_stats(device))


def _nested(figures: dict) -> dict:
    nested: dict = {}
    for name, value in figures.items():
        *path, last = name.split(".")
        at = nested
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return nested


def host_memory_stats() -> collections.OrderedDict:
    """Counts of the host's memory that the driver has pinned: ``allocations`` and ``allocated_bytes`` (blocks of the
    driver, those kept for later among them), ``active_requests`` and ``active_bytes`` (blocks that are in use, or not
    done with), each ``.current``, ``.peak``, ``.allocated`` and ``.freed``; ``num_host_alloc``, ``num_host_free``, and
    ``host_alloc_time`` and ``host_free_time`` in microseconds, each ``.total``, ``.max``, ``.min``, ``.count`` and
    ``.avg``.  Empty where there is no GPU.

    >>> import rushlight as torch
    >>> torch.cuda.host_memory_stats() if not torch.cuda.is_available() else {}
    OrderedDict()
    """
    found = _provided("cuda")
    return collections.OrderedDict() if found is None else collections.OrderedDict(found.pins.figures())


def host_memory_stats_as_nested_dict() -> dict:
    """``host_memory_stats``, with a dict for each part of a name."""
    return _nested(host_memory_stats())


def reset_peak_host_memory_stats():
    """Reset the peaks of pinned memory."""
    if _provided("cuda") is not None:
        provider_of().pins.reset_peaks()


def reset_accumulated_host_memory_stats():
    """Reset the counters of allocations and frees of pinned memory."""
    if _provided("cuda") is not None:
        provider_of().pins.reset_sums()


def memory_snapshot(mempool_id=None, include_traces=True) -> list:
    """Return the segments of the driver's memory with their blocks, of all devices.  ``include_traces`` changes
    nothing: ``_snapshot`` has the traces."""
    found = _provided("cuda")
    if found is None:
        return []
    return [one for index in range(found.count()) for one in found.snapshot(index)
            if mempool_id is None or one["segment_pool_id"] == tuple(mempool_id)]


def _snapshot(device=None, augment_with_fx_traces=False) -> dict:
    """``memory_snapshot`` with what ``_record_memory_history`` has kept, a list for each device, as the viewer of
    memory at pytorch.org reads it."""
    from .._src.devices.triton.choices import choices
    found = _provided("cuda")
    boards = [] if found is None else [found.board(index) for index in range(found.count())]
    histories = [board.memory.history for board in boards]
    return {"segments": memory_snapshot(), "device_traces": [[] if one is None else one.trace() for one in histories],
            "allocator_settings": choices.shown(), "external_annotations": []}


def _dump_snapshot(filename="dump_snapshot.pickle", augment_with_fx_traces=False):
    """Write ``_snapshot`` to a file for https://pytorch.org/memory_viz."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=sys.maxsize, device=None,
                           clear_history=False, compile_context=False, global_record_annotations=False,
                           skip_actions=None):
    """Record the memory history of a GPU, or of all if ``device`` is None: "all" events, the last ``max_entries`` of
    them, or only the origins of memory in use ("state"); None ends it.
    ``context``: what has a stack trace: "all" events, "alloc" (not frees), "state" (only blocks in use), or None.
    ``stacks``: traces are of Python only.  ``skip_actions``: actions that are not recorded.

    Recording allocates each block through Python, which costs some microseconds per call.  ValueError for unknown
    values, NotImplementedError for contexts of compilations and annotations."""
    from .._src.devices.triton.history import STACKS, History
    if isinstance(enabled, bool):  # as it was in PyTorch 1
        enabled = "all" if enabled else None
    if stacks not in STACKS:
        raise ValueError(f"stacks must be 'python' or 'all', not {stacks!r}")
    if compile_context or global_record_annotations:
        raise NotImplementedError("compile_context and global_record_annotations are not kept")
    provider = provider_of()
    for index in range(provider.count()) if device is None else [index_of(device)]:
        memory = provider.board(index).memory
        made = None if enabled is None else History(enabled, context, max_entries, skip_actions or ())
        memory.watch(made, clear_history)


def _attach_out_of_memory_observer(observer):
    """Call ``observer(device, bytes requested, bytes of the device, bytes left to the process)`` before an
    out-of-memory error; an exception that it raises replaces the error."""
    provider = provider_of()
    for index in range(provider.count()):
        provider.board(index).memory.observers.append(observer)


def memory_summary(device=None, abbreviated=False) -> str:
    """``memory_stats`` as a table, unless ``abbreviated`` with the parts of both pools; empty where there is no
    GPU."""
    found = _provided("cuda")
    return "" if found is None else found.summary(index_of(device), abbreviated)


def set_per_process_memory_fraction(fraction: float, device=None):
    """Limit the process to a fraction (0 to 1) of a device's memory; more raises OutOfMemoryError.  TypeError if it is
    not a number, ValueError if it is out of range."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    provider_of().board(index_of(device)).memory.fraction = fraction


def get_per_process_memory_fraction(device=None) -> float:
    """The part of a device's memory that the process may have."""
    return provider_of().board(index_of(device)).memory.fraction


def empty_cache():
    """Release cached memory to the driver."""
    found = _provided("cuda")
    for index in range(0 if found is None else found.count()):
        found.trim(index)


def _set_allocator_settings(env: str):
    """Takes settings, ``name:value`` with commas between, from here on: ``expandable_segments``,
    ``max_split_size_mb``, ``garbage_collection_threshold``, ``roundup_power2_divisions`` and
    ``per_process_memory_fraction``; those that are not named stay.  RuntimeError with the reason for settings that
    there are not, ValueError for values that are none."""
    from .._src.devices.triton.choices import choices, named
    choices.follow(env, strict=True)
    fraction = choices.process_fraction if "per_process_memory_fraction" in named(env) else None
    found = _provided("cuda")
    for board in () if found is None else list(found.boards.values()):
        board.memory.chosen(fraction)


def caching_allocator_alloc(size: int, device=None, stream=None) -> int:
    """Allocate ``size`` bytes of a GPU and return the address, for ``caching_allocator_delete``.  ``stream``: whose
    work uses them; None: the current one."""
    provider = provider_of()
    index = index_of(device)
    queue = None if stream is None else getattr(stream, "stream_id", stream)
    made = provider.board(index).lent(size, queue)
    return made.address


def caching_allocator_delete(mem_ptr: int):
    """Free memory of ``caching_allocator_alloc``.  RuntimeError for other addresses."""
    provider = provider_of()
    for board in list(provider.boards.values()):
        if board.raw.pop(mem_ptr, None) is not None:
            return
    raise RuntimeError(f"invalid device pointer: {mem_ptr}")
