"""Timers of processes that know the path of a named pipe, which the server reads."""
from __future__ import annotations

import contextlib
import json
import os
import select
import signal as signals
import time

from .api import RequestQueue, TimerClient, TimerRequest
from .local_timer import LocalTimerServer

PATIENCE = 10.0  # seconds for which a client waits for the server to be there


class FileTimerRequest(TimerRequest):
    """A request of a process: ``signal`` ends it if it is late (0: it has left the scope)."""

    __slots__ = ("version", "signal")

    def __init__(self, worker_pid: int, scope_id: str, expiration_time: float, signal: int = 0):
        super().__init__(worker_pid, scope_id, expiration_time)
        self.version, self.signal = 1, signal

    @property
    def worker_pid(self) -> int:
        return self.worker_id

    def to_json(self) -> str:
        """Return the line that is sent through the pipe."""
        return json.dumps({"version": self.version, "pid": self.worker_id, "scope_id": self.scope_id,
                           "expiration_time": self.expiration_time, "signal": int(self.signal)})


class FileTimerClient(TimerClient):
    """Sends requests through a named pipe; ``signal`` ends this process if it is late."""

    def __init__(self, file_path: str, signal=signals.SIGKILL):
        self._file_path, self.signal = file_path, signal

    def _send(self, request: FileTimerRequest):
        """Write a line.  BrokenPipeError if no server reads."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                descriptor = os.open(self._file_path, os.O_WRONLY | os.O_NONBLOCK)
                break
            except OSError:  # no pipe yet, or no process that reads it
                if time.monotonic() > end:
                    raise BrokenPipeError("Could not send the FileTimerRequest because FileTimerServer is not "
                                          "available.") from None
                time.sleep(0.05)
        try:
            os.set_blocking(descriptor, True)
            os.write(descriptor, request.to_json().encode() + b"\n")  # so few bytes go as one
        finally:
            os.close(descriptor)

    def acquire(self, scope_id, expiration_time):
        self._send(FileTimerRequest(os.getpid(), scope_id, expiration_time, self.signal))

    def release(self, scope_id):
        self._send(FileTimerRequest(os.getpid(), scope_id, -1, 0))


class PipeQueue(RequestQueue):
    """Lines of a named pipe.  It is open for writing here, too, so that it does not end with its last client."""

    def __init__(self, path: str):
        self.path, self.rest = path, b""
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
        os.mkfifo(path, 0o600)
        self.descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def size(self):
        return 1

    def get(self, size, timeout):
        if not select.select([self.descriptor], [], [], timeout)[0]:
            return []
        lines = (self.rest + os.read(self.descriptor, 1 << 16)).split(b"\n")
        self.rest = lines.pop()
        return [self.read(line) for line in lines]

    def read(self, line: bytes) -> FileTimerRequest:
        told = json.loads(line)
        return FileTimerRequest(told["pid"], told["scope_id"], told["expiration_time"], told["signal"])

    def close(self):
        os.close(self.descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.path)


class FileTimerServer(LocalTimerServer):
    """Ends processes that are late, by the signal that they asked for.  ``file_path``: the named pipe, which is made
    here; ``run_id``: of the job, for logs; ``log_event(name, request)`` is called for each that is ended."""

    def __init__(self, file_path: str, run_id: str, max_interval: float = 10, daemon: bool = True, log_event=None):
        super().__init__(None, max_interval, daemon)
        self._file_path, self._run_id = file_path, run_id
        self._log_event = log_event or (lambda name, request: None)
        self._signals: dict = {}
        self._request_queue = PipeQueue(file_path)

    def register_timers(self, timer_requests):
        super().register_timers(timer_requests)
        self._signals |= {r.worker_id: r.signal for r in timer_requests if r.signal}

    def _reap_worker(self, worker_id):
        late = self.get_expired_timers(time.time()).get(worker_id, [])
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker_id, self._signals.get(worker_id, signals.SIGKILL))
        self._log_event("kill worker process", late[0] if late else None)
        return True

    def stop(self):
        """Stop the thread, and remove the pipe."""
        super().stop()
        self._request_queue.close()
