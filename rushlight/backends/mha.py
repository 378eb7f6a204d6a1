"""Switches of the fast path of attention modules."""

fast_path = True


def get_fastpath_enabled() -> bool:
    return fast_path


def set_fastpath_enabled(value: bool):
    """Says whether attention modules may take their fast path."""
    global fast_path
    fast_path = bool(value)
