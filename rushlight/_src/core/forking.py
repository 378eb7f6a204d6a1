"""Forks while other threads run: a fork takes the package's locks first, so that the child finds the guarded state
consistent, and the locks free.

The holder of a lock may take those later in ``ORDER``, never an earlier one; a fork takes them in this order.
"""
from __future__ import annotations

import _imp
import importlib._bootstrap
import sys
import threading
import time

from .platform import here

ORDER = ("groups", "gradients", "plans", "machine code", "code generation", "LLVM", "pool", "devices", "metas",
         "expressions", "memory")
PACKAGE = __name__.partition(".")[0]
LOCKS: dict = {name: [] for name in ORDER}


def guarded(name: str, lock):
    """Register the lock (anything with ``acquire`` and ``release``) to be held during a fork, and return it."""
    LOCKS[name].append(lock)
    return lock


class LLVM:
    """The lock with which llvmlite lets one thread at a time into LLVM, once that is loaded."""

    held = None

    def acquire(self):
        ffi = sys.modules.get("llvmlite.binding.ffi")
        if ffi is not None:
            ffi.lib._lock.__enter__()
            self.held = ffi.lib._lock

    def release(self):
        held, self.held = self.held, None
        if held is not None:
            held.__exit__(None, None, None)


guarded("LLVM", LLVM())
taken: list = []


NEEDED = {PACKAGE, "numpy", "llvmlite", *sys.stdlib_module_names}  # a program's own import may take for ever


def importing() -> bool:
    """True if another thread imports a module of the package, or one that the package may import when it is first
    needed: the child would wait for it for ever."""
    for name, reference in list(getattr(importlib._bootstrap, "_module_locks", {}).items()):
        owner = getattr(reference(), "owner", None)
        if name.partition(".")[0] in NEEDED and owner not in (None, threading.get_ident()):
            return True
    return False


def take():
    """Takes all locks, and keeps imports away.  An import that is under way may need a lock: it goes first."""
    while True:
        for name in ORDER:
            for lock in LOCKS[name]:
                lock.acquire()
                taken.append(lock)
        _imp.acquire_lock()
        if not importing():
            return
        give()
        time.sleep(0.001)


def give():
    _imp.release_lock()
    while taken:
        taken.pop().release()


here.around_fork(take, give)
