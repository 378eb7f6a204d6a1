"""Ranges for Intel's VTune: there is no build with its library, which every function but ``is_available`` says."""
from __future__ import annotations

import contextlib

__all__ = ["is_available", "range_push", "range_pop", "mark", "range"]


def is_available() -> bool:
    """False: ranges are not passed to VTune."""
    return False


def refuse(*args):
    raise RuntimeError("ITT functions not installed. Are you sure you have a ITT build?")


def range_push(msg):
    """RuntimeError: ranges are not passed to VTune."""
    refuse(msg)


def range_pop():
    """RuntimeError: ranges are not passed to VTune."""
    refuse()


def mark(msg):
    """RuntimeError: marks are not passed to VTune."""
    refuse(msg)


@contextlib.contextmanager
def range(msg, *args, **kwargs):
    """A ``with`` block as a range, whose beginning is the RuntimeError of ``range_push``."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
