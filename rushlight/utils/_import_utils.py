"""Packages that may be missing: whether they are there."""
from __future__ import annotations

import functools
import importlib
import importlib.util


def _check_module_exists(name: str) -> bool:
    """True if a module can be found.  It is not imported; the packages around it are.

    >>> _check_module_exists("numpy"), _check_module_exists("no_such_package.part")
    (True, False)
    """
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


@functools.cache
def dill_available() -> bool:
    """True if dill is installed."""
    return _check_module_exists("dill")


@functools.cache
def import_dill():
    """Return dill, with what it adds to pickle undone; None if it is not installed."""
    if not dill_available():
        return None
    dill = importlib.import_module("dill")
    dill.extend(use_dill=False)
    return dill
