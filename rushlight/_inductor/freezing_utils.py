"""Whether parameters are being frozen into a program, and which tensors were."""
from __future__ import annotations

import contextlib
import threading

__all__ = ["enter_freezing", "has_frozen_params", "is_frozen_param", "maybe_set_is_frozen_param",
           "record_has_frozen_params"]


class Freezing(threading.local):
    """Whether this thread freezes parameters now."""

    active = False


freezing = Freezing()


@contextlib.contextmanager
def enter_freezing():
    """A block in which tensors are marked as frozen."""
    outer, freezing.active = freezing.active, True
    try:
        yield
    finally:
        freezing.active = outer


def record_has_frozen_params(gm):
    """Notes that a module's program holds frozen parameters."""
    gm._has_frozen_params = True


def has_frozen_params(gm) -> bool:
    """Whether a module's program holds frozen parameters.

    >>> import types
    >>> record_has_frozen_params(module := types.SimpleNamespace())
    >>> has_frozen_params(module)
    True
    """
    return getattr(gm, "_has_frozen_params", False)


def maybe_set_is_frozen_param(t):
    """Marks a tensor as a frozen parameter, within ``enter_freezing``."""
    if freezing.active:
        t._is_frozen_param = True


def is_frozen_param(t) -> bool:
    """Whether a tensor was marked as a frozen parameter."""
    return getattr(t, "_is_frozen_param", False)
