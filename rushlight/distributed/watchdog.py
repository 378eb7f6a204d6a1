"""Has every process write its flight recorder once a collective of any process has failed, and records the error that
ends the program.

It runs in processes (not in threads that act as processes) if TORCH_FR_BUFFER_SIZE is above 0.
"""
from __future__ import annotations

import contextlib
import os
import sys
import threading

from . import recorder
from .stores import DistError, PrefixStore, Store

PERIOD = 0.2  # seconds between looks at the store
KEY = "failed"


def innermost(store: Store) -> Store:
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return store


class Watchdog:
    """A thread that looks whether any rank has reported a failure; it then writes this rank's ring, with the line at
    which the main thread is."""

    def __init__(self, world, store: Store):
        self.world, self.ended = world, threading.Event()
        self.given, self.connection = store, store.clone()
        self.store = PrefixStore("watchdog", self.connection)
        world.asked, world.dumped = None, False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(recorder.path_of(world))  # of an earlier run
        self.thread = threading.Thread(target=self.watch, name="watchdog", daemon=True)
        self.thread.start()
        self.before, sys.excepthook = sys.excepthook, self.note

    def watch(self):
        while not self.ended.wait(PERIOD):
            try:
                reason = self.store.get(KEY).decode() if self.store.check([KEY]) else ""
            except (DistError, OSError) as error:
                reason = f"the store does not answer: {error}"
            if reason:
                recorder.write_asked(self.world, f"asked for after a failure: {reason}")
                return

    def tell(self, reason: str):
        """Lets the other ranks know of a failure of this one."""
        if not self.ended.is_set():
            with contextlib.suppress(DistError, OSError):  # the store's owner may have ended: others see that too
                self.store.set(KEY, f"rank {self.world.default.rank()}: {reason}")

    def note(self, kind, error, trace):
        """Report an error that ends the program, then call the previous hook."""
        if issubclass(kind, Exception):
            recorder.report_raised(error.with_traceback(trace))
        self.before(kind, error, trace)

    def end(self):
        if self.world.asked:
            recorder.write(self.world, "the rank has ended after a failure of another")
        self.ended.set()
        if self.thread is not threading.current_thread():
            self.thread.join()
        if sys.excepthook == self.note:
            sys.excepthook = self.before
        mine, given = innermost(self.connection), innermost(self.given)
        if mine is not given:
            mine.close()
