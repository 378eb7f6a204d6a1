"""Timer interfaces: requests, clients that send them, and servers that end late workers."""
from __future__ import annotations

import abc
import contextlib
import inspect
import logging
import threading
import time

log = logging.getLogger("rushlight.distributed")


class TimerRequest:
    """A worker is to leave a scope by a time (seconds since the epoch); a negative time: it has left it."""

    __slots__ = ("worker_id", "scope_id", "expiration_time")

    def __init__(self, worker_id, scope_id: str, expiration_time: float):
        self.worker_id, self.scope_id, self.expiration_time = worker_id, scope_id, expiration_time

    def __eq__(self, other):
        return isinstance(other, TimerRequest) and all(getattr(self, k) == getattr(other, k)
                                                       for k in TimerRequest.__slots__)

    __hash__ = None


class TimerClient(abc.ABC):
    """Requests time limits for a worker."""

    @abc.abstractmethod
    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """This worker is to leave the scope by then."""

    @abc.abstractmethod
    def release(self, scope_id: str) -> None:
        """It has left it."""


class RequestQueue(abc.ABC):
    """The queue of workers' requests."""

    @abc.abstractmethod
    def size(self) -> int:
        """Return the approximate number of requests."""

    @abc.abstractmethod
    def get(self, size: int, timeout: float) -> list:
        """Return up to ``size`` requests; fewer if no more come within ``timeout`` seconds."""


class TimerServer(abc.ABC):
    """Ends late workers: it checks every ``max_interval`` seconds, or sooner if requests come."""

    def __init__(self, request_queue: RequestQueue, max_interval: float, daemon: bool = True):
        self._request_queue, self._max_interval, self._daemon = request_queue, max_interval, daemon
        self._watchdog_thread, self._stop_signaled = None, threading.Event()

    @abc.abstractmethod
    def register_timers(self, timer_requests: list) -> None:
        """Store the workers' requests."""

    @abc.abstractmethod
    def clear_timers(self, worker_ids: set) -> None:
        """Forgets workers."""

    @abc.abstractmethod
    def get_expired_timers(self, deadline: float) -> dict:
        """Worker -> its requests of times that are before ``deadline``."""

    @abc.abstractmethod
    def _reap_worker(self, worker_id) -> bool:
        """End a worker; True if it has ended."""

    def _reap_worker_no_throw(self, worker_id) -> bool:
        try:
            return self._reap_worker(worker_id)
        except Exception:  # noqa: BLE001 - of a subclass; others are still to be looked after
            log.exception("could not end the worker %s, which is late", worker_id)
            return False

    def _run_watchdog(self):
        """Take new requests, and end late workers."""
        count = max(1, self._request_queue.size())
        self.register_timers(self._request_queue.get(count, self._max_interval))
        ended = set()
        for worker_id, late in self.get_expired_timers(time.time()).items():
            log.info("worker %s is late for %s, and is ended", worker_id, [r.scope_id for r in late])
            if self._reap_worker_no_throw(worker_id):
                ended.add(worker_id)
        self.clear_timers(ended)

    def _watchdog_loop(self):
        while not self._stop_signaled.is_set():
            try:
                self._run_watchdog()
            except Exception:  # noqa: BLE001 - a request that cannot be read ends no watch
                log.exception("the watch over workers goes on after an error")

    def start(self) -> None:
        """Begins to look, in a thread."""
        self._stop_signaled.clear()
        self._watchdog_thread = threading.Thread(target=self._watchdog_loop, daemon=self._daemon, name="timers")
        self._watchdog_thread.start()

    def stop(self) -> None:
        """Stop the thread, which may take ``max_interval`` seconds."""
        self._stop_signaled.set()
        if self._watchdog_thread is not None:
            self._watchdog_thread.join()
            self._watchdog_thread = None


CONFIGURED: list = []  # the client of this process


def configure(timer_client: TimerClient) -> None:
    """Set the client that ``expires`` uses in this process."""
    CONFIGURED[:] = [timer_client]


@contextlib.contextmanager
def expires(after: float, scope: str | None = None, client: TimerClient | None = None):
    """A block that this worker is to leave within ``after`` seconds.  RuntimeError without a client (``configure``)."""
    found = client or (CONFIGURED[0] if CONFIGURED else None)
    if found is None:
        raise RuntimeError("Configure timer client before using countdown timers.")
    if scope is None:
        caller = inspect.stack()[2]
        scope = f"{caller.filename}#{caller.lineno}"
    found.acquire(scope, time.time() + after)
    try:
        yield
    finally:
        found.release(scope)
