"""The epoch: a count of changes to modules, so that what was compiled against them can tell that they changed."""
from __future__ import annotations


class Epoch:
    """Raised by every assignment to a module's attributes, and to the data and flags of parameters."""

    value = 0


def changed(owner):
    """Tells that a module's attributes change."""
    Epoch.value += 1
