"""The device that a thread plans programs for in place of the CPU."""
from __future__ import annotations

import contextlib
import threading


class Planning(threading.local):
    """``others``: the (Target, Features) that a thread plans for in place of the CPU's; empty: for the CPU's."""

    others: tuple = ()


planning = Planning()


@contextlib.contextmanager
def planned_for(target=None, features=None):
    """A context in which the thread plans programs on CPU tensors for another device's Target, or for a machine with
    these Features, which may be absent; None: for this one.  Operator calls are planned for this one."""
    before, planning.others = planning.others, (target, features) if target or features else ()
    try:
        yield
    finally:
        planning.others = before
