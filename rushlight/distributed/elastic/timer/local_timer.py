"""Timers of processes that share a queue of ``multiprocessing`` with the server; workers are known by their process."""
from __future__ import annotations

import contextlib
import os
import queue
import signal
import time

from .api import RequestQueue, TimerClient, TimerRequest, TimerServer


class LocalTimerClient(TimerClient):
    """Sends requests of this process through a queue of ``multiprocessing``."""

    def __init__(self, mp_queue):
        self._mp_queue = mp_queue

    def acquire(self, scope_id, expiration_time):
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, expiration_time))

    def release(self, scope_id):
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, -1))


class MultiprocessingRequestQueue(RequestQueue):
    """A queue of ``multiprocessing``."""

    def __init__(self, mp_queue):
        self._mp_queue = mp_queue

    def size(self):
        return self._mp_queue.qsize()

    def get(self, size, timeout):
        found, end = [], time.monotonic() + timeout
        with contextlib.suppress(queue.Empty):
            while len(found) < size:
                found.append(self._mp_queue.get(timeout=max(0.0, end - time.monotonic())))
        return found


class LocalTimerServer(TimerServer):
    """Ends late processes of this host."""

    def __init__(self, mp_queue, max_interval: float = 60, daemon: bool = True):
        super().__init__(MultiprocessingRequestQueue(mp_queue), max_interval, daemon)
        self._timers: dict = {}

    def register_timers(self, timer_requests):
        for request in timer_requests:
            key = request.worker_id, request.scope_id
            if request.expiration_time < 0:
                self._timers.pop(key, None)
            else:
                self._timers[key] = request

    def clear_timers(self, worker_ids):
        self._timers = {key: request for key, request in self._timers.items() if key[0] not in worker_ids}

    def get_expired_timers(self, deadline):
        found: dict = {}
        for request in self._timers.values():
            if request.expiration_time <= deadline:
                found.setdefault(request.worker_id, []).append(request)
        return found

    def _reap_worker(self, worker_id):
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker_id, signal.SIGKILL)
        return True
