"""Workers that do not leave a block in time are ended, and no others."""
from __future__ import annotations

import multiprocessing
import signal
import time

import pytest

from rushlight.distributed.elastic import timer

SPAWNED = multiprocessing.get_context("spawn")
LONG = 600  # seconds that nothing here takes


def worker(client, late: bool):
    timer.configure(client)
    with timer.expires(LONG):
        pass
    with timer.expires(0.2 if late else LONG):
        time.sleep(LONG if late else 0.0)


def run(server, make):
    """Exit codes of a worker that is late and of one that is not."""
    server.start()
    try:
        processes = [SPAWNED.Process(target=worker, args=(make(), late)) for late in (True, False)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(LONG)
        return [process.exitcode for process in processes]
    finally:
        server.stop()


def test_late_workers_are_ended_through_a_queue():
    queue = SPAWNED.Queue()
    assert run(timer.LocalTimerServer(queue, max_interval=0.1), lambda: timer.LocalTimerClient(queue)) == [
        -signal.SIGKILL, 0]


def test_late_workers_are_ended_through_a_pipe(tmp_path):
    path, told = str(tmp_path / "timers"), []
    server = timer.FileTimerServer(path, "job", 0.1, log_event=lambda name, request: told.append(request.scope_id))
    assert run(server, lambda: timer.FileTimerClient(path, signal.SIGTERM)) == [-signal.SIGTERM, 0]
    assert len(told) == 1 and "test_elastic_timer" in told[0]
    assert not list(tmp_path.iterdir())


def test_what_is_asked_for():
    asked = []

    class Client(timer.TimerClient):
        def acquire(self, scope_id, expiration_time):
            asked.append(scope_id)

        def release(self, scope_id):
            asked.append(f"left {scope_id}")

    with timer.expires(1, "here", Client()):
        asked.append("inside")
    assert asked == ["here", "inside", "left here"]
    assert timer.TimerRequest(1, "a", 2.0) == timer.TimerRequest(1, "a", 2.0) != timer.TimerRequest(1, "b", 2.0)
    timer.api.CONFIGURED.clear()
    with pytest.raises(RuntimeError, match="Configure timer client"), timer.expires(1):
        pass
