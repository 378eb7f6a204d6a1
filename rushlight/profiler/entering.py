"""``torch.ops.profiler``: a block with a name, by a function at each end."""
from __future__ import annotations

from . import record_function


def _record_function_enter(name: str, args: str | None = None):
    """Enters a block; what it returns is for ``_record_function_exit``."""
    block = record_function(name, args)
    block.__enter__()
    return block


_record_function_enter_new = _record_function_enter


def _record_function_exit(handle):
    """Leaves the block."""
    handle.__exit__(None, None, None)
