"""Base class of Providers that keep an object with memory, copies and programs for each device."""

from __future__ import annotations

import atexit
import collections
import os
import threading

from ...core.devices import device
from ...core.log import logger
from ...core.random import stream_of
from ..base import Provider

log = logger("kernels")


class BoardProvider(Provider):
    """Devices of a type.  A subclass has ``count``, ``target`` and ``board(index)``, and ``queue``, the class of a
    device's streams.

    What has no kernel there is computed by the host between two copies, and counted in ``fallen_back`` (operators whose
    results' sizes depend on data) or by ``HostStep.runs`` (primitives).
    """

    queue: type

    def __init__(self, kind: str):
        self.type, self.own, self.compiler = kind, threading.local(), None
        self.queues, self.fallen_back, self.process = {}, collections.Counter(), os.getpid()
        atexit.register(self.close)

    def close(self):
        """At process exit, which frees all memory: stop freeing blocks."""
        self.process = 0

    def board(self, index: int):
        """Return a device's state.  RuntimeError in a process that was forked after a device had been used."""
        raise NotImplementedError

    # --- which device is meant ---
    def fingerprint(self, index):
        return f"{super().fingerprint(index)} {self.target().fingerprint()}"

    def current(self):
        return getattr(self.own, "index", 0)

    def set_current(self, index):
        if not 0 <= index < self.count():
            self.refuse(index)
        self.own.index = index

    def refuse(self, index: int):
        """Raises what a number says that no device has."""
        super().set_current(index)

    # --- memory ---
    def allocate(self, index, nbytes):
        return self.board(index).take(nbytes)

    def free(self, index, address, nbytes):
        if self.process and self.process == os.getpid():  # what a forked process inherits is not its own
            self.board(index).give(address, nbytes)

    def trim(self, index):
        self.board(index).trim()

    def statistics(self, index):
        return self.board(index).statistics()

    def reset_statistics(self, index):
        self.board(index).reset_statistics()

    # --- copies ---
    def upload(self, index, target, source, nbytes, non_blocking):
        self.board(index).upload(target, source, nbytes, non_blocking)

    def download(self, index, target, source, nbytes, non_blocking):
        self.board(index).download(target, source, nbytes, non_blocking)

    def copy(self, index, target, source, nbytes):
        if not self.board(index).copy(target, source, nbytes):
            super().copy(index, target, source, nbytes)

    # --- order of work ---
    def streams(self, index):
        if index not in self.queues:
            self.queues[index] = self.queue(self.board(index))
        return self.queues[index]

    def synchronize(self, index):
        self.board(index).wait()

    # --- programs ---
    def run(self, index, code, values):
        self.board(index).run(code, values)

    def generator(self, index):
        return stream_of(device(self.type, index))

    def fallback(self, operator):
        self.fallen_back[operator] += 1
        log.debug("on the host: %s", operator)
