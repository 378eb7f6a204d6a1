"""``torch.cuda.memory``: there is none."""
from . import (CUDAPluggableAllocator, MemPool, empty_cache, max_memory_allocated, max_memory_reserved, mem_get_info,
               memory_allocated, memory_reserved, memory_snapshot,
               memory_stats, memory_summary, reset_accumulated_memory_stats, reset_max_memory_allocated,
               reset_peak_memory_stats, set_per_process_memory_fraction)

__all__ = ["CUDAPluggableAllocator", "MemPool", "empty_cache", "max_memory_allocated", "max_memory_reserved",
           "mem_get_info", "memory_allocated", "memory_reserved",
           "memory_snapshot", "memory_stats", "memory_summary", "reset_accumulated_memory_stats",
           "reset_max_memory_allocated", "reset_peak_memory_stats",
           "set_per_process_memory_fraction"]
