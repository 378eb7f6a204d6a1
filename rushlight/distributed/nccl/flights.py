"""Collectives that run on a stream while the host continues."""
from __future__ import annotations

import os
import time

from ...futures import Future
from ..regions import bring_back
from ..stores import DistBackendError
from ..works import Work

PAUSE = 1e-3  # seconds between queries of an event, if the host waits for one


def waits() -> bool:
    """True if ``wait`` blocks the host (TORCH_NCCL_BLOCKING_WAIT); by default the stream waits."""
    return os.environ.get("TORCH_NCCL_BLOCKING_WAIT", "0") not in ("", "0")


class Job:
    """One call of a collective.  ``run`` enqueues it on the communicator's stream; ``back``: (tensor, dense copy) pairs
    that are copied after it; ``entry``: its flight recorder entry."""

    __slots__ = ("run", "back", "result", "entry", "name")

    def __init__(self, run, back, result, entry, name):
        self.run, self.back, self.result, self.entry, self.name = run, back, result, entry, name

    def bring_back(self):
        """Copy received data into tensors that are not dense."""
        for target, source in self.back:
            bring_back(target, source)



class Flight:
    """Jobs enqueued on a stream.  ``done``: the event after them; ``number``: the index among the communicator's
    flights; ``origin``: the caller's stream; ``recorded``: True if a CUDA graph has them, which runs later.

    The memory that it reads and writes is ``kept`` until ``origin`` waits for it, or it is done.
    """

    def __init__(self, engine, jobs: list, origin: int, number: int, recorded: bool):
        self.engine, self.origin, self.number, self.recorded = engine, origin, number, recorded
        self.kept, self.entries = jobs, [job.entry for job in jobs if job.entry]
        self.subjects = [(job.name, [tensor._rush_meta for tensor in job.result[:3]]) for job in jobs]
        self.error, self.awaited = None, False  # awaited: whether a stream, and with it the program, relies on it
        self.done, self.begun = engine.streams.mark(engine.stream), time.monotonic()

    @property
    def about(self) -> str:
        """A description of the operations: "all_reduce of [2] float32"."""
        texts = [(name, ", ".join(f"{list(meta.shape)} {meta.dtype.name}" for meta in metas))
                 for name, metas in self.subjects]
        return ", ".join(f"{name} of {sizes}" if sizes else name for name, sizes in texts)

    def passed(self) -> bool:
        """True if the stream is done with it, or never will be."""
        return self.error is not None or self.engine.streams.passed(self.done)

    def ended(self):
        """Mark it as done, and release all that it keeps."""
        for entry in self.entries:
            entry.ended()
        self.entries, self.kept = [], None

    def failed(self, error: BaseException):
        self.error = error
        for entry in self.entries:
            entry.failed(str(error))
        self.entries, self.kept = [], None

    def look(self):
        """Raise its error, if any."""
        if self.error is not None:
            raise self.error

    def follow(self):
        """Have later work on the current stream wait for it."""
        self.look()
        streams = self.engine.streams
        current = streams.current()
        streams.wait(current, self.done)
        self.awaited = True
        if current == self.origin:
            self.kept = None  # later work on this stream may reuse the memory

    def reach(self, limit: float | None):
        """Returns when the stream is done with it.  DistBackendError after ``limit`` seconds."""
        end = None if limit is None else time.monotonic() + limit
        while not self.passed():
            if end is not None and time.monotonic() >= end:
                raise DistBackendError(f"Timed out waiting {int(limit * 1000)}ms for an operation to complete")
            time.sleep(PAUSE)
        self.look()


class StreamWork(Work):
    """A flight as users see it.  ``blocking``: the host waits for it as well."""

    def __init__(self, flight: Flight, result: list, blocking: bool):
        super().__init__(result)
        self.flight, self.blocking = flight, blocking

    def wait(self, timeout=None) -> bool:
        """Have the current stream wait for it; the host too for a barrier, with ``timeout``, or with
        TORCH_NCCL_BLOCKING_WAIT.  Raises its error if it failed."""
        flight = self.flight
        limit = timeout.total_seconds() if timeout is not None and timeout.total_seconds() > 0 else None
        if not flight.recorded and (self.blocking or limit or waits()):
            flight.reach(limit)
        flight.follow()
        return True

    def is_completed(self) -> bool:
        """True if it is done.  RuntimeError if a CUDA graph has recorded it: then the state is not defined."""
        if self.flight.recorded:
            raise RuntimeError("is_completed: the collective is part of a CUDA graph, which has yet to run")
        return self.flight.passed()

    def is_success(self) -> bool:
        return self.is_completed() and self.flight.error is None

    def exception(self):
        """Return its error; None while it runs or if it did not fail."""
        return self.flight.error

    def get_future(self):
        """Return a Future of the list of result tensors; reading it has the current stream wait."""
        if self.future is None:
            self.future = StreamFuture(self.flight.engine, self.flight.follow)
            self.future.set_result(self._result)
        return self.future


class StreamFuture(Future):
    """A value that a stream computes.  Reading it has the current stream wait, by ``follow``; callbacks of ``then`` run
    on another stream at once, so that the current one continues."""

    def __init__(self, engine, follow=None, before=None):
        super().__init__()
        self.engine, self.follow, self.before = engine, follow, before  # before: whose memory the other stream reads

    def wait(self):
        """Return the value, for which the current stream waits.  Raises an exception that was set, or the
        collective's error."""
        if self.follow is not None:
            self.follow()
        return super().wait()

    value = wait

    def then(self, callback):
        """Return a Future of ``callback(self)``, which runs now, on a stream that waits for the work already on the
        current one."""
        engine, streams = self.engine, self.engine.streams
        after = StreamFuture(engine, before=self)
        with engine.provider.at(engine.index):
            origin, side = streams.current(), engine.beside()
            streams.wait(side, streams.mark(origin))
            streams.enter(side)
            try:
                after.set_result(callback(self))
            except Exception as error:  # raised by ``wait``
                after.set_exception(error)
            finally:
                streams.enter(origin)
            done = streams.mark(side)
        after.follow = lambda: streams.wait(streams.current(), done)
        return after
