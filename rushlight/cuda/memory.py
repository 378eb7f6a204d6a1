"""``torch.cuda.memory``: there is none."""
from . import empty_cache, max_memory_allocated, max_memory_reserved, memory_allocated, memory_reserved, reset_peak_memory_stats

__all__ = ["empty_cache", "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "reset_peak_memory_stats"]
