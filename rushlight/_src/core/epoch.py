"""The epoch: a counter of changes to rarely changed state, by which code compiled against it detects them."""
from __future__ import annotations

import types


class Epoch:
    """Raised by every assignment to a network's attributes, to the data and flags of parameters, to defaults, and to
    attributes of Watched modules."""

    value = 0


def changed(owner):
    """Record that a module's attributes, or defaults, change."""
    Epoch.value += 1


class Watched(types.ModuleType):
    """A Python module whose functions may be replaced: that raises the epoch."""

    def __setattr__(self, name, value):
        changed(self)
        super().__setattr__(name, value)

    def __delattr__(self, name):
        changed(self)
        super().__delattr__(name)


WATCHED = {types.ModuleType: Watched}  # classes of Python modules, and those of the same modules when watched


def watch(module) -> bool:
    """Make a Python module raise the epoch when it changes; False for one of a custom class, which may compute its
    attributes."""
    if type(module) in WATCHED:
        module.__class__ = WATCHED[type(module)]
    return isinstance(module, Watched)
