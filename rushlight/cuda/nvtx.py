"""``torch.cuda.nvtx``: ranges and marks for NVIDIA's profilers, by ``libnvToolsExt`` where it is installed.

Without it, ranges are counted all the same, but not shown.
"""
from __future__ import annotations

import contextlib
import ctypes
import functools
import threading

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]
_own = threading.local()


@functools.cache
def _library():
    """The profilers' library; None where it is not installed."""
    for name in ("libnvToolsExt.so.1", "nvToolsExt64_1.dll"):
        try:
            found = ctypes.CDLL(name)
        except OSError:
            continue
        found.nvtxRangeStartA.restype = ctypes.c_uint64
        found.nvtxRangeEnd.argtypes = (ctypes.c_uint64,)
        return found
    return None


def range_push(msg) -> int:
    """Begins a range within those that are open on this thread; how many these were."""
    depth = getattr(_own, "depth", 0)
    _own.depth = depth + 1
    if _library() is not None:
        _library().nvtxRangePushA(str(msg).encode())
    return depth


def range_pop() -> int:
    """Ends the innermost range; how many are still open.  -1 and below where there was none."""
    _own.depth = depth = getattr(_own, "depth", 0) - 1
    if depth < 0:
        _own.depth = 0
    if _library() is not None:
        _library().nvtxRangePop()
    return depth


def range_start(msg) -> int:
    """Begins a range that any thread may end; its number."""
    return _library().nvtxRangeStartA(str(msg).encode()) if _library() is not None else 0


def range_end(range_id: int):
    """Ends a range that ``range_start`` has begun."""
    if _library() is not None:
        _library().nvtxRangeEnd(range_id)


def mark(msg):
    """Leaves a mark."""
    if _library() is not None:
        _library().nvtxMarkA(str(msg).encode())


@contextlib.contextmanager
def range(msg, *args, **kwargs):
    """A block that is a range; the text is formatted with the arguments."""
    range_push(str(msg).format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
