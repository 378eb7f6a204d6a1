"""Suspension of Python's collector of cyclic garbage."""
from __future__ import annotations

import contextlib
import gc


@contextlib.contextmanager
def waiting():
    """A block that makes many objects and almost no garbage: garbage collection is disabled in it.

    >>> import gc
    >>> with waiting():
    ...     gc.isenabled()
    False
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
