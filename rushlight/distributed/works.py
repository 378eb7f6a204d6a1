"""Work objects of asynchronous collectives, and the thread that runs them one after the other."""
from __future__ import annotations

import collections
import threading

from ..futures import Future
from .stores import DistBackendError

limits = threading.local()  # ``timeout`` of the collective that the thread begins


class Work:
    """A collective.  ``result``: the tensors it gives; without ``run`` it is done when it is returned."""

    def __init__(self, result=None, run=None, timeout=None):
        self._result, self.run, self.timeout, self.error, self.source = result, run, timeout, None, None
        self.finished = None if run is None else threading.Event()
        self.future, self.guard = None, threading.Lock()

    def execute(self):
        """Run the collective in the calling thread; its error is raised by ``wait``."""
        try:
            self.source = self.run()
        except BaseException as error:  # noqa: BLE001 - raised again in ``wait``
            self.error = error
        self.run = None
        with self.guard:
            self.finished.set()
            future = self.future
        if future is not None:
            self.fill(future)

    def fill(self, future):
        if self.error is None:
            future.set_result(self._result)
        else:
            future.set_exception(self.error if isinstance(self.error, Exception) else RuntimeError(str(self.error)))

    def wait(self, timeout=None) -> bool:
        """Wait until the collective is done.  Raises its error if it failed, RuntimeError after ``timeout`` (a
        timedelta)."""
        if self.finished is not None:
            limit = timeout.total_seconds() if timeout is not None and timeout.total_seconds() > 0 else None
            if not self.finished.wait(limit):
                raise DistBackendError(f"Timed out waiting {int(limit * 1000)}ms for an operation to complete")
            if self.error is not None:
                raise self.error
        return True

    def is_completed(self) -> bool:
        return self.finished is None or self.finished.is_set()

    def is_success(self) -> bool:
        return self.is_completed() and self.error is None

    def exception(self):
        """Return the error of the collective; None while it runs or if it did not fail."""
        return self.error

    def synchronize(self):
        self.wait()

    def result(self):
        self.wait()
        return self._result

    def source_rank(self) -> int:
        """Return the group rank of the sender of what ``irecv`` without a source received.  RuntimeError for other
        operations."""
        if not isinstance(self.source, int):
            raise RuntimeError(
                "sourceRank() may only be called on work objects that correspond to a recv or recv-from-any call.")
        return self.source

    _source_rank = source_rank

    def get_future(self) -> Future:
        """A Future of the list of result tensors."""
        with self.guard:
            if self.future is None:
                self.future = Future()
                ready = self.is_completed()
            else:
                ready = False
        if ready:
            self.fill(self.future)
        return self.future

    def get_future_result(self) -> Future:
        return self.get_future()


class Together(Work):
    """Several collectives as one."""

    def __init__(self, works=()):
        super().__init__()
        self.works = list(works)

    def append(self, work):
        if work is not None:
            self.works.append(work)

    def wait(self, timeout=None) -> bool:
        for work in self.works:
            work.wait(timeout)
        return True

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self.works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self.works)

    def exception(self):
        return next((work.error for work in self.works if work.error is not None), None)


class Line:
    """Collectives in order: run at once by the caller if none is running, else by the line's thread."""

    def __init__(self, name: str):
        self.name, self.waiting, self.lock = name, collections.deque(), threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.busy, self.closed, self.thread = False, False, None

    def run(self, work: Work):
        """Run a collective for a caller who waits for it."""
        if not self.enter():
            return self.submit(work).wait()
        try:
            work.execute()
        finally:
            self.leave()
        return work.wait()

    def call(self, function):
        """``function()``, in its turn."""
        if self.enter():
            try:
                function()
            finally:
                self.leave()
        else:
            self.submit(Work(None, function)).wait()

    def enter(self) -> bool:
        """True if nothing is running: the caller then has the line until ``leave()``."""
        with self.lock:
            if self.busy or self.waiting or self.closed:
                return False
            self.busy = True
            return True

    def leave(self):
        with self.lock:
            self.busy = False
            if self.thread is not None:
                self.changed.notify_all()

    def submit(self, work: Work) -> Work:
        """Have the line's thread run a collective.  RuntimeError once the line is closed."""
        with self.changed:
            if self.closed:
                raise RuntimeError(f"{self.name} has been destroyed")
            self.waiting.append(work)
            if self.thread is None:
                self.thread = threading.Thread(target=self.serve, name=self.name, daemon=True)
                self.thread.start()
            self.changed.notify_all()
        return work

    def serve(self):
        while True:
            with self.changed:
                while self.busy or not self.waiting and not self.closed:
                    self.changed.wait()
                if not self.waiting:
                    return
                work = self.waiting.popleft()
                self.busy = True
            work.execute()
            with self.changed:
                self.busy = False
                self.changed.notify_all()
            del work

    def close(self):
        """End the thread once the submitted work has run."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join()
